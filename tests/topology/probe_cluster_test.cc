#include "topology/probe_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/topology/files.h"
#include "topology/cluster_file.h"

// hwloc 2.9 loses the objects that it had read when XML ends too early; the address sanitizer asks
// this function what not to speak of.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhwloc"; }

namespace colibri {
namespace {

using Words = std::vector<std::string>;

ProbedCluster captured(const std::string& name) {
  std::ifstream file(std::string(COLIBRI_SOURCE_DIR "/tests/data/machines/") + name);
  std::ostringstream text;
  text << file.rdbuf();
  ProbedCluster machine = cluster_from_xml(text.str());
  check_cluster(machine.cluster, name);
  return machine;
}

int part_named(const Cluster& cluster, const std::string& name) {
  for (size_t i = 0; i < cluster.parts.size(); ++i) {
    if (cluster.parts[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no part " << name;
  return -1;
}

Words way(const Cluster& cluster, const std::string& from, const std::string& to) {
  const ClusterRoutes routes(cluster,
                             std::vector{part_named(cluster, from), part_named(cluster, to)});
  Words kinds;
  for (const LinkUse& use : routes.between(0, 1)) {
    kinds.push_back(cluster.links[static_cast<size_t>(use.link)].kind);
  }
  return kinds;
}

bool has_note(const ProbedCluster& machine, const std::string& words) {
  return std::any_of(machine.notes.begin(), machine.notes.end(),
                     [&](const auto& note) { return note.find(words) != std::string::npos; });
}

TEST(ProbeCluster, EachNumaNodeWithCoresIsAPart) {
  const Cluster cluster = cluster_from_synthetic("pack:2 numa:2 core:4 pu:2").cluster;
  ASSERT_EQ(cluster.parts.size(), 4u);
  EXPECT_EQ(cluster.parts[3].package, 1);
  EXPECT_EQ(cluster.parts[3].num_cores, 4);
  EXPECT_EQ(cluster.links.size(), 6u);  // every two
  EXPECT_EQ(cluster.links[0].kind, "numa");
  check_cluster(cluster, "synthetic");
}

TEST(ProbeCluster, ThirtyTwoNumaNodesAndASingleCoreAreMachinesToo) {
  EXPECT_EQ(cluster_from_synthetic("pack:4 numa:8 core:2 pu:1").cluster.parts.size(), 32u);
  const Cluster small = cluster_from_synthetic("pack:1 core:1 pu:1").cluster;
  ASSERT_EQ(small.parts.size(), 1u);
  EXPECT_EQ(small.parts[0].num_cores, 1);
  EXPECT_ERROR(cluster_from_synthetic("nonsense:x"), kInput, "is not a description");
}

TEST(ProbeCluster, NvSwitchesOnThePciBusJoinTheGpus) {
  const ProbedCluster machine = captured("nvswitch-hgx-h200.xml");
  EXPECT_EQ(machine.cluster.parts_of(PartKind::kGpu).size(), 8u);
  EXPECT_EQ(machine.cluster.parts_of(PartKind::kPcieSwitch).size(), 4u);
  EXPECT_EQ(machine.cluster.device_of(part_named(machine.cluster, "node0.gpu7")).name, "h200");
  EXPECT_EQ(way(machine.cluster, "node0.gpu0", "node0.gpu7"), (Words{"nvlink4", "nvlink4"}));
  EXPECT_EQ(way(machine.cluster, "node0.gpu2", "node0.nic2"), (Words{"pcie5-x16", "pcie5-x16"}));
}

TEST(ProbeCluster, AdaptersThatDoRdmaLeaveOutThoseThatDoNot) {
  const Cluster cluster = captured("nvswitch-hgx-h200.xml").cluster;
  EXPECT_EQ(cluster.parts_of(PartKind::kNic).size(), 8u);
  const auto nic = static_cast<size_t>(part_named(cluster, "node0.nic0"));
  EXPECT_EQ(cluster.parts[nic].address, "mlx5_0");
}

TEST(ProbeCluster, ASwitchBehindASwitchHangsAtIt) {
  const Cluster cluster = captured("pcie-dual-socket.xml").cluster;
  EXPECT_EQ(way(cluster, "node0.gpu0", "node0.gpu1"), (Words(2, "pcie4-x16")));
  EXPECT_EQ(way(cluster, "node0.gpu0", "node0.gpu2"), (Words(3, "pcie4-x16")));
}

TEST(ProbeCluster, BetweenSocketsAndByFewLanesTheWayIsTold) {
  const Cluster cluster = captured("pcie-dual-socket.xml").cluster;
  EXPECT_EQ(way(cluster, "node0.gpu2", "node0.gpu3"),
            (Words{"pcie4-x16", "pcie4-x16", "xgmi", "pcie3-x16"}));
}

TEST(ProbeCluster, AGpuThatIsNotInTheCatalogueIsNamedAndNoted) {
  const ProbedCluster machine = captured("pcie-dual-socket.xml");
  EXPECT_EQ(machine.cluster.device_of(part_named(machine.cluster, "node0.gpu4")).name, "gpu-1eb8");
  EXPECT_TRUE(has_note(machine, "GPU 0000:82:00.0 (PCI device 10de:1eb8) is not in the catalogue"));
}

TEST(ProbeCluster, MemoryWithoutCoresOfItsOwnIsNotedAndNoPart) {
  const ProbedCluster machine = captured("numa-without-cores.xml");
  EXPECT_EQ(machine.cluster.parts_of(PartKind::kCpu).size(), 1u);
  EXPECT_EQ(machine.cluster.parts[0].num_cores, 2);
  EXPECT_EQ(machine.cluster.device_of(0).name, "cpu-grace");
  EXPECT_TRUE(has_note(machine, "NUMA node 1 is memory alone (128 GB)"));
  EXPECT_TRUE(has_note(machine, "NUMA node 2 is memory alone (96.0 GB)"));
}

TEST(ProbeCluster, CutXmlIsAnError) {
  std::ifstream file(COLIBRI_SOURCE_DIR "/tests/data/machines/pcie-dual-socket.xml");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (size_t at = 0; at + 20 < text.size(); at += 97) {
    EXPECT_ERROR(cluster_from_xml(text.substr(0, at)), kInput, "is not hwloc's XML");
  }
}

TEST(ProbeCluster, PcieLinksAreNamedByGenerationAndLanes) {
  EXPECT_EQ(pcie_link(63.015).kind, "pcie5-x16");
  EXPECT_EQ(pcie_link(15.754).kind, "pcie3-x16");
  EXPECT_EQ(pcie_link(3.938).kind, "pcie1-x16");
  EXPECT_EQ(pcie_link(0.0).kind, "pcie4-x16");
  const PcieLink half = pcie_link(5, 8);
  EXPECT_EQ(half.kind, "pcie5-x8");
  EXPECT_DOUBLE_EQ(half.spec.gbps, pcie_link(5, 16).spec.gbps / 2);
}

TEST(ProbeCluster, RatesOfAdaptersComeFromTheSystem) {
  const TempDir root;
  write_file(root, "sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  write_file(root, "sys/class/net/eth0/speed", "10000\n");
  write_file(root, "sys/class/net/down/speed", "-1\n");
  EXPECT_EQ(network_gbps(root.path().string(), "mlx5_0"), 50);
  EXPECT_EQ(network_gbps(root.path().string(), "eth0"), 1.25);
  EXPECT_EQ(network_gbps(root.path().string(), "down"), 0);
  EXPECT_EQ(network_gbps(root.path().string(), "../eth0"), 0);
}

TEST(ProbeCluster, GpusAreKnownByTheirNames) {
  EXPECT_EQ(gpu_device_name("NVIDIA H200"), "h200");
  EXPECT_EQ(gpu_device_name("NVIDIA GB200"), "gb200");
  EXPECT_EQ(gpu_device_name("NVIDIA GeForce RTX 5090"), "rtx5090");
  EXPECT_EQ(gpu_device_name("something else"), "");
  EXPECT_EQ(gpu_device_name("NVIDIA A100 80GB PCIe"), "a100");
  EXPECT_EQ(gpu_device_name("NVIDIA A100-SXM4-40GB"), "a100");
  EXPECT_EQ(gpu_device_name("NVIDIA RTX A1000"), "");
  EXPECT_EQ(gpu_device_name("NVIDIA GH200 480GB"), "");
  EXPECT_EQ(gpu_device_name(0x2335), "h200");
}

GpuInfo gpu(const std::string& bus, std::vector<PeerLink> peers) {
  GpuInfo info;
  info.name = "NVIDIA H200";
  info.pci_bus_id = bus;
  info.peers = std::move(peers);
  return info;
}

ProbedCluster three_gpus() {
  Cluster cluster = cluster_from_synthetic("pack:1 core:2 pu:1").cluster;
  cluster.devices.push_back(cluster.devices[0]);
  for (int i = 0; i < 3; ++i) {
    cluster.parts.push_back({.kind = PartKind::kGpu,
                             .name = "node0.gpu" + std::to_string(i),
                             .device = 1,
                             .address = "0000:0" + std::to_string(i) + ":00.0"});
  }
  return {.cluster = cluster};
}

TEST(ProbeCluster, GpusThatAllReachEachOtherHangOnASwitch) {
  constexpr PeerLink a = PeerLink::kAtomic, n = PeerLink::kNone;
  ProbedCluster machine = three_gpus();
  add_gpu_links(std::vector{gpu("0000:00:00.0", {n, a, a}), gpu("0000:01:00.0", {a, n, a}),
                            gpu("0000:02:00.0", {a, a, n})},
                machine);
  EXPECT_EQ(machine.cluster.parts_of(PartKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(machine.cluster.links.size(), 3u);
}

TEST(ProbeCluster, APairOfGpusIsJoinedByItself) {
  constexpr PeerLink a = PeerLink::kAtomic, n = PeerLink::kNone, d = PeerLink::kDirect;
  ProbedCluster machine = three_gpus();
  add_gpu_links(std::vector{gpu("0000:00:00.0", {n, a, d}), gpu("0000:01:00.0", {a, n, d}),
                            gpu("0000:02:00.0", {d, d, n})},
                machine);
  EXPECT_TRUE(machine.cluster.parts_of(PartKind::kNvSwitch).empty());
  ASSERT_EQ(machine.cluster.links.size(), 1u);
  EXPECT_EQ(machine.cluster.links[0].kind, "nvlink4");
}

// One host of a machine inside the program, as a probe would tell it.
Cluster host_of(const std::string& name) {
  const Cluster all = find_cluster(name);
  Cluster host{.name = "host", .devices = all.devices};
  std::vector<int> place;
  for (const ClusterPart& part : all.parts) {
    const bool is_kept = part.node == 0 || part.kind == PartKind::kNvSwitch;
    place.push_back(is_kept && part.node < 1 ? static_cast<int>(host.parts.size()) : -1);
    if (place.back() < 0) continue;
    host.parts.push_back(part);
    host.parts.back().node = 0;
  }
  for (ClusterLink link : all.links) {
    link.a = place[static_cast<size_t>(link.a)];
    link.b = place[static_cast<size_t>(link.b)];
    if (link.a >= 0 && link.b >= 0) host.links.push_back(link);
  }
  return host;
}

TEST(ProbeCluster, HostsBecomeNodesOfOneNetwork) {
  const Cluster host = host_of("4x8xh200-400g");
  Cluster joined = joined_nodes(std::vector{host, host, host, host}, "ib-400g");
  const Cluster whole = find_cluster("4x8xh200-400g");
  EXPECT_EQ(joined.num_nodes(), 4);
  EXPECT_EQ(joined.parts.size(), whole.parts.size());
  EXPECT_EQ(joined.links.size(), whole.links.size());
  EXPECT_EQ(way(joined, "node0.gpu3", "node2.gpu5"), way(whole, "node0.gpu3", "node2.gpu5"));
}

TEST(ProbeCluster, JoinedHostsComeBackFromTheirText) {
  Cluster other = host_of("8xa100-pcie");
  other.devices[0].peak_gbps += 1;  // its CPU is another one of the same name
  other.parts.push_back({.kind = PartKind::kNic, .name = "node0.nic0"});
  other.links.push_back({0, static_cast<int>(other.parts.size()) - 1, "pcie4-x16", 24, 1});
  const Cluster joined =
      joined_nodes(std::vector{host_of("4x8xh200-400g"), other, other}, "ib-400g");
  EXPECT_EQ(joined.devices.size(), 4u);
  EXPECT_EQ(joined.devices[2].name, "cpu-server-2");
  EXPECT_EQ(parse_cluster(cluster_text(joined, "a test"), "text"), joined);
}

TEST(ProbeCluster, HostsOfARackShareItsSwitch) {
  Cluster host = host_of("gb200-nvl72");
  for (ClusterPart& part : host.parts) {
    if (part.kind == PartKind::kNvSwitch) part.address = "fabric-1.0";
  }
  const Cluster rack = joined_nodes(std::vector{host, host}, "ib-400g");
  EXPECT_EQ(rack.parts_of(PartKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(way(rack, "node0.gpu0", "node1.gpu3"), (Words{"nvlink5", "nvlink5"}));
}

TEST(ProbeCluster, AnAdapterThatTellsItsRateKeepsIt) {
  Cluster host = host_of("4x8xh200-400g");
  host.parts.push_back({.kind = PartKind::kFabric, .name = "fabric", .node = -1});
  host.links.push_back(
      {part_named(host, "node0.nic0"), part_named(host, "fabric"), "network-25g", 2.5, 5});
  const Cluster joined = joined_nodes(std::vector{host, host}, "ib-400g");
  const auto count = [&](const std::string& kind) {
    return std::count_if(joined.links.begin(), joined.links.end(),
                         [&](const ClusterLink& link) { return link.kind == kind; });
  };
  EXPECT_EQ(count("network-25g"), 2);
  EXPECT_EQ(count("ib-400g"), 14);
}

TEST(ProbeCluster, HostsThatCannotBeJoinedAreNamed) {
  Cluster host = host_of("8xh200");
  EXPECT_ERROR(joined_nodes(std::vector{host_of("4x8xh200-400g"), host}, "ib-400g"), kInput,
               "host 1 of 2 has no network adapter");
  EXPECT_ERROR(joined_nodes(std::vector<Cluster>{}, "ib-400g"), kInput, "no node");
  const Cluster rack = find_cluster("gb200-nvl72");
  EXPECT_ERROR(joined_nodes(std::vector{host, rack}, "ib-400g"), kInput, "host");
}

}  // namespace
}  // namespace colibri
