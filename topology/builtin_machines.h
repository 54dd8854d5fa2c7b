// The files of configs/machines as they were when the program was built (cmake/embed_files.cmake).
#pragma once

#include <span>
#include <string_view>

namespace colibri {

struct BuiltinMachine {
  std::string_view name, text;  // "8xh200"
};

std::string_view builtin_parts();                    // parts.toml
std::span<const BuiltinMachine> builtin_machines();  // by name

}  // namespace colibri
