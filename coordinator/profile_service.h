// POST /start_profile and /stop_profile: traces of all ranks, asked for by clients, under a
// directory that whoever starts the server names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/rank_tracer.h"

namespace colibri {

struct ProfileRequest {
  std::string output_dir;  // below the server's directory; never absolute, never upwards
  int64_t num_steps = 0;   // after which it ends by itself; 0: when it is told to
};

// {"output_dir": "a/b", "num_steps": 20}, both may be left out; an empty body is {}. Without a
// place one is made of the time. Errors: ApiError with 400 naming the field: another field, a place
// that is not up to 8 words of letters, digits, '_', '-' and '.', joined by '/', none beginning
// with '.'; steps outside [1, 1000000].
ProfileRequest parse_profile_request(std::string_view body);
// Of a stop: nothing, or {}. Errors: likewise.
void check_stop_request(std::string_view body);

// On the engine's thread, between steps.
class ProfileService {
 public:
  // `directory` "": profiles are refused.
  explicit ProfileService(std::string directory) : directory_(std::move(directory)) {}
  // Call before start() and stop(). `tracer` outlives it.
  void set_tracer(RankTracer& tracer) { tracer_ = &tracer; }

  // Safe on any thread. Errors: ApiError with 404.
  void check_is_on() const;

  // The answers, JSON. Errors: ApiError with 409 for a start while one is under way and a stop
  // while none is; those of RankTracer.
  std::string start(const ProfileRequest& request);
  std::string stop();
  // After each step. Errors: those of stop(), when the last step wanted is done.
  void step_done() {
    if (num_steps_left_ > 0 && --num_steps_left_ == 0) stop();
  }
  bool is_active() const { return tracer_ != nullptr && tracer_->is_active(); }

 private:
  RankTracer* tracer_ = nullptr;
  std::string directory_, output_dir_;
  int64_t num_steps_left_ = 0;
};

}  // namespace colibri
