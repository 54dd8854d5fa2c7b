#include "tests/support/run_model.h"

#include <algorithm>

#include "launch/local_ranks.h"
#include "launch/model_session.h"

namespace colibri {
namespace {

SessionNeeds needs_of(const ModelRun& run) {
  SessionNeeds needs;
  needs.num_sequences = static_cast<int>(run.prompts.size());
  needs.scores_prompts = run.score_prompt;
  for (const auto& prompt : run.prompts) {
    needs.max_context =
        std::max(needs.max_context, static_cast<int64_t>(prompt.size()) + run.max_tokens);
  }
  return needs;
}

Request request_of(const ModelRun& run, size_t prompt_idx, ModelOutput& output) {
  Request request;
  request.prompt_ids = run.prompts[prompt_idx];
  request.max_tokens = run.max_tokens;
  request.score_prompt = run.score_prompt && prompt_idx == 0;
  request.on_token = [&output, prompt_idx](int32_t id) {
    output.ids[prompt_idx].push_back(id);
    return true;
  };
  if (prompt_idx == 0) {
    request.on_logits = [&output](std::span<const float> row) {
      output.logits.emplace_back(row.begin(), row.end());
    };
  }
  if (run.adjust) run.adjust(prompt_idx, request);
  return request;
}

}  // namespace

ModelOutput run_model(const ModelRun& run) {
  ModelOutput output;
  output.ids.resize(run.prompts.size());
  run_local_ranks(run.options, run.options.ranks, [&](RankContext& context) {
    if (run.device.is_cuda()) context.device = run.device;
    ModelSession session(
        run.options, context, [&](const Checkpoint&) { return needs_of(run); }, run.hooks);
    return session.run([&](Serving& serving) {
      for (size_t i = 0; i < run.prompts.size(); ++i)
        serving.engine.add(request_of(run, i, output));
      while (serving.engine.step()) {
      }
      output.fixed_steps = serving.forward.fixed_steps();
      return 0;
    });
  });
  return output;
}

}  // namespace colibri
