// Small machines for the tests of topology/.
#pragma once

#include <string>

#include "tests/topology/shapes.h"
#include "topology/cluster.h"

namespace colibri {

// Round numbers: an operation takes 10 us and reads 1000 GB/s or computes 100 000 GOP/s, whichever
// takes longer; an exchange starts in 5 us and 1 us a peer.
inline DeviceSpec round_device() {
  DeviceSpec device;
  device.name = "round";
  device.is_gpu = true;
  device.memory_bytes = 1'000'000'000;
  device.peak_gbps = 1000;
  const OpCost cost{.fixed_us = 10, .gbps = 1000, .gops = 100'000, .sharpness = 100};
  device.wide.fill(cost);
  device.narrow.fill(cost);
  device.exchange_us = 5;
  device.exchange_us_per_peer = 1;
  return device;
}

// `num_nodes` times `gpus` GPUs on a switch (100 GB/s, 1 us); each GPU has a NIC of its own (20
// GB/s, 1 us) at a fabric (10 GB/s, 2 us) where there are several nodes.
inline Cluster switched_machine(int num_nodes, int gpus, const DeviceSpec& device) {
  Cluster cluster;
  cluster.name = "switched";
  cluster.devices = {device};
  const auto add = [&](PartKind kind, const std::string& name, int node) {
    ClusterPart part;
    part.kind = kind;
    part.name = name;
    part.node = node;
    part.device = kind == PartKind::kGpu ? 0 : -1;
    cluster.parts.push_back(part);
    return static_cast<int>(cluster.parts.size()) - 1;
  };
  const int fabric = num_nodes > 1 ? add(PartKind::kFabric, "fabric", -1) : -1;
  for (int node = 0; node < num_nodes; ++node) {
    const std::string where = "node" + std::to_string(node) + ".";
    const int nvswitch = add(PartKind::kNvSwitch, where + "switch", node);
    for (int i = 0; i < gpus; ++i) {
      const int gpu = add(PartKind::kGpu, where + "gpu" + std::to_string(i), node);
      cluster.links.push_back({gpu, nvswitch, "nvlink", 100, 1});
      if (fabric < 0) continue;
      const int nic = add(PartKind::kNic, where + "nic" + std::to_string(i), node);
      cluster.links.push_back({gpu, nic, "pcie", 20, 1});
      cluster.links.push_back({nic, fabric, "ib", 10, 2});
    }
  }
  check_cluster(cluster, "test");
  return cluster;
}

// Two MoE layers of 16 experts, two a token; bf16.
inline ModelShape round_shape() {
  ModelShape shape = shape_of(16, {true, true});
  shape.hidden_size = 1000;
  shape.expert_width = 1000;
  shape.expert_bytes = 2 * shape.expert_macs();
  shape.dense_macs = 4'000'000;
  shape.layer_bytes = 8'000'000;
  shape.shared_macs = 1'000'000;
  shape.shared_bytes = 2'000'000;
  shape.kv_bytes_per_token = 4000;
  shape.attention_macs = 2000;
  shape.num_heads = 4;
  shape.head_bytes = 6'000'000;
  shape.head_macs = 3'000'000;
  shape.vocab_size = 3000;
  return shape;
}

}  // namespace colibri
