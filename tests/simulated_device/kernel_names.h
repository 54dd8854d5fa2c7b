// Names of kernels for people, from the symbols of the program.
#pragma once

#include <string>

namespace colibri_sim {

// "colibri::cuda::rms_norm_kernel"; a program must export its symbols (ENABLE_EXPORTS) for it.
std::string find_kernel_name(const void* kernel);
// Without return type and parameters, with template arguments.
std::string strip_signature(const std::string& demangled);

}  // namespace colibri_sim
