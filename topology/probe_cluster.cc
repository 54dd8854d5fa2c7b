#include "topology/probe_cluster.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "topology/catalogue.h"

namespace colibri {
namespace {

int gpu_part_at(const Cluster& cluster, const std::string& address) {
  for (const int part : cluster.parts_of(PartKind::kGpu)) {
    if (cluster.parts[static_cast<size_t>(part)].address == address) return part;
  }
  return -1;
}

const char* nvlink_of(const std::string& device) {
  if (device == "h800") return "nvlink4-h800";
  if (device == "h100" || device == "h200") return "nvlink4";
  return device == "a100" ? "nvlink3" : "nvlink5";
}

}  // namespace

std::string gpu_device_name(const std::string& system_name) {
  std::string name = system_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
  std::string best;  // "gb200" before "b200"
  for (const auto& [key, device] : builtin_catalogue().devices) {
    if (!device.is_gpu || name.find(key) == std::string::npos) continue;
    if (key.size() > best.size()) best = key;
  }
  return best;
}

void add_gpu_links(std::span<const GpuInfo> gpus, Cluster& cluster) {
  std::vector<int> parts;
  for (const GpuInfo& gpu : gpus) parts.push_back(gpu_part_at(cluster, gpu.pci_bus_id));
  size_t num_pairs = 0;
  for (const GpuInfo& gpu : gpus) {
    num_pairs +=
        static_cast<size_t>(std::count(gpu.peers.begin(), gpu.peers.end(), PeerLink::kAtomic));
  }
  const bool reaches_all = gpus.size() > 2 && num_pairs == gpus.size() * (gpus.size() - 1);
  int nvswitch = -1;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (parts[i] < 0) continue;
    const std::string known = gpu_device_name(gpus[i].name);
    const LinkSpec& link = builtin_catalogue().links.at(nvlink_of(known));
    const auto join = [&](int other) {
      cluster.links.push_back({parts[i], other, nvlink_of(known), link.gbps, link.latency_us});
    };
    if (reaches_all) {
      if (nvswitch < 0) {
        nvswitch = static_cast<int>(cluster.parts.size());
        cluster.parts.push_back({.kind = PartKind::kNvSwitch, .name = "node0.nvswitch"});
      }
      join(nvswitch);
      continue;
    }
    for (size_t j = i + 1; j < gpus.size(); ++j) {
      const bool is_joined = j < gpus[i].peers.size() && gpus[i].peers[j] == PeerLink::kAtomic;
      if (is_joined && parts[j] >= 0) join(parts[j]);
    }
  }
}

Cluster joined_nodes(std::span<const Cluster> nodes, const std::string& network_link) {
  if (nodes.empty()) fail(ErrorKind::kInput, "no node to join into a machine");
  if (nodes.size() == 1) return nodes[0];
  const LinkSpec& network = builtin_catalogue().links.at(network_link);
  Cluster all{.name = std::to_string(nodes.size()) + " x " + nodes[0].name};
  all.parts.push_back({.kind = PartKind::kFabric, .name = "fabric", .node = -1});
  for (size_t node = 0; node < nodes.size(); ++node) {
    const auto first_part = static_cast<int>(all.parts.size());
    const auto first_device = static_cast<int>(all.devices.size());
    all.devices.insert(all.devices.end(), nodes[node].devices.begin(), nodes[node].devices.end());
    bool has_nic = false;
    for (ClusterPart part : nodes[node].parts) {
      const size_t dot = part.name.find('.');
      part.name = "node" + std::to_string(node) +
                  (dot == std::string::npos ? "." + part.name : part.name.substr(dot));
      part.node = static_cast<int>(node);
      if (part.device >= 0) part.device += first_device;
      all.parts.push_back(std::move(part));
      if (all.parts.back().kind != PartKind::kNic) continue;
      has_nic = true;
      all.links.push_back({static_cast<int>(all.parts.size()) - 1, 0, network_link, network.gbps,
                           network.latency_us});
    }
    if (!has_nic) {
      fail(ErrorKind::kInput, "host ", node, " of ", nodes.size(),
           " has no network adapter that hwloc sees; describe the machine in a file");
    }
    for (ClusterLink link : nodes[node].links) {
      link.a += first_part;
      link.b += first_part;
      all.links.push_back(std::move(link));
    }
  }
  return all;
}

}  // namespace colibri
