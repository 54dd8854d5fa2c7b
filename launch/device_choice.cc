#include "launch/device_choice.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rank_list.h"
#include "topology/machine.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

using nlohmann::json;

// What a rank tells rank 0: the device it was asked to use, what it sees, or why it cannot.
struct Report {
  std::optional<ErrorInfo> error;
  std::string backend = "cpu";  // or "cuda", "simulated"
  bool has_nccl = false;        // known where rows may travel over it
  RankGpus seen;
};

json to_json(const GpuInfo& gpu) {
  return {{"ordinal", gpu.ordinal}, {"name", gpu.name},
          {"uuid", gpu.uuid},       {"major", gpu.major},
          {"minor", gpu.minor},     {"memory", gpu.memory_bytes},
          {"pci", gpu.pci_bus_id},  {"processors", gpu.num_multiprocessors}};
}

GpuInfo gpu_from(const json& text) {
  GpuInfo gpu;
  gpu.ordinal = text.at("ordinal");
  gpu.name = text.at("name");
  gpu.uuid = text.at("uuid");
  gpu.major = text.at("major");
  gpu.minor = text.at("minor");
  gpu.memory_bytes = text.at("memory");
  gpu.pci_bus_id = text.at("pci");
  gpu.num_multiprocessors = text.at("processors");
  return gpu;
}

json to_json(const ErrorInfo& error) {
  return {{"kind", static_cast<int>(error.kind)}, {"message", error.message}};
}

ErrorInfo error_from(const json& text) {
  const int kind = text.at("kind");
  const bool is_known = kind >= 0 && kind <= static_cast<int>(ErrorKind::kInternal);
  return {is_known ? static_cast<ErrorKind>(kind) : ErrorKind::kInternal, text.at("message")};
}

json to_json(const Report& report) {
  if (report.error) return {{"error", to_json(*report.error)}};
  json gpus = json::array();
  for (const GpuInfo& gpu : report.seen.gpus) gpus.push_back(to_json(gpu));
  return {{"backend", report.backend},
          {"nccl", report.has_nccl},
          {"node", report.seen.node},
          {"local_rank", report.seen.local_rank},
          {"wanted", report.seen.wanted_ordinal},
          {"gpus", std::move(gpus)}};
}

Report report_from(const json& text, int rank) {
  Report report;
  if (text.contains("error")) {
    report.error = error_from(text.at("error"));
    return report;
  }
  report.backend = text.at("backend");
  report.has_nccl = text.at("nccl");
  report.seen.rank = rank;
  report.seen.node = text.at("node");
  report.seen.local_rank = text.at("local_rank");
  report.seen.wanted_ordinal = text.at("wanted");
  for (const json& gpu : text.at("gpus")) report.seen.gpus.push_back(gpu_from(gpu));
  return report;
}

// What rank 0 tells all: an error, or each rank's GPU (none of them: the CPU) and their link.
struct Decision {
  std::optional<ErrorInfo> error;
  struct Rank {
    std::string node;
    GpuInfo gpu;
  };
  std::vector<Rank> ranks = {};
  bool over_nccl = false;
  std::vector<int> ranks_without_nccl = {};
};

json to_json(const Decision& decision) {
  if (decision.error) return {{"error", to_json(*decision.error)}};
  json ranks = json::array();
  for (const auto& rank : decision.ranks) {
    ranks.push_back({{"node", rank.node}, {"gpu", to_json(rank.gpu)}});
  }
  return {{"ranks", std::move(ranks)},
          {"over_nccl", decision.over_nccl},
          {"without_nccl", decision.ranks_without_nccl}};
}

Decision decision_from(const json& text) {
  Decision decision;
  if (text.contains("error")) {
    decision.error = error_from(text.at("error"));
    return decision;
  }
  for (const json& rank : text.at("ranks")) {
    decision.ranks.push_back({rank.at("node"), gpu_from(rank.at("gpu"))});
  }
  decision.over_nccl = text.at("over_nccl");
  decision.ranks_without_nccl = text.at("without_nccl").get<std::vector<int>>();
  return decision;
}

