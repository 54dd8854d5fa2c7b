#include "topology/probe_cluster.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "topology/cluster_file.h"

namespace colibri {
namespace {

TEST(ProbeCluster, EachNumaNodeWithCoresIsAPart) {
  const Cluster cluster = cluster_from_synthetic("pack:2 numa:2 core:4 pu:2");
  ASSERT_EQ(cluster.parts.size(), 4u);
  EXPECT_EQ(cluster.parts[3].package, 1);
  EXPECT_EQ(cluster.parts[3].num_cores, 4);
  EXPECT_EQ(cluster.links.size(), 6u);  // every two
  EXPECT_EQ(cluster.links[0].kind, "numa");
  check_cluster(cluster, "synthetic");
}

TEST(ProbeCluster, ThirtyTwoNumaNodesAndASingleCoreAreMachinesToo) {
  EXPECT_EQ(cluster_from_synthetic("pack:4 numa:8 core:2 pu:1").parts.size(), 32u);
  const Cluster small = cluster_from_synthetic("pack:1 core:1 pu:1");
  ASSERT_EQ(small.parts.size(), 1u);
  EXPECT_EQ(small.parts[0].num_cores, 1);
  EXPECT_ERROR(cluster_from_synthetic("nonsense:x"), kInput, "is not a description");
}

TEST(ProbeCluster, GpusAreKnownByTheirNames) {
  EXPECT_EQ(gpu_device_name("NVIDIA H200"), "h200");
  EXPECT_EQ(gpu_device_name("NVIDIA GB200"), "gb200");
  EXPECT_EQ(gpu_device_name("NVIDIA GeForce RTX 5090"), "rtx5090");
  EXPECT_EQ(gpu_device_name("something else"), "");
}

GpuInfo gpu(const std::string& bus, std::vector<PeerLink> peers) {
  GpuInfo info;
  info.name = "NVIDIA H200";
  info.pci_bus_id = bus;
  info.peers = std::move(peers);
  return info;
}

Cluster three_gpus() {
  Cluster cluster = cluster_from_synthetic("pack:1 core:2 pu:1");
  cluster.devices.push_back(cluster.devices[0]);
  for (int i = 0; i < 3; ++i) {
    cluster.parts.push_back({.kind = PartKind::kGpu,
                             .name = "node0.gpu" + std::to_string(i),
                             .device = 1,
                             .address = "0000:0" + std::to_string(i) + ":00.0"});
  }
  return cluster;
}

TEST(ProbeCluster, GpusThatAllReachEachOtherHangOnASwitch) {
  constexpr PeerLink a = PeerLink::kAtomic, n = PeerLink::kNone;
  Cluster cluster = three_gpus();
  add_gpu_links(std::vector{gpu("0000:00:00.0", {n, a, a}), gpu("0000:01:00.0", {a, n, a}),
                            gpu("0000:02:00.0", {a, a, n})},
                cluster);
  EXPECT_EQ(cluster.parts_of(PartKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(cluster.links.size(), 3u);
}

TEST(ProbeCluster, APairOfGpusIsJoinedByItself) {
  constexpr PeerLink a = PeerLink::kAtomic, n = PeerLink::kNone, d = PeerLink::kDirect;
  Cluster cluster = three_gpus();
  add_gpu_links(std::vector{gpu("0000:00:00.0", {n, a, d}), gpu("0000:01:00.0", {a, n, d}),
                            gpu("0000:02:00.0", {d, d, n})},
                cluster);
  EXPECT_TRUE(cluster.parts_of(PartKind::kNvSwitch).empty());
  ASSERT_EQ(cluster.links.size(), 1u);
  EXPECT_EQ(cluster.links[0].kind, "nvlink4");
}

TEST(ProbeCluster, HostsBecomeNodesOfOneNetwork) {
  const Cluster host = find_cluster("4x8xh200-400g");
  Cluster one;  // node 0 of it
  one.devices = host.devices;
  for (const ClusterPart& part : host.parts) {
    if (part.node == 0) one.parts.push_back(part);
  }
  const Cluster joined = joined_nodes(std::vector{one, one}, "ib-400g");
  EXPECT_EQ(joined.num_nodes(), 2);
  EXPECT_EQ(joined.links.size(), 16u);  // a NIC each into the network
  Cluster without = one;
  std::erase_if(without.parts, [](const auto& part) { return part.kind == PartKind::kNic; });
  EXPECT_ERROR(joined_nodes(std::vector{one, without}, "ib-400g"), kInput,
               "host 1 of 2 has no network adapter");
}

}  // namespace
}  // namespace colibri
