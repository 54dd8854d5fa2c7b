#include "topology/probe_cluster.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "base/error.h"
#include "topology/catalogue.h"

namespace colibri {
namespace {

// GB/s of a lane in one direction, by generation.
constexpr std::array<double, 7> kLaneGbps = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

// NVLink of a device, and how many links its rate in the catalogue is for.
struct NvlinkKind {
  const char* name;
  int links;
};

NvlinkKind nvlink_of(const std::string& device) {
  const auto starts_with = [&](std::string_view start) { return device.rfind(start, 0) == 0; };
  if (starts_with("h800")) return {"nvlink4-h800", 8};
  if (starts_with("h100") || starts_with("h200")) return {"nvlink4", 18};
  if (starts_with("b200") || starts_with("gb200")) return {"nvlink5", 18};
  return {"nvlink3", 12};
}

int gpu_part_at(const Cluster& cluster, const std::string& address) {
  for (const int part : cluster.parts_of(PartKind::kGpu)) {
    if (cluster.parts[static_cast<size_t>(part)].address == address) return part;
  }
  return -1;
}

int index_of(const DeviceSpec& device, Cluster& cluster) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    if (cluster.devices[i] == device) return static_cast<int>(i);
  }
  cluster.devices.push_back(device);
  return static_cast<int>(cluster.devices.size()) - 1;
}

// Devices that no part has any more would stand in the machine's text.
void drop_unused_devices(Cluster& cluster) {
  std::vector<DeviceSpec> used;
  std::vector<int> place(cluster.devices.size(), -1);
  for (ClusterPart& part : cluster.parts) {
    if (part.device < 0) continue;
    int& now = place[static_cast<size_t>(part.device)];
    if (now < 0) {
      now = static_cast<int>(used.size());
      used.push_back(cluster.devices[static_cast<size_t>(part.device)]);
    }
    part.device = now;
  }
  cluster.devices = std::move(used);
}

// Puts what NVML or CUDA tell into a machine that hwloc saw.
class GpuAdder {
 public:
  GpuAdder(std::span<const NvmlGpu> gpus, ProbedCluster& machine)
      : gpus_(gpus), cluster_(machine.cluster), notes_(machine.notes) {}

  void add() {
    drop_guess();
    for (const NvmlGpu& gpu : gpus_) {
      parts_.push_back(part_of(gpu));
      set_device(gpu, parts_.back());
      set_pcie(gpu, parts_.back());
    }
    for (size_t i = 0; i < gpus_.size(); ++i) add_links(i);
    drop_unused_devices(cluster_);
  }

 private:
  // The NVSwitch that hwloc's PCI devices let guess: always the last part.
  void drop_guess() {
    if (cluster_.parts.empty() || cluster_.parts.back().kind != PartKind::kNvSwitch) return;
    const int guessed = static_cast<int>(cluster_.parts.size()) - 1;
    std::erase_if(cluster_.links, [&](const ClusterLink& link) { return link.b == guessed; });
    cluster_.parts.pop_back();
  }

  int part_of(const NvmlGpu& gpu) {
    const int seen = gpu_part_at(cluster_, gpu.pci_bus_id);
    if (seen >= 0) return seen;
    const int cpu = cluster_.parts_of(PartKind::kCpu).at(0);
    const ClusterPart& near = cluster_.parts[static_cast<size_t>(cpu)];
    const size_t count = cluster_.parts_of(PartKind::kGpu).size();
    notes_.push_back("GPU " + gpu.pci_bus_id + " is not on the PCI bus that hwloc shows: it is " +
                     "taken to hang at " + near.name);
    cluster_.parts.push_back({.kind = PartKind::kGpu,
                              .name = "node0.gpu" + std::to_string(count),
                              .package = near.package,
                              .numa_node = near.numa_node,
                              .address = gpu.pci_bus_id});
    const int part = static_cast<int>(cluster_.parts.size()) - 1;
    const PcieLink link = pcie_link(0.0);
    cluster_.links.push_back({cpu, part, link.kind, link.spec.gbps, link.spec.latency_us});
    return part;
  }

