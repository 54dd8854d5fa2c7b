#include "topology/probe_nvml.h"

#include <gtest/gtest.h>

#include <cstring>

#include "topology/probe_cluster.h"

namespace colibri {
namespace {

// A made-up NVML. Its functions take no context, so what they tell stands here.
struct FakeLink {
  int remote_kind;  // 0: a GPU, 2: a switch
  unsigned int remote_bus;
};
struct FakeGpu {
  const char* name;
  unsigned int bus;
  unsigned long long memory;
  std::vector<FakeLink> links;
  unsigned char cluster = 0;
};
struct FakeNvml {
  std::vector<FakeGpu> gpus;
  int init_error = 0, bad_gpu = -1;
  int num_shutdowns = 0;
};
FakeNvml fake;

FakeGpu& gpu_at(void* device) { return *static_cast<FakeGpu*>(device); }

void write_pci(unsigned int bus, NvmlPci* pci) {
  *pci = {};
  pci->bus = bus;
}

NvmlCalls fake_calls() {
  NvmlCalls calls;
  calls.init = [] { return fake.init_error; };
  calls.shutdown = [] { return fake.num_shutdowns++ * 0; };
  calls.error_text = [](int error) { return error == 9 ? "Driver Not Loaded" : "Unknown Error"; };
  calls.count = [](unsigned int* count) {
    *count = static_cast<unsigned int>(fake.gpus.size());
    return 0;
  };
  calls.handle = [](unsigned int index, void** device) {
    *device = &fake.gpus.at(index);
    return static_cast<int>(index) == fake.bad_gpu ? 15 : 0;
  };
  calls.name = [](void* device, char* text, unsigned int size) {
    std::strncpy(text, gpu_at(device).name, size);
    return 0;
  };
  calls.pci = [](void* device, NvmlPci* pci) {
    write_pci(gpu_at(device).bus, pci);
    return 0;
  };
  calls.memory = [](void* device, NvmlMemory* memory) {
    *memory = {.total = gpu_at(device).memory, .free = 0, .used = 0};
    return 0;
  };
  calls.pcie_generation = [](void*, unsigned int* generation) {
    *generation = 5;
    return 0;
  };
  calls.pcie_lanes = [](void*, unsigned int* lanes) {
    *lanes = 16;
    return 0;
  };
  calls.link_state = [](void* device, unsigned int link, int* is_up) {
    if (link >= gpu_at(device).links.size()) return 2;  // Invalid Argument
    *is_up = 1;
    return 0;
  };
  calls.link_remote_kind = [](void* device, unsigned int link, int* kind) {
    *kind = gpu_at(device).links.at(link).remote_kind;
    return 0;
  };
  calls.link_remote_pci = [](void* device, unsigned int link, NvmlPci* pci) {
    write_pci(gpu_at(device).links.at(link).remote_bus, pci);
    return 0;
  };
  calls.fabric = [](void* device, NvmlFabric* fabric) {
    *fabric = {.cluster = {gpu_at(device).cluster}, .status = 0, .clique = 7, .state = 3};
    return 0;
  };
  return calls;
}

std::vector<FakeLink> links(size_t count, int remote_kind, unsigned int remote_bus) {
  return std::vector<FakeLink>(count, FakeLink{remote_kind, remote_bus});
}

// Four H200 of which every NVLink leads into a switch.
FakeNvml four_on_a_switch() {
  FakeNvml nvml;
  for (const unsigned int bus : {0x13u, 0x15u, 0x33u, 0x35u}) {
    nvml.gpus.push_back({"NVIDIA H200", bus, 150'000'000'000, links(18, 2, 0xc1)});
  }
  return nvml;
}

// Two pairs of A100, bridged by twelve links each, but for one link that is down.
FakeNvml two_pairs() {
  return {.gpus = {{"NVIDIA A100 80GB PCIe", 0x01, 85'000'000'000, links(12, 0, 0x02)},
                   {"NVIDIA A100 80GB PCIe", 0x02, 85'000'000'000, links(12, 0, 0x01)},
                   {"NVIDIA A100 80GB PCIe", 0x03, 85'000'000'000, links(11, 0, 0x04)},
                   {"NVIDIA A100 80GB PCIe", 0x04, 85'000'000'000, links(11, 0, 0x03)}}};
}

ProbedCluster machine_with(const FakeNvml& nvml) {
  fake = nvml;
  ProbedCluster machine = cluster_from_synthetic("pack:1 core:2 pu:1");
  add_gpus(probe_nvml(fake_calls()).gpus, machine);
  check_cluster(machine.cluster, "test");
  return machine;
}

std::vector<ClusterLink> nvlinks(const Cluster& cluster) {
  std::vector<ClusterLink> found;
  for (const ClusterLink& link : cluster.links) {
    if (link.kind.rfind("nvlink", 0) == 0) found.push_back(link);
  }
  return found;
}

TEST(ProbeNvml, WithoutTheLibraryTheProblemIsToldInWords) {
  const NvmlProbe probe = probe_nvml("libno-such-nvml.so.1");
  EXPECT_TRUE(probe.gpus.empty());
  EXPECT_NE(probe.problem.find("NVML is not here: libno-such-nvml.so.1"), std::string::npos);
}

TEST(ProbeNvml, ALibraryThatIsNoNvmlNamesWhatItLacks) {
  EXPECT_EQ(probe_nvml("libm.so.6").problem,
            "this NVML has no nvmlInit_v2; is the driver older than 450?");
}

TEST(ProbeNvml, ADriverThatIsNotLoadedIsTold) {
  fake = {.gpus = {}, .init_error = 9};
  EXPECT_EQ(probe_nvml(fake_calls()).problem, "NVML does not start: Driver Not Loaded");
}

TEST(ProbeNvml, EachGpuTellsItsPlaceLinksAndMemory) {
  fake = four_on_a_switch();
  const NvmlProbe probe = probe_nvml(fake_calls());
  ASSERT_EQ(probe.gpus.size(), 4u);
  EXPECT_EQ(probe.gpus[3], (NvmlGpu{.name = "NVIDIA H200",
                                    .pci_bus_id = "0000:35:00.0",
                                    .memory_bytes = 150'000'000'000,
                                    .pcie_generation = 5,
                                    .pcie_lanes = 16,
                                    .switch_links = 18}));
  EXPECT_EQ(fake.num_shutdowns, 1);
}

TEST(ProbeNvml, AGpuThatIsLostLeavesTheOthers) {
  fake = four_on_a_switch();
  fake.bad_gpu = 1;
  const NvmlProbe probe = probe_nvml(fake_calls());
  EXPECT_EQ(probe.gpus.size(), 3u);
  EXPECT_EQ(probe.problem, "NVML does not tell GPU 1: Unknown Error");
}

TEST(ProbeNvml, LinksIntoSwitchesMakeOneNvSwitch) {
  const Cluster cluster = machine_with(four_on_a_switch()).cluster;
  EXPECT_EQ(cluster.parts_of(PartKind::kNvSwitch).size(), 1u);
  ASSERT_EQ(nvlinks(cluster).size(), 4u);
  EXPECT_EQ(nvlinks(cluster)[0].gbps, builtin_catalogue().links.at("nvlink4").gbps);
  EXPECT_EQ(cluster.device_of(cluster.parts_of(PartKind::kGpu)[0]).name, "h200");
}

TEST(ProbeNvml, LinksBetweenGpusJoinThemPairByPairAtTheirNumber) {
  const std::vector<ClusterLink> joined = nvlinks(machine_with(two_pairs()).cluster);
  ASSERT_EQ(joined.size(), 2u);  // each pair once
  const double whole = builtin_catalogue().links.at("nvlink3").gbps;
  EXPECT_DOUBLE_EQ(joined[0].gbps, whole);
  EXPECT_DOUBLE_EQ(joined[1].gbps, whole * 11 / 12);
}

TEST(ProbeNvml, WhatNvmlTellsReplacesTheGuessOfHwloc) {
  FakeNvml nvml = four_on_a_switch();
  for (FakeGpu& gpu : nvml.gpus) gpu.links.resize(9);
  fake = nvml;
  ProbedCluster machine = cluster_from_synthetic("pack:1 core:2 pu:1");
  machine.cluster.parts.push_back({.kind = PartKind::kNvSwitch, .name = "node0.nvswitch"});
  add_gpus(probe_nvml(fake_calls()).gpus, machine);
  EXPECT_EQ(machine.cluster.parts_of(PartKind::kNvSwitch).size(), 1u);
  EXPECT_DOUBLE_EQ(nvlinks(machine.cluster).at(0).gbps,
                   builtin_catalogue().links.at("nvlink4").gbps / 2);
}

TEST(ProbeNvml, AnotherSizeOfMemoryIsAnotherDevice) {
  FakeNvml nvml = two_pairs();
  nvml.gpus[0].memory = 42'400'000'000;
  const Cluster cluster = machine_with(nvml).cluster;
  const DeviceSpec& small = cluster.device_of(cluster.parts_of(PartKind::kGpu)[0]);
  EXPECT_EQ(small.name, "a100-42gb");
  EXPECT_EQ(small.memory_bytes, 42'400'000'000);
}

TEST(ProbeNvml, AFabricIsNamedSoThatHostsFindTheyShareIt) {
  FakeNvml nvml = four_on_a_switch();
  nvml.gpus[0].cluster = 0xab;
  fake = nvml;
  const NvmlProbe probe = probe_nvml(fake_calls());
  EXPECT_EQ(probe.gpus[0].fabric, "fabric-ab" + std::string(30, '0') + ".7");
  EXPECT_EQ(probe.gpus[1].fabric, "");  // a board of its own has no name
}

}  // namespace
}  // namespace colibri
