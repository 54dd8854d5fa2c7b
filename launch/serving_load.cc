#include "launch/serving_load.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"

namespace colibri {
namespace {

using json = nlohmann::json;

constexpr const char* kWords[] = {
    "the",   "of",    "and",  "to",    "in",    "is",    "you",   "that", "it",    "he",    "was",
    "for",   "on",    "are",  "as",    "with",  "his",   "they",  "at",   "be",    "this",  "have",
    "from",  "or",    "one",  "had",   "by",    "word",  "but",   "not",  "what",  "all",   "were",
    "we",    "when",  "your", "can",   "said",  "there", "use",   "each", "which", "she",   "do",
    "how",   "their", "if",   "will",  "up",    "other", "about", "out",  "many",  "then",  "them",
    "these", "so",    "some", "her",   "would", "make",  "like",  "him",  "into",  "time",  "has",
    "look",  "two",   "more", "write", "go",    "see",   "no",    "way",  "could", "my",    "than",
    "first", "water", "been", "call",  "who",   "oil",   "its",   "now",  "find",  "long",  "down",
    "day",   "did",   "get",  "come",  "made",  "may",   "part",  "over", "new",   "sound", "take",
    "only",  "work",  "know", "year",  "live",  "me",    "back",  "give", "most",  "very",  "good",
    "man",   "think", "say",  "great", "where", "help",  "much",  "too",  "line",  "right"};
constexpr int64_t kDefaultNewTokens = 128;

// In [0, 1).
double draw(std::mt19937_64& random) {
  return std::ldexp(static_cast<double>(random() >> 11), -53);
}

int64_t draw_length(std::mt19937_64& random, int64_t middle, double ratio) {
  const auto n = static_cast<double>(middle);
  const auto low = static_cast<int64_t>(std::floor((1 - ratio) * n));
  const auto high = static_cast<int64_t>(std::ceil((1 + ratio) * n));
  const auto width = static_cast<double>(high - low + 1);
  return std::max<int64_t>(1, low + static_cast<int64_t>(draw(random) * width));
}

size_t draw_index(std::mt19937_64& random, size_t size) {
  return static_cast<size_t>(draw(random) * static_cast<double>(size));
}

json parsed(const std::string& text) {
  int deepest = 0;
  const auto look = [&](int depth, json::parse_event_t, const json&) {
    deepest = std::max(deepest, depth);
    return depth <= 64;
  };
  json value = json::parse(text, look, false);
  return deepest > 64 ? json(json::value_t::discarded) : value;
}

std::vector<int32_t> ids_of(const json& list, const std::string& where) {
  std::vector<int32_t> ids;
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      fail(ErrorKind::kInput, where, ": prompt holds ", id.dump(), ", want token ids");
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

LoadPrompt prompt_of_line(const std::string& line, const std::string& where, int64_t new_tokens) {
  const json object = parsed(line);
  const auto prompt = object.is_object() ? object.find("prompt") : object.end();
  if (!object.is_object() || prompt == object.end() ||
      !(prompt->is_string() || prompt->is_array())) {
    fail(ErrorKind::kInput, where, R"(: want {"prompt": "text"} or {"prompt": [1, 2]}, each with )",
         R"("max_tokens" if it has its own)");
  }
  LoadPrompt made;
  if (prompt->is_string()) made.text = prompt->get<std::string>();
  if (prompt->is_array()) made.ids = ids_of(*prompt, where);
  if (made.text.empty() && made.ids.empty()) fail(ErrorKind::kInput, where, ": prompt is empty");
  const json max_tokens = object.value("max_tokens", json());
  made.max_tokens = new_tokens > 0 ? new_tokens : kDefaultNewTokens;
  if (max_tokens.is_null()) return made;
  if (!max_tokens.is_number_integer() || max_tokens < 1 || max_tokens > 1 << 30) {
    fail(ErrorKind::kInput, where, ": max_tokens is ", max_tokens.dump(), ", want 1 or more");
  }
  made.max_tokens = max_tokens.get<int64_t>();
  return made;
}

std::string turn_of(const json& turns, size_t index) {
  const json& turn = turns[index];
  return turn.is_object() && turn.contains("value") && turn["value"].is_string()
             ? turn["value"].get<std::string>()
             : "";
}

// Conversations without a question and an answer are left out, as in that set many are.
std::vector<LoadPrompt> prompts_of_share_gpt(const json& list, int64_t new_tokens) {
  std::vector<LoadPrompt> prompts;
  for (const json& one : list) {
    if (!one.is_object() || !one.contains("conversations")) continue;
    const json& turns = one["conversations"];
    if (!turns.is_array() || turns.size() < 2) continue;
    const std::string question = turn_of(turns, 0), answer = turn_of(turns, 1);
    if (question.empty() || answer.empty()) continue;
    const auto length = static_cast<int64_t>(answer.size() / 4);
    prompts.push_back({.text = question,
                       .ids = {},
                       .max_tokens = new_tokens > 0 ? new_tokens : std::max<int64_t>(1, length)});
  }
  return prompts;
}

}  // namespace

std::vector<LoadPrompt> random_prompts(const RandomLengths& lengths, int count, uint64_t seed,
                                       const std::vector<int32_t>& ids) {
  std::mt19937_64 random(seed);
  std::vector<LoadPrompt> prompts(static_cast<size_t>(count));
  for (LoadPrompt& prompt : prompts) {
    const int64_t length = draw_length(random, lengths.prompt_tokens, lengths.range_ratio);
    prompt.max_tokens = draw_length(random, lengths.new_tokens, lengths.range_ratio);
    for (int64_t i = 0; i < length; ++i) {
      if (ids.empty()) {
        prompt.text += (i == 0 ? "" : " ");
        prompt.text += kWords[draw_index(random, std::size(kWords))];
      } else {
        prompt.ids.push_back(ids[draw_index(random, ids.size())]);
      }
    }
  }
  return prompts;
}

std::vector<LoadPrompt> parse_dataset(const std::string& text, const std::string& where,
                                      int64_t new_tokens) {
  std::vector<LoadPrompt> prompts;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '[') {
    const json list = parsed(text);
    if (!list.is_array()) fail(ErrorKind::kInput, where, " begins like a JSON list and is none");
    prompts = prompts_of_share_gpt(list, new_tokens);
  } else {
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      prompts.push_back(
          prompt_of_line(line, where + " line " + std::to_string(number), new_tokens));
    }
  }
  if (prompts.empty()) {
    fail(ErrorKind::kInput, where, R"( holds no prompt; want JSON lines {"prompt": ...}, or a )",
         R"(JSON list of {"conversations": [{"value": ...}, {"value": ...}]})");
  }
  return prompts;
}

std::vector<double> arrival_times(int count, double rate, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> times(static_cast<size_t>(count), 0.0);
  if (std::isinf(rate)) return times;
  double at = 0;
  for (double& time : times) {
    time = at;
    at += -std::log1p(-draw(random)) / rate;
  }
  return times;
}

std::string sample_text() {
  std::string text;
  for (const char* word : kWords) text += (text.empty() ? "" : " ") + std::string(word);
  return text;
}

}  // namespace colibri
