#include "launch/serving_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace colibri {
namespace {

using json = nlohmann::json;

constexpr size_t kMaxRefusalBytes = 16384, kMaxMessageBytes = 200;

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

bool has_text(const json& object, const char* key) {
  const json* value = member(object, key);
  return value != nullptr && value->is_string() && !value->get_ref<const std::string&>().empty();
}

// A completion's text; of a chat the answer, thoughts under either of their names, or calls.
bool brings_text(const json& choice) {
  if (has_text(choice, "text")) return true;
  const json* delta = member(choice, "delta");
  if (delta == nullptr) return false;
  const json* calls = member(*delta, "tool_calls");
  return has_text(*delta, "content") || has_text(*delta, "reasoning_content") ||
         has_text(*delta, "reasoning") || (calls != nullptr && !calls->empty());
}

int64_t count_in(const json& usage, const char* key) {
  const json* value = member(usage, key);
  if (value == nullptr || !value->is_number_integer()) return -1;
  const bool fits = *value >= 0 && *value <= int64_t{1} << 40;
  return fits ? value->get<int64_t>() : -1;
}

std::string shortened(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (text.size() > kMaxMessageBytes) text = text.substr(0, kMaxMessageBytes) + "...";
  return text;
}

}  // namespace

bool SseReader::push(std::string_view bytes) {
  while (!is_too_long_ && !bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() + data_.size() > kMaxBytes) {
      is_too_long_ = true;
      break;
    }
    if (end == bytes.npos) return true;
    bytes.remove_prefix(end + 1);
    std::string line;
    line.swap(line_);
    if (line.ends_with('\r')) line.pop_back();
    if (!take_line(line)) return false;
  }
  return !is_too_long_;
}

// An empty line ends an event; lines of other fields than data, and comments, bring nothing.
bool SseReader::take_line(std::string_view line) {
  if (line.empty()) {
    if (!has_data_) return true;
    std::string data;
    data.swap(data_);
    has_data_ = false;
    return on_data_(data);
  }
  if (!line.starts_with("data:")) return true;
  line.remove_prefix(5);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
  return true;
}

bool ServingAnswer::on_body(double now_s, std::string_view bytes) {
  now_s_ = now_s;
  if (status_ != 200) {
    refusal_ += bytes.substr(0, kMaxRefusalBytes - std::min(refusal_.size(), kMaxRefusalBytes));
    return refusal_.size() < kMaxRefusalBytes;
  }
  if (events_.push(bytes)) return true;
  if (events_.is_too_long()) request_.error = "an event of the stream is longer than 1 MiB";
  return false;
}

bool ServingAnswer::on_event(const std::string& data) {
  if (data == "[DONE]") return has_end_ = true;
  const json event = json::parse(data, nullptr, false);
  const json* error = member(event, "error");
  if (error != nullptr && !error->is_null()) {
    request_.error = "error in the stream: " + error_message_of(data);
  } else if (!event.is_object()) {
    request_.error = "an event of the stream is no JSON object";
  }
  if (!request_.error.empty()) return false;
  if (const json* usage = member(event, "usage"); usage != nullptr && usage->is_object()) {
    const int64_t prompt = count_in(*usage, "prompt_tokens");
    const int64_t made = count_in(*usage, "completion_tokens");
    request_.has_usage = prompt >= 0 && made >= 0;
    if (request_.has_usage) request_.prompt_tokens = prompt, request_.new_tokens = made;
  }
  const json* choices = member(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return true;
  const json& choice = choices->front();
  if (brings_text(choice)) {
    if (request_.first_s) request_.gaps_s.push_back(now_s_ - last_piece_s_);
    if (!request_.first_s) request_.first_s = now_s_;
    request_.last_s = last_piece_s_ = now_s_;
    ++num_pieces_;
  }
  if (has_text(choice, "finish_reason")) {
    has_reason_ = true;
    request_.last_s = now_s_;
  }
  return true;
}

ServedRequest ServingAnswer::end(const std::string& connection_error) {
  if (!request_.error.empty()) return request_;
  if (status_ != 0 && status_ != 200) {
    const std::string message = error_message_of(refusal_);
    request_.error = "HTTP " + std::to_string(status_) + (message.empty() ? "" : ": " + message);
  } else if (!has_end_ && !connection_error.empty()) {
    request_.error = connection_error;
  } else if (!has_end_ && !has_reason_) {
    request_.error = num_pieces_ == 0 ? "the answer is no stream of events"
                                      : "the stream ended without a finish_reason or [DONE]";
  }
  if (!request_.has_usage) request_.new_tokens = num_pieces_;
  return request_;
}

std::string error_message_of(const std::string& body) {
  const json object = json::parse(body, nullptr, false);
  const json* inner = member(object, "error");
  if (inner != nullptr && inner->is_string()) return shortened(inner->get<std::string>());
  const json* message = member(inner == nullptr ? object : *inner, "message");
  if (message != nullptr && message->is_string()) return shortened(message->get<std::string>());
  return shortened(body);
}

}  // namespace colibri
