#include "launch/rebalance_option.h"

#include <charconv>
#include <string_view>

#include "base/error.h"

namespace colibri {

int64_t rebalance_steps(const std::string& option) {
  if (option == "off") return 0;
  constexpr std::string_view kEvery = "every=";
  int64_t steps = 0;
  if (option.rfind(kEvery, 0) == 0) {
    const char* const end = option.data() + option.size();
    const auto [stop, error] = std::from_chars(option.data() + kEvery.size(), end, steps);
    if (error == std::errc() && stop == end && steps >= 1 && steps <= 1'000'000'000) return steps;
  }
  fail(ErrorKind::kInput, "--rebalance is '", option,
       "', want off, or every=N steps, N from 1 to 1e9");
}

}  // namespace colibri
