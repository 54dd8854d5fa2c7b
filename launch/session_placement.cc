// --placement auto: rank 0 plans where the experts lie, the others hear of it.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "launch/loads_option.h"
#include "launch/model_session.h"
#include "launch/plan_input.h"
#include "topology/catalogue.h"
#include "topology/cluster_file.h"
#include "topology/placement_file.h"
#include "topology/planner.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

// A device of the catalogue whose name is part of the GPU's.
const DeviceSpec& device_like(const std::string& gpu_name) {
  std::string name = gpu_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto& devices = builtin_catalogue().devices;
  for (const auto& [key, device] : devices) {
    if (device.is_gpu && name.find(key) != std::string::npos) return device;
  }
  return devices.at("h100");
}

// Where nothing is known of the machine: ranks of one CPU that share it, or GPUs around a switch.
Cluster plain_machine(const RankContext& context) {
  Cluster cluster;
  cluster.name = "plain";
  const bool is_gpu = context.device.is_cuda();
  const auto add = [&](PartKind kind, const std::string& name, int device) {
    ClusterPart part;
    part.kind = kind;
    part.name = name;
    part.device = device;
    cluster.parts.push_back(part);
  };
  if (!is_gpu) {
    cluster.devices = {builtin_catalogue().devices.at("cpu-laptop")};
    add(PartKind::kCpu, "cpu0", 0);
    return cluster;
  }
  const LinkSpec& link = builtin_catalogue().links.at("nvlink4");
  cluster.devices = {device_like(context.device.gpu.name)};
  add(PartKind::kNvSwitch, "nvswitch", -1);
  for (int rank = 0; rank < context.size; ++rank) {
    add(PartKind::kGpu, "gpu" + std::to_string(rank), 0);
    cluster.links.push_back({0, rank + 1, "nvlink4", link.gbps, link.latency_us});
  }
  return cluster;
}

RankMap ranks_of(const RankContext& context, const std::string& machine) {
  const bool on_gpus = context.device.is_cuda();
  if (!machine.empty()) return ranks_on(machine_named(machine), context.size, on_gpus, "1");
  try {
    return ranks_on(machine_named("auto"), context.size, on_gpus, "1");
  } catch (const Error& error) {
    // The machine is not seen, or has less than the ranks use: they are several to a device.
    context.log->info("placement auto: {}", error.what());
  }
  return ranks_on(plain_machine(context), context.size, on_gpus, "1");
}

}  // namespace

Placement ModelSession::plan_of_root(const std::vector<int64_t>& capacity_slots) const {
  const RankMap ranks = ranks_of(context_, options_.machine);
  const double context = static_cast<double>(max_context()) / 2;
  const LayerTerms terms =
      layer_terms(shape_, ranks, {.size = decode_size(num_sequences(), context)});
  const std::optional<ExpertLoads> loads = loads_named(options_.loads, shape_);
  PlanRequest request{shape_, terms, loads ? &*loads : nullptr};
  request.capacity_slots = capacity_slots;
  if (options_.coordinator_experts > 0) request.coordinator_slots = options_.coordinator_experts;
  // Ranks of one machine's CPU share its memory: copies there would have to be paid for.
  if (capacity_slots.empty()) request.replicas = 0;
  request.survives_one = needs_.survives_one;
  for (int rank = 0; rank < context_.size; ++rank) {
    request.domain_of_rank.push_back(ranks.part(rank).node);
  }
  const Plan plan = plan_placement(request);
  context_.log->info("placement auto: {}; {:.1f} us a step predicted, {:.1f} % above the bound",
                     describe(plan.placement), plan.predicted_us, 100 * plan.gap());
  return plan.placement;
}

std::optional<Placement> ModelSession::planned_placement(const std::vector<int64_t>& capacity_slots,
                                                         int64_t timeout_ms) {
  if (parse_placement_option(options_.placement).kind != PlacementKind::kAuto) return std::nullopt;
  const std::string what = "planning the experts' places";
  std::string text;
  agreed(context_, what, timeout_ms, [&] {
    if (context_.is_root()) text = placement_text(plan_of_root(capacity_slots), shape_);
  });
  if (context_.size > 1) {
    try {
      const Deadline deadline =
          Deadline::after_ms(timeout_ms + (context_.is_root() ? 0 : kAgreeGraceMs));
      const std::vector<std::byte> bytes = broadcast(
          *context_.transport, std::as_bytes(std::span(text.data(), text.size())), deadline, what);
      text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } catch (const Error& error) {
      throw AgreedError(error.kind(), error.what());
    }
  }
  return parse_placement(text, "rank 0's plan", shape_);
}

}  // namespace colibri