  void set_device(const NvmlGpu& gpu, int part) {
    const std::string known = gpu_device_name(gpu.name);
    DeviceSpec device = builtin_catalogue().devices.at(known.empty() ? "h100" : known);
    if (known.empty()) {
      device.name = gpu.name.empty() ? "unknown-gpu" : gpu.name;
      note_once("GPU '" + device.name + "' is not in the catalogue: it has the numbers of h100");
      if (gpu.memory_bytes > 0) device.memory_bytes = gpu.memory_bytes;
    }
    // One name is sold with several sizes of memory: more apart than what the driver keeps back.
    const double share =
        static_cast<double>(gpu.memory_bytes) / static_cast<double>(device.memory_bytes);
    if (gpu.memory_bytes > 0 && (share < 0.85 || share > 1.15)) {
      device.memory_bytes = gpu.memory_bytes;
      device.name += "-" + std::to_string((gpu.memory_bytes + 500'000'000) / 1'000'000'000) + "gb";
    }
    cluster_.parts[static_cast<size_t>(part)].device = index_of(device, cluster_);
  }

  void set_pcie(const NvmlGpu& gpu, int part) {
    PcieLink best;
    if (cluster_.device_of(part).name.rfind("gb200", 0) == 0) {
      best = {"nvlink-c2c", builtin_catalogue().links.at("nvlink-c2c")};  // to its Grace
    } else if (gpu.pcie_generation > 0 && gpu.pcie_lanes > 0) {
      best = pcie_link(gpu.pcie_generation, gpu.pcie_lanes);
    } else {
      return;
    }
    for (ClusterLink& link : cluster_.links) {
      if (link.b != part || link.kind.rfind("pcie", 0) != 0) continue;
      link.kind = best.kind;
      link.gbps = best.spec.gbps;
      link.latency_us = best.spec.latency_us;
    }
  }

  void add_links(size_t which) {
    const NvmlGpu& gpu = gpus_[which];
    if (gpu.switch_links > 0) join(which, switch_of(gpu.fabric), gpu.switch_links);
    for (const auto& link : gpu.peer_links) {
      const std::string& address = link.first;
      const int peer = gpu_part_at(cluster_, address);
      // Both ends tell of a link: it is taken from the lower one, unless that one keeps silent.
      const bool is_told = std::any_of(gpus_.begin(), gpus_.end(), [&](const NvmlGpu& other) {
        return other.pci_bus_id == address && other.peer_links.contains(gpu.pci_bus_id);
      });
      if (peer < 0) note_once("NVLink from " + gpu.pci_bus_id + " leads to a GPU that is not seen");
      if (peer >= 0 && peer != parts_[which] && (!is_told || gpu.pci_bus_id < address)) {
        join(which, peer, link.second);
      }
    }
  }

  void join(size_t which, int other, int count) {
    const NvlinkKind kind = nvlink_of(cluster_.device_of(parts_[which]).name);
    const LinkSpec& spec = builtin_catalogue().links.at(kind.name);
    const double share = count <= 0 ? 1 : static_cast<double>(count) / kind.links;
    cluster_.links.push_back({parts_[which], other, kind.name, spec.gbps * share, spec.latency_us});
  }

  int switch_of(const std::string& fabric) {
    for (const int part : cluster_.parts_of(PartKind::kNvSwitch)) {
      if (cluster_.parts[static_cast<size_t>(part)].address == fabric) return part;
    }
    const size_t count = cluster_.parts_of(PartKind::kNvSwitch).size();
    cluster_.parts.push_back(
        {.kind = PartKind::kNvSwitch,
         .name = "node0.nvswitch" + (count == 0 ? std::string() : std::to_string(count)),
         .address = fabric});
    return static_cast<int>(cluster_.parts.size()) - 1;
  }

  void note_once(const std::string& note) {
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  }

  std::span<const NvmlGpu> gpus_;
  Cluster& cluster_;
  std::vector<std::string>& notes_;
  std::vector<int> parts_;  // [gpus]
};

}  // namespace

