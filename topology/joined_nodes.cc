// Machines of several hosts as one.
#include <map>

#include "base/error.h"
#include "topology/catalogue.h"
#include "topology/probe_cluster.h"

namespace colibri {
namespace {

class Joiner {
 public:
  Joiner(size_t num_nodes, const std::string& network_link)
      : num_nodes_(num_nodes), network_link_(network_link) {}

  Cluster joined(std::span<const Cluster> nodes) {
    all_.name = std::to_string(nodes.size()) + " x " + nodes[0].name;
    all_.parts.push_back({.kind = PartKind::kFabric, .name = "fabric", .node = -1});
    for (size_t node = 0; node < nodes.size(); ++node) add(nodes[node], static_cast<int>(node));
    return std::move(all_);
  }

 private:
  void add(const Cluster& host, int node) {
    if (host.num_nodes() != 1) {
      fail(ErrorKind::kInput, "host ", node, " of ", num_nodes_, " tells of ", host.num_nodes(),
           " nodes, want 1");
    }
    std::vector<int> place;  // in all_
    bool has_nic = false;
    for (const ClusterPart& part : host.parts) {
      place.push_back(place_of(host, part, node));
      has_nic |= part.kind == PartKind::kNic;
    }
    if (!has_nic) {
      fail(ErrorKind::kInput, "host ", node, " of ", num_nodes_,
           " has no network adapter that hwloc sees; describe the machine in a file");
    }
    std::vector<bool> has_network(all_.parts.size());
    for (ClusterLink link : host.links) {
      link.a = place[static_cast<size_t>(link.a)];
      link.b = place[static_cast<size_t>(link.b)];
      if (link.a == 0 || link.b == 0) has_network[static_cast<size_t>(link.a + link.b)] = true;
      all_.links.push_back(std::move(link));
    }
    const LinkSpec& network = builtin_catalogue().links.at(network_link_);
    for (size_t i = 0; i < host.parts.size(); ++i) {
      const auto at = static_cast<size_t>(place[i]);
      if (host.parts[i].kind != PartKind::kNic || has_network[at]) continue;
      all_.links.push_back({place[i], 0, network_link_, network.gbps, network.latency_us});
    }
  }

  static bool is_shared_switch(const ClusterPart& part) {
    return part.kind == PartKind::kNvSwitch && !part.address.empty();
  }

  int place_of(const Cluster& host, const ClusterPart& part, int node) {
    if (part.kind == PartKind::kFabric) return 0;
    if (is_shared_switch(part)) {
      const auto known = switches_.find(part.address);
      if (known != switches_.end()) return known->second;
    }
    ClusterPart mine = part;
    const size_t dot = part.name.find('.');
    const std::string name = dot == std::string::npos ? part.name : part.name.substr(dot + 1);
    mine.node = node;
    mine.name = "node" + std::to_string(node) + "." + name;
    if (is_shared_switch(part)) {
      mine.node = -1;
      mine.name = "rack" + std::to_string(switches_.size()) + ".nvswitch";
      switches_[part.address] = static_cast<int>(all_.parts.size());
    }
    if (part.device >= 0) mine.device = device_like(host.devices[static_cast<size_t>(part.device)]);
    all_.parts.push_back(std::move(mine));
    return static_cast<int>(all_.parts.size()) - 1;
  }

  // Hosts that are alike share a device; another of the same name has a name of its own.
  int device_like(DeviceSpec device) {
    const std::string name = device.name;
    for (int number = 2;; ++number) {
      bool is_taken = false;
      for (size_t i = 0; i < all_.devices.size(); ++i) {
        if (all_.devices[i] == device) return static_cast<int>(i);
        is_taken |= all_.devices[i].name == device.name;
      }
      if (!is_taken) break;
      device.name = name + "-" + std::to_string(number);
    }
    all_.devices.push_back(std::move(device));
    return static_cast<int>(all_.devices.size()) - 1;
  }

  size_t num_nodes_;
  const std::string& network_link_;
  Cluster all_;
  std::map<std::string, int> switches_;  // by address
};

}  // namespace

Cluster joined_nodes(std::span<const Cluster> nodes, const std::string& network_link) {
  if (nodes.empty()) fail(ErrorKind::kInput, "no node to join into a machine");
  if (nodes.size() == 1) return nodes[0];
  return Joiner(nodes.size(), network_link).joined(nodes);
}

}  // namespace colibri
