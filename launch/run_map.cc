#include "launch/run_map.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "launch/plan_input.h"
#include "topology/catalogue.h"

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

}  // namespace

RankMap map_of_run(const RankContext& context, const std::string& machine) {
  const bool on_gpus = context.device.is_cuda();
  if (!machine.empty()) return ranks_on(machine_named(machine), context.size, on_gpus, "1");
  try {
    const Cluster seen = context.hosts != nullptr ? *context.hosts : machine_named("auto");
    return ranks_on(seen, context.size, on_gpus, "1");
  } catch (const Error& error) {
    // The machine is not seen, or has less than the ranks use: they are several to a device.
    context.log->info("placement auto: {}", error.what());
  }
  return ranks_on(plain_machine(context), context.size, on_gpus, "1");
}

}  // namespace colibri