// Names come from drivers: nothing holds them to UTF-8.
std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class Read>
auto parsed(std::span<const std::byte> bytes, const Read& read) {
  try {
    return read(json::parse(reinterpret_cast<const char*>(bytes.data()),
                            reinterpret_cast<const char*>(bytes.data() + bytes.size())));
  } catch (const json::exception& error) {
    fail(ErrorKind::kInternal, "another rank's account of its GPUs cannot be read: ", error.what(),
         "; are all ranks of one build?");
  }
}

std::string hostname() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this machine";
  return name.data();
}

struct Seen {
  const CudaBackend* backend = nullptr;
  Report report;
};

// Whether rows travel, and NCCL is one of the ways allowed. A rank alone sends none.
bool may_use_nccl(const CommonOptions& options, int num_ranks) {
  const bool is_allowed = options.transport == "nccl" || options.transport == "auto";
  return is_allowed && (num_ranks > 1 || options.self_exchange);
}

Seen look(const CommonOptions& options, const RankContext& context, const DeviceSources& sources) {
  Seen seen;
  seen.report.seen.rank = context.rank;
  seen.report.seen.local_rank = context.local_rank;
  seen.report.seen.node = sources.node;
  try {
    const DeviceRequest request = parse_device(options.device);
    if (!request.is_cuda) return seen;
    seen.backend = &sources.open_backend();
    seen.report.backend = seen.backend->kind;
    seen.report.seen.wanted_ordinal = request.ordinal;
    GpuProbe probe = seen.backend->probe_gpus();
    require_gpu(probe);
    seen.report.seen.gpus = std::move(probe.gpus);
    const bool asks = options.transport == "nccl" || may_use_nccl(options, context.size);
    seen.report.has_nccl = asks && seen.backend->has_nccl();
  } catch (const Error& error) {
    seen.report.error = ErrorInfo{error.kind(), error.what()};
  }
  return seen;
}

// NCCL is opened where a rank runs: one machine may have it and another not, and an exchange wants
// it everywhere.
void decide_link(const std::vector<Report>& reports, const CommonOptions& options,
                 Decision& decision) {
  std::vector<int> without;
  for (const Report& report : reports) {
    if (!report.has_nccl) without.push_back(report.seen.rank);
  }
  if (options.transport == "nccl" && !without.empty()) {
    decision.error = ErrorInfo{
        ErrorKind::kUnsupported,
        "--transport nccl: " + rank_list(without) + (without.size() == 1 ? " has" : " have") +
            " no NCCL: no libnccl.so.2 is found there, or libcolibri_cuda.so was built "
            "where nccl.h was not (cmake -DCOLIBRI_NCCL_ROOT=...); install it, or use "
            "--transport mpi"};
    return;
  }
  if (!may_use_nccl(options, static_cast<int>(reports.size()))) return;
  decision.over_nccl = without.empty();
  decision.ranks_without_nccl = std::move(without);
}