std::string gpu_device_name(const std::string& system_name) {
  // Whole words, or two in a row as one ("RTX 5090"): GH200 is no H200, A1000 no A100.
  std::vector<std::string> words(1);
  for (const char c : system_name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words.back() += static_cast<char>(std::tolower(byte));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  for (size_t i = 0; i < words.size(); ++i) {
    for (const auto& [key, device] : builtin_catalogue().devices) {
      if (!device.is_gpu) continue;
      if (words[i] == key || (i + 1 < words.size() && words[i] + words[i + 1] == key)) return key;
    }
  }
  return "";
}

std::string gpu_device_name(int pci_device_id) {
  // The PCI ID Repository's names for NVIDIA's devices.
  static constexpr std::pair<int, const char*> kKnown[] = {
      {0x20b0, "a100"}, {0x20b2, "a100"}, {0x20b5, "a100"},  {0x20f1, "a100"},   {0x2322, "h800"},
      {0x2324, "h800"}, {0x2321, "h100"}, {0x2330, "h100"},  {0x2331, "h100"},   {0x2335, "h200"},
      {0x233b, "h200"}, {0x2901, "b200"}, {0x2941, "gb200"}, {0x2b85, "rtx5090"}};
  for (const auto& [id, name] : kKnown) {
    if (id == pci_device_id) return name;
  }
  return "";
}

void add_gpus(std::span<const NvmlGpu> gpus, ProbedCluster& machine) {
  if (!gpus.empty()) GpuAdder(gpus, machine).add();
}

void add_gpu_links(std::span<const GpuInfo> gpus, ProbedCluster& machine) {
  size_t num_pairs = 0;
  for (const GpuInfo& gpu : gpus) {
    num_pairs +=
        static_cast<size_t>(std::count(gpu.peers.begin(), gpu.peers.end(), PeerLink::kAtomic));
  }
  const bool reaches_all = gpus.size() > 2 && num_pairs == gpus.size() * (gpus.size() - 1);
  std::vector<NvmlGpu> all;
  for (const GpuInfo& gpu : gpus) {
    const int links = nvlink_of(gpu_device_name(gpu.name)).links;
    NvmlGpu told{.name = gpu.name, .pci_bus_id = gpu.pci_bus_id, .memory_bytes = gpu.memory_bytes};
    if (reaches_all) told.switch_links = links;
    for (size_t peer = 0; !reaches_all && peer < std::min(gpus.size(), gpu.peers.size()); ++peer) {
      if (gpu.peers[peer] == PeerLink::kAtomic) told.peer_links[gpus[peer].pci_bus_id] = links;
    }
    all.push_back(std::move(told));
  }
  add_gpus(all, machine);
}

std::string nvlink_name(const std::string& device) { return nvlink_of(device).name; }

PcieLink pcie_link(int generation, int lanes) {
  const int known = std::clamp(generation, 1, static_cast<int>(kLaneGbps.size()) - 1);
  const std::string end = "-x" + std::to_string(lanes);
  const std::string kind = "pcie" + std::to_string(generation) + end;
  const auto& links = builtin_catalogue().links;
  if (const auto found = links.find(kind); found != links.end()) return {kind, found->second};
  const int base = std::clamp(known, 3, 5);
  const double share =
      kLaneGbps[static_cast<size_t>(known)] * lanes / (kLaneGbps[static_cast<size_t>(base)] * 16);
  LinkSpec spec = links.at("pcie" + std::to_string(base) + "-x16");
  spec.nominal_gbps *= share;
  spec.gbps *= share;
  return {kind, spec};
}

PcieLink pcie_link(double nominal_gbps) {
  if (!(nominal_gbps > 0)) return pcie_link(4, 16);
  // Half the lanes of the next generation carry as much: the most lanes are as good a name.
  int best_generation = 4, best_lanes = 16;
  double least = -1;
  for (int lanes = 16; lanes >= 1; lanes /= 2) {
    for (int generation = 1; generation < static_cast<int>(kLaneGbps.size()); ++generation) {
      const double rate = kLaneGbps[static_cast<size_t>(generation)] * lanes;
      const double off = std::max(rate, nominal_gbps) / std::min(rate, nominal_gbps);
      if (least >= 0 && off > least - 0.02) continue;
      least = off;
      best_generation = generation;
      best_lanes = lanes;
    }
  }
  return pcie_link(best_generation, best_lanes);
}

double network_gbps(const std::string& system, const std::string& adapter) {
  if (adapter.empty() || adapter.find('/') != std::string::npos) return 0;
  const auto first_number = [](const std::string& path) {
    std::ifstream file(path);
    double number = 0;
    return file >> number && number > 0 && number < 1e9 ? number : 0.0;
  };
  // Gb/s ("400 Gb/sec (4X NDR)"), or Mb/s.
  const std::string rdma = system + "/sys/class/infiniband/" + adapter + "/ports/1/rate";
  if (const double gigabits = first_number(rdma); gigabits > 0) return gigabits / 8;
  return first_number(system + "/sys/class/net/" + adapter + "/speed") / 8000;
}

}  // namespace colibri
