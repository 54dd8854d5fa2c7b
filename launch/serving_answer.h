// Reads what a server of OpenAI's API answers, as hostile input: a stream of events with times, or
// an error. Pure: the caller brings bytes and clock.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launch/serving_stats.h"

namespace colibri {

// Server-sent events: hands out the data of each.
class SseReader {
 public:
  // False: no more is wanted.
  using OnData = std::function<bool(const std::string& data)>;
  explicit SseReader(OnData on_data) : on_data_(std::move(on_data)) {}

  // False when no more is wanted, or an event is longer than kMaxBytes; the rest is not read then.
  bool push(std::string_view bytes);
  bool is_too_long() const { return is_too_long_; }

  static constexpr size_t kMaxBytes = size_t{1} << 20;

 private:
  bool take_line(std::string_view line);

  OnData on_data_;
  std::string line_, data_;
  bool has_data_ = false, is_too_long_ = false;
};

// One streamed answer. Seconds count from the moment its request was sent.
class ServingAnswer {
 public:
  void on_status(int status) { status_ = status; }
  // False when the answer is known to be broken: the rest need not be read.
  bool on_body(double now_s, std::string_view bytes);
  // `connection_error` is empty where the answer came to its end. An answer that was whole before
  // the connection failed is whole.
  ServedRequest end(const std::string& connection_error);

 private:
  bool on_event(const std::string& data);

  int status_ = 0;
  double now_s_ = 0, last_piece_s_ = 0;
  bool has_reason_ = false, has_end_ = false;
  int64_t num_pieces_ = 0;
  std::string refusal_;  // the beginning of the body of another status than 200
  ServedRequest request_;
  SseReader events_{[this](const std::string& data) { return on_event(data); }};
};

// The message in an error's body, {"error": {"message"}} or {"message"}, else the body itself; at
// most 200 bytes of it, on one line.
std::string error_message_of(const std::string& body);

}  // namespace colibri
