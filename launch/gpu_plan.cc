#include "launch/gpu_plan.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

using nlohmann::json;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

GpuMemory memory_from(const std::vector<std::byte>& bytes, size_t rank) {
  GpuMemory memory;
  check(bytes.size() == sizeof memory, "rank ", rank, "'s account of its GPU has ", bytes.size(),
        " bytes, want ", sizeof memory, "; are all ranks of one build?");
  std::memcpy(&memory, bytes.data(), sizeof memory);
  return memory;
}

std::string decision_text(
    const std::vector<std::vector<std::byte>>& gathered,
    const std::function<std::vector<int64_t>(std::span<const GpuMemory>)>& decide) {
  try {
    std::vector<GpuMemory> memory;
    for (const auto& bytes : gathered) memory.push_back(memory_from(bytes, memory.size()));
    return json{{"slots", decide(memory)}}.dump();
  } catch (const Error& error) {
    return json{{"kind", static_cast<int>(error.kind())}, {"error", error.what()}}.dump(
        -1, ' ', false, json::error_handler_t::replace);
  }
}

std::vector<int64_t> slots_from(const std::vector<std::byte>& bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json decided = json::parse(text, text + bytes.size(), nullptr, false);
  if (decided.is_object() && decided.contains("error")) {
    const int kind = decided.value("kind", static_cast<int>(ErrorKind::kInternal));
    throw Error(static_cast<ErrorKind>(kind), decided.value("error", ""));
  }
  check(decided.is_object() && decided.contains("slots"), "rank 0's decision on slots is no JSON");
  return decided.at("slots").get<std::vector<int64_t>>();
}

}  // namespace

std::vector<int64_t> agree_on_capacities(
    RankContext& context, const GpuMemory& mine, int64_t timeout_ms,
    const std::function<std::vector<int64_t>(std::span<const GpuMemory>)>& decide) {
  const std::string what = "planning the GPUs' memory";
  const Deadline deadline =
      Deadline::after_ms(timeout_ms + (context.is_root() ? 0 : kAgreeGraceMs));
  try {
    const auto gathered =
        gather(*context.transport, std::as_bytes(std::span(&mine, 1)), deadline, what);
    const std::string decision = context.is_root() ? decision_text(gathered, decide) : "";
    return slots_from(broadcast(*context.transport, bytes_of(decision), deadline, what));
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
}

}  // namespace colibri
