#include "launch/prompts.h"

#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "launch/model_text.h"

namespace colibri {
namespace {

std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc{}) {
      fail(ErrorKind::kInput, "--prompt-ids: '", std::string(at, end),
           "' does not begin with a token id; want numbers as 1,2,3");
    }
    ids.push_back(id);
    at = stop;
    if (at == end) return ids;
    if (*at++ != ',') {
      fail(ErrorKind::kInput, "--prompt-ids: '", *(at - 1), "' after id ", id, ", want a comma");
    }
  }
}

using Encode = std::function<std::vector<int32_t>(const std::string&)>;

// A line is a JSON string, or an object with "prompt" (text) or "prompt_ids" (numbers).
void add_line(const std::string& line, const std::string& where, const Encode& encode,
              std::vector<std::vector<int32_t>>& prompts) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_string()) {
    prompts.push_back(encode(json.get<std::string>()));
  } else if (json.is_object() && json.contains("prompt") && json["prompt"].is_string()) {
    prompts.push_back(encode(json["prompt"].get<std::string>()));
  } else if (json.is_object() && json.contains("prompt_ids") && json["prompt_ids"].is_array()) {
    std::vector<int32_t> ids;
    for (const auto& id : json["prompt_ids"]) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
        fail(ErrorKind::kInput, where, ": prompt_ids holds ", id.dump(), ", want token ids");
      }
      ids.push_back(id.get<int32_t>());
    }
    prompts.push_back(std::move(ids));
  } else {
    fail(ErrorKind::kInput, where,
         R"(: want a JSON string, {"prompt": "text"} or {"prompt_ids": [1, 2]})");
  }
}

std::vector<std::vector<int32_t>> read_prompts_file(const std::string& path, const Encode& encode) {
  std::istringstream lines(read_text_of(path, "--prompts"));
  std::vector<std::vector<int32_t>> prompts;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    add_line(line, path + " line " + std::to_string(number), encode, prompts);
  }
  if (prompts.empty()) fail(ErrorKind::kInput, "--prompts ", path, " holds no prompt");
  return prompts;
}

// Null where there is none and, as far as the options tell, only ids go in and out.
std::shared_ptr<const Tokenizer> read_tokenizer(const GenerateOptions& options,
                                                const Checkpoint& checkpoint) {
  const bool may_be_ids = !options.prompt_ids.empty() || !options.prompts_file.empty();
  if (may_be_ids && options.stop.empty() && (options.print_ids || options.print_json) &&
      !checkpoint.text("tokenizer.json")) {
    return nullptr;
  }
  return load_tokenizer(checkpoint);
}

SamplingParams choose_sampling(const GenerateOptions& options, const GenerationDefaults& defaults) {
  SamplingParams params;
  const bool asks = options.temperature || options.top_p || options.top_k || options.min_p;
  params.greedy = options.greedy || options.temperature == 0.0 || (!asks && !defaults.do_sample);
  const auto choose = [](const std::optional<double>& given, float otherwise) {
    return given ? static_cast<float>(*given) : otherwise;
  };
  params.temperature = choose(options.temperature, defaults.temperature);
  params.top_p = choose(options.top_p, defaults.top_p);
  params.min_p = choose(options.min_p, defaults.min_p);
  params.top_k = options.top_k.value_or(defaults.top_k);
  params.seed = options.seed;
  check_sampling(params);
  return params;
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    fail(ErrorKind::kInput, "prompt id ", id, " is outside the vocabulary, want 0 to ",
         vocab_size - 1);
  }
}

}  // namespace

PromptSet read_answer_defaults(const GenerateOptions& options, const Checkpoint& checkpoint) {
  PromptSet set;
  GenerationDefaults defaults;
  if (const auto text = checkpoint.text("generation_config.json")) {
    defaults =
        parse_generation_defaults(*text, (checkpoint.path() / "generation_config.json").string());
  }
  set.sampling = choose_sampling(options, defaults);
  for (const std::string& setting : defaults.not_applied) {
    set.warnings.push_back("generation_config.json asks for " + setting + ", which is not applied");
  }
  if (!options.ignore_eos) {
    set.eos_ids = defaults.eos_ids.empty() ? checkpoint.config().eos_ids : defaults.eos_ids;
  }
  return set;
}

PromptSet read_prompts(const GenerateOptions& options, const Checkpoint& checkpoint) {
  PromptSet set = read_answer_defaults(options, checkpoint);
  set.tokenizer = read_tokenizer(options, checkpoint);
  const Encode encode = [&](const std::string& text) {
    if (!set.tokenizer) set.tokenizer = load_tokenizer(checkpoint);  // fails: there is none
    return set.tokenizer->encode(text);
  };
  if (!options.prompt_ids.empty()) {
    set.ids.push_back(parse_ids(options.prompt_ids));
  } else if (!options.prompts_file.empty()) {
    set.ids = read_prompts_file(options.prompts_file, encode);
  } else {
    const std::string text =
        options.has_prompt ? options.prompt : read_text_of(options.prompt_file, "--prompt-file");
    set.ids.push_back(encode(text));
  }
  for (const auto& ids : set.ids) {
    if (ids.empty()) fail(ErrorKind::kInput, "the prompt is empty, want at least one token");
    check_ids(ids, checkpoint.config().vocab_size);
  }
  return set;
}

}  // namespace colibri
