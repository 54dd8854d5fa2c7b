#include "launch/score_requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "launch/model_text.h"

namespace colibri {
namespace {

// A request as it was given, before it is encoded.
struct RequestText {
  std::string where;  // begins messages; empty for the command line's
  std::string document;
  std::vector<std::string> continuations;
};

RequestText parse_line(const std::string& line, const std::string& where) {
  constexpr const char* kWanted = R"(want {"document": "text", "continuations": ["text", ...]})";
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) fail(ErrorKind::kInput, where, ": no JSON object; ", kWanted);
  for (const auto& [key, value] : json.items()) {
    if (key == "document" || key == "continuations") continue;
    fail(ErrorKind::kInput, where, ": key \"", key, "\"; ", kWanted);
  }
  if (!json.contains("document") || !json["document"].is_string()) {
    fail(ErrorKind::kInput, where, ": \"document\" is missing or no text; ", kWanted);
  }
  if (!json.contains("continuations") || !json["continuations"].is_array() ||
      json["continuations"].empty()) {
    fail(ErrorKind::kInput, where, ": \"continuations\" is missing or no list with texts; ",
         kWanted);
  }
  RequestText request{where + ": ", json["document"].get<std::string>(), {}};
  for (const auto& text : json["continuations"]) {
    if (!text.is_string()) {
      fail(ErrorKind::kInput, where, ": continuation ", text.dump(), " is no text; ", kWanted);
    }
    request.continuations.push_back(text.get<std::string>());
  }
  return request;
}

std::vector<RequestText> read_texts(const ScoreOptions& options) {
  if (options.requests_file.empty()) {
    const std::string document = options.document_file.empty()
                                     ? options.document
                                     : read_text_of(options.document_file, "--document-file");
    return {{"", document, options.continuations}};
  }
  std::istringstream lines(read_text_of(options.requests_file, "--requests"));
  std::vector<RequestText> requests;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    requests.push_back(parse_line(line, options.requests_file + " line " + std::to_string(number)));
  }
  if (requests.empty()) {
    fail(ErrorKind::kInput, "--requests ", options.requests_file, " holds no request");
  }
  return requests;
}

ScoreRequest encode(const RequestText& text, const Tokenizer& tokenizer, int64_t max_context) {
  ScoreRequest request;
  request.document = tokenizer.encode(text.document);
  if (request.document.empty()) {
    fail(ErrorKind::kInput, text.where, "the document is empty, want at least one token");
  }
  for (const std::string& continuation : text.continuations) {
    request.continuations.push_back({continuation, tokenizer.encode(continuation, false)});
    const size_t number = request.continuations.size();
    if (request.continuations.back().ids.empty()) {
      fail(ErrorKind::kInput, text.where, "continuation ", number,
           " is empty, want at least one token");
    }
    if (request.longest() > max_context) {
      fail(ErrorKind::kInput, text.where, "the document is ", request.document.size(),
           " tokens and continuation ", number, " is ", request.continuations.back().ids.size(),
           ", want at most ", max_context,
           " together (--max-context, or the model's max_position_embeddings); shorten them");
    }
  }
  return request;
}

}  // namespace

int64_t ScoreRequest::longest() const {
  size_t longest = 0;
  for (const ScoredText& text : continuations) longest = std::max(longest, text.ids.size());
  return static_cast<int64_t>(document.size() + longest);
}

std::vector<ScoreRequest> read_score_requests(const ScoreOptions& options,
                                              const Checkpoint& checkpoint, int64_t max_context) {
  const std::vector<RequestText> texts = read_texts(options);
  const auto tokenizer = load_tokenizer(checkpoint);
  std::vector<ScoreRequest> requests;
  for (const RequestText& text : texts) {
    requests.push_back(encode(text, *tokenizer, max_context));
  }
  return requests;
}

}  // namespace colibri
