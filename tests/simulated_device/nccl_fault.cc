#include "nccl_fault.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "simulated_nccl.h"

namespace colibri_sim {
namespace {

std::optional<std::string>& chosen() {
  static std::optional<std::string> text;
  return text;
}

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr,
               "simulated NCCL: COLIBRI_SIM_NCCL_FAULT=%s; want rank=R,op=N,kind=error|abort|"
               "slow:MS|silent\n",
               text.c_str());
  std::abort();
}

bool read_kind(const std::string& value, NcclFault& fault) {
  if (value == "error") fault.kind = FaultKind::kError;
  if (value == "abort") fault.kind = FaultKind::kAbort;
  if (value == "silent") fault.kind = FaultKind::kSilent;
  if (value.rfind("slow:", 0) == 0) {
    fault.kind = FaultKind::kSlow;
    fault.slow_ms = std::atoll(value.c_str() + 5);
  }
  return fault.kind != FaultKind::kNone;
}

NcclFault parse(const std::string& text) {
  NcclFault fault;
  if (text.empty()) return fault;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) refuse(text);
    const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "rank") {
      fault.rank = std::atoi(value.c_str());
    } else if (name == "op") {
      fault.op = static_cast<uint64_t>(std::atoll(value.c_str()));
    } else if (name != "kind" || !read_kind(value, fault)) {
      refuse(text);
    }
  }
  if (fault.rank < 0 || fault.op == 0 || fault.kind == FaultKind::kNone) refuse(text);
  return fault;
}

}  // namespace

NcclFault current_nccl_fault() {
  if (chosen()) return parse(*chosen());
  const char* text = std::getenv("COLIBRI_SIM_NCCL_FAULT");
  return parse(text == nullptr ? "" : text);
}

void set_nccl_fault(const std::string& text) {
  parse(text);
  chosen() = text;
}

}  // namespace colibri_sim
