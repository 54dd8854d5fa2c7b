// Looks over a JSON text before it is read, in linear time: values of some shapes are slow to build
// or take stack to write out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colibri {

struct JsonBounds {
  size_t max_depth = 64;
  size_t max_keys = 4096;  // of one object: one that keeps the order of keys searches all of them
};

// What is wrong with it, as "is not JSON"; empty when it is JSON within the bounds.
std::string json_fault(std::string_view text, const JsonBounds& bounds = {});

}  // namespace colibri
