#include "coordinator/api_job.h"

#include "coordinator/api_routes.h"

namespace colibri {

void ApiService::Job::end(size_t index, FinishReason reason) {
  choices[index].text->end(reason);
  ++num_ended;
  if (asked.stream) write(api_reason_event(who, static_cast<int>(index), reason));
  if (num_ended == choices.size()) finish();
}

void ApiService::Job::finish() {
  if (is_gone) return;
  if (asked.stream) {
    if (asked.include_usage) write(api_usage_event(who, usage()));
    write(kApiEndEvent);
    return reply->end();
  }
  const HttpHeaders json = {{"Content-Type", "application/json"}};
  if (!candidates.empty())
    return reply->send(200, json, api_score_answer(who, candidates, usage()));
  std::vector<ApiChoice> all;
  for (const Choice& choice : choices) all.push_back(choice.text->whole());
  reply->send(200, json, api_answer(who, all, usage()));
}

void ApiService::Job::fail(int status, const std::string& message) {
  if (is_gone || num_ended == choices.size()) return;
  if (!asked.stream || choices.empty()) return send_error(*reply, status, "", message);
  write(api_error_event(status, message));
  reply->end();
}

ChoiceOptions ApiService::Job::choice_options(size_t index, const Tokenizer& tokenizer) const {
  const size_t prompt = index / static_cast<size_t>(asked.n);
  ChoiceOptions options{.index = static_cast<int>(index),
                        .stops = asked.stop,
                        .end_ids = end_ids,
                        .has_logprobs = asked.top_logprobs.has_value()};
  if (!asked.echo) return options;
  options.echo_ids = prompts[prompt];
  const auto* text = std::get_if<std::string>(&asked.prompts[prompt]);
  options.echo_text = text != nullptr ? *text : tokenizer.decode(prompts[prompt], true);
  return options;
}

}  // namespace colibri
