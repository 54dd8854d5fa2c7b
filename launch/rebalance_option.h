// What serve --rebalance asks for.
#pragma once

#include <cstdint>
#include <string>

namespace colibri {

// Steps between two looks, from "every=N", N from 1 to 1e9; 0 for "off". kInput for another word.
int64_t rebalance_steps(const std::string& option);

}  // namespace colibri