Decision decide(const std::vector<Report>& reports, const CommonOptions& options) {
  Decision decision;
  for (const Report& report : reports) {
    if (report.error) return {.error = report.error};
  }
  std::vector<RankGpus> ranks;
  for (const Report& report : reports) {
    if (report.backend != reports[0].backend) {
      return {.error = ErrorInfo{ErrorKind::kInput,
                                 "rank 0 computes on '" + reports[0].backend + "', rank " +
                                     std::to_string(report.seen.rank) + " on '" + report.backend +
                                     "'; want --device alike on all ranks"}};
    }
    ranks.push_back(report.seen);
  }
  if (reports[0].backend == "cpu") return decision;
  try {
    const std::vector<int> chosen = choose_gpus(ranks, options.allow_mixed_gpus);
    for (size_t i = 0; i < ranks.size(); ++i) {
      decision.ranks.push_back({ranks[i].node, ranks[i].gpus[static_cast<size_t>(chosen[i])]});
    }
    decide_link(reports, options, decision);
  } catch (const Error& error) {
    decision.error = ErrorInfo{error.kind(), error.what()};
  }
  return decision;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Decision agree_on(const Report& mine, const CommonOptions& options, RankContext& context) {
  if (context.transport == nullptr) return decide({mine}, options);
  const std::string what = "choosing devices";
  const int64_t timeout_ms = int64_t{options.start_timeout_s} * 1000;
  const Deadline deadline =
      Deadline::after_ms(timeout_ms + (context.is_root() ? 0 : kAgreeGraceMs));
  const std::string text = dumped(to_json(mine));
  const auto gathered = gather(*context.transport, bytes_of(text), deadline, what);
  std::string answer;
  if (context.is_root()) {
    std::vector<Report> reports;
    for (const auto& bytes : gathered) {
      const int rank = static_cast<int>(reports.size());
      reports.push_back(
          parsed(bytes, [rank](const json& report) { return report_from(report, rank); }));
    }
    answer = dumped(to_json(decide(reports, options)));
  }
  const auto decided = broadcast(*context.transport, bytes_of(answer), deadline, what);
  return parsed(decided, decision_from);
}

// CPUs near the GPUs of this machine's ranks, shared by those whose GPUs hang at the same place.
void place_near(const Decision& decision, const RankContext& context, ChosenDevice& chosen) {
  std::vector<std::string> bus_ids;
  size_t which = 0;
  const std::string& node = decision.ranks[static_cast<size_t>(context.rank)].node;
  for (size_t rank = 0; rank < decision.ranks.size(); ++rank) {
    if (decision.ranks[rank].node != node) continue;
    if (static_cast<int>(rank) == context.rank) which = bus_ids.size();
    bus_ids.push_back(decision.ranks[rank].gpu.pci_bus_id);
  }
  std::vector<std::vector<int>> near;
  for (const PciPlace& place : places_of_pci(bus_ids)) {
    if (near.size() == which) chosen.numa_node = place.numa_node;
    near.push_back(place.cpus);
  }
  chosen.near_cpus = share_near_cpus(near, which);
}

}  // namespace

DeviceRequest parse_device(const std::string& text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {.is_cuda = true};
  constexpr std::string_view kPrefix = "cuda:";
  int ordinal = -1;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + kPrefix.size(), end, ordinal);
    if (read.ec == std::errc() && read.ptr == end && ordinal >= 0) {
      return {.is_cuda = true, .ordinal = ordinal};
    }
  }
  fail(ErrorKind::kInput, "--device is '", text, "', want cpu, cuda or cuda:N (N from 0)");
}

ChosenDevice choose_device(const CommonOptions& options, RankContext& context,
                           const DeviceSources& sources) {
  const Seen seen = look(options, context, sources);
  ChosenDevice chosen;
  try {
    const Decision decision = agree_on(seen.report, options, context);
    if (decision.error) throw Error(decision.error->kind, decision.error->message);
    if (decision.ranks.empty()) return chosen;
    check(decision.ranks.size() == static_cast<size_t>(context.size), "GPUs of ",
          decision.ranks.size(), " ranks, want ", context.size);
    chosen.backend = seen.backend;
    chosen.over_nccl = decision.over_nccl;
    chosen.ranks_without_nccl = decision.ranks_without_nccl;
    for (const auto& rank : decision.ranks) chosen.gpu_of_rank.push_back(rank.gpu);
    chosen.gpu = chosen.gpu_of_rank[static_cast<size_t>(context.rank)];
    if (options.bind == "own") place_near(decision, context, chosen);
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
  return chosen;
}

ChosenDevice choose_device(const CommonOptions& options, RankContext& context) {
  ChosenDevice chosen = choose_device(
      options, context, {[]() -> const CudaBackend& { return open_cuda_backend(); }, hostname()});
  const std::vector<int>& without = chosen.ranks_without_nccl;
  if (context.is_root() && !without.empty()) {
    context.log->warn("{} without NCCL: rows travel through host memory (--transport mpi)",
                      rank_list(without));
  }
  return chosen;
}

}  // namespace colibri
