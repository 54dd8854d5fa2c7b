#include "device_state.h"
#include "simulated_control.h"

namespace colibri_sim {
namespace {

struct Log {
  bool is_on = false;
  std::vector<OrderEntry> entries;
};

Log& the_log() {
  static auto* one = new Log;
  return *one;
}

}  // namespace

void start_order_log() {
  Guard guard(big_lock());
  the_log() = {.is_on = true, .entries = {}};
}

std::vector<OrderEntry> order_log() {
  Guard guard(big_lock());
  return the_log().entries;
}

void log_order(Order what, std::string name, int stream) {
  Guard guard(big_lock());
  if (the_log().is_on) the_log().entries.push_back({what, std::move(name), stream});
}

}  // namespace colibri_sim
