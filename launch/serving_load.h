// What a load run asks for and when. Pure, and the same for the same seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace colibri {

struct LoadPrompt {
  std::string text;          // where there are no ids
  std::vector<int32_t> ids;  // of the server's tokenizer
  int64_t max_tokens = 0;
};

// Lengths are drawn evenly from [(1 - ratio) n, (1 + ratio) n], at least 1.
struct RandomLengths {
  int64_t prompt_tokens = 0, new_tokens = 0;
  double range_ratio = 0;
};

// `count` prompts whose ids are drawn from `ids`; without ids, of that many short English words.
std::vector<LoadPrompt> random_prompts(const RandomLengths& lengths, int count, uint64_t seed,
                                       const std::vector<int32_t>& ids);

// JSON lines, each {"prompt": "..."} (or ids) with "max_tokens" if it has its own; or the JSON list
// of ShareGPT, of whose conversations the first turn is the prompt and a quarter of the second
// one's bytes is max_tokens. `new_tokens` above 0 stands for what has none, and wins over
// ShareGPT's. Fails with kInput naming `where` and the line, or when no prompt is there.
std::vector<LoadPrompt> parse_dataset(const std::string& text, const std::string& where,
                                      int64_t new_tokens);

// Seconds at which `count` requests are sent, of a Poisson process of `rate` a second; all 0 for an
// infinite one.
std::vector<double> arrival_times(int count, double rate, uint64_t seed);

// A text whose tokens are many different ordinary ones.
std::string sample_text();

}  // namespace colibri
