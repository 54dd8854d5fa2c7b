// The machine that a run or a plan is for, as parts and the links between them: one node or many.
// Plain data: read from a machine file (topology/cluster_file.h), or seen by a probe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/device_spec.h"

namespace colibri {

enum class PartKind : uint8_t {
  kCpu,         // the cores and the memory of one NUMA node: runs ranks on the CPU
  kGpu,         // runs ranks
  kPcieSwitch,  // also a host bridge with several devices behind one uplink
  kNvSwitch,    // all NVLink switches of a node or a rack together
  kNic,
  kFabric,  // the network between nodes
};

struct ClusterPart {
  PartKind kind = PartKind::kCpu;
  std::string name = {};     // unique: "node0.gpu3", "fabric"
  int node = 0;              // -1: of no node
  int package = -1;          // socket that it belongs to or hangs on; -1: not told
  int numa_node = -1;        // the system's number, likewise
  int device = -1;           // index into Cluster::devices; kCpu and kGpu
  int num_cores = 0;         // kCpu
  int64_t memory_bytes = 0;  // kCpu: of its NUMA node
  std::string address = {};  // what the system calls it: a PCI bus id, "mlx5_0"; may be empty
  friend bool operator==(const ClusterPart&, const ClusterPart&) = default;
};

// Bytes travel both ways at once, each at `gbps`.
struct ClusterLink {
  int a = 0, b = 0;       // parts
  std::string kind;       // name in the catalogue: "nvlink4", "pcie5-x16", "upi"
  double gbps = 0;        // that large messages reach in one direction, all lanes together
  double latency_us = 0;  // one way
  friend bool operator==(const ClusterLink&, const ClusterLink&) = default;
};

struct Cluster {
  std::string name;  // "8xh200"
  std::vector<DeviceSpec> devices = {};
  std::vector<ClusterPart> parts = {};  // node by node
  std::vector<ClusterLink> links = {};

  int num_nodes() const;
  // Parts of a kind, ascending.
  std::vector<int> parts_of(PartKind kind) const;
  const DeviceSpec& device_of(int part) const {
    return devices.at(static_cast<size_t>(parts.at(static_cast<size_t>(part)).device));
  }
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Fails with kInput, `where` first, for what no machine is: a link to a part that is not there or
// to itself, a rate or latency that is not finite or not positive, a name that stands twice, a
// device out of range, parts that run ranks and cannot reach each other.
void check_cluster(const Cluster& cluster, const std::string& where);

// One use of a link.
struct LinkUse {
  int link = 0;
  bool forward = true;  // from a to b
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

// The way of a message between two parts: the one on which 64 KB arrive first when each link hands
// on what it has received; between equals the fewer links, then the lower numbers, but that of NICs
// which are alike each GPU (or CPU) of a node takes another, in order. Never through a GPU of a
// third party.
class ClusterRoutes {
 public:
  // Cost: O(P links log(links)), at once for all P parts that are asked for.
  ClusterRoutes(const Cluster& cluster, std::span<const int> parts);

  // `from` and `to` are positions in `parts`. Empty when they are the same part.
  std::span<const LinkUse> between(size_t from, size_t to) const;
  // Sum of the links' latencies.
  double latency_us(size_t from, size_t to) const;

 private:
  size_t num_parts_ = 0;
  std::vector<std::vector<LinkUse>> routes_;  // [from * num_parts + to]
  std::vector<double> latency_us_;
};

// Where R ranks run, [R] indexes of parts, as the program itself places them: on GPUs, rank by rank
// in the order of the parts; without GPUs (or `on_cpu`) spread over the CPU parts of all nodes by
// cores, in order, so that neighbours share a NUMA node. kInput when there are more ranks than
// GPUs, with both numbers.
std::vector<int> default_rank_parts(const Cluster& cluster, int num_ranks, bool on_cpu);

}  // namespace colibri
