// From the command line's prompts to the engine's requests, and from new ids back to text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/request.h"
#include "launch/run_config.h"
#include "model/checkpoint.h"
#include "model/tokenizer.h"

namespace colibri {

// What to generate from: texts are encoded, ids taken as they are.
struct PromptSet {
  std::shared_ptr<const Tokenizer> tokenizer;  // null when only ids go in and out
  std::vector<std::vector<int32_t>> ids;
  SamplingParams sampling;
  std::vector<int32_t> eos_ids;
  std::vector<std::string> warnings;  // what generation_config.json asks for and is not applied
};

// What a model's own files say of its answers: reads generation_config.json, with `options` where
// it gives something. ids and tokenizer stay empty. Errors: as read_prompts.
PromptSet read_answer_defaults(const GenerateOptions& options, const Checkpoint& checkpoint);

// Reads prompts, tokenizer and sampling defaults. Errors: kInput for unreadable or empty prompts,
// ids outside [0, V), a tokenizer whose ids do not fit the model's vocabulary, sampling parameters
// out of range.
PromptSet read_prompts(const GenerateOptions& options, const Checkpoint& checkpoint);

}  // namespace colibri
