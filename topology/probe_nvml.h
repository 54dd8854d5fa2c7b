// Asks NVIDIA's management library, which comes with the driver, what GPUs a machine has and how
// NVLink joins them. It is opened when asked for, so that building and running need neither.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace colibri {

struct NvmlGpu {
  std::string name;        // "NVIDIA H200"
  std::string pci_bus_id;  // "0000:17:00.0"
  int64_t memory_bytes = 0;
  // The best that GPU and slot reach together, whatever the link sleeps at now; 0: not told.
  int pcie_generation = 0, pcie_lanes = 0;
  // NVLinks that are up: into switches, and into other GPUs by bus id.
  int switch_links = 0;
  std::map<std::string, int> peer_links = {};
  // Equal on GPUs, also of several hosts, that one set of switches joins; empty: none beyond a
  // host's own.
  std::string fabric = {};
  friend bool operator==(const NvmlGpu&, const NvmlGpu&) = default;
};

struct NvmlProbe {
  std::string problem = {};        // why nothing is known, in words; empty: all went well
  std::vector<NvmlGpu> gpus = {};  // in the order of their bus ids
};

// The functions of the library that are used, with its own types written out: a device is an opaque
// pointer, a result of 0 is success. Links and fabric may be missing in an old driver.
struct NvmlPci {
  char legacy_bus_id[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlFabric {
  unsigned char cluster[16];
  int status;
  unsigned int clique;
  unsigned char state;
};
struct NvmlCalls {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*handle)(unsigned int index, void** device) = nullptr;
  int (*name)(void* device, char*, unsigned int size) = nullptr;
  int (*pci)(void* device, NvmlPci*) = nullptr;
  int (*memory)(void* device, NvmlMemory*) = nullptr;
  int (*pcie_generation)(void* device, unsigned int*) = nullptr;
  int (*pcie_lanes)(void* device, unsigned int*) = nullptr;
  int (*link_state)(void* device, unsigned int link, int* is_up) = nullptr;
  int (*link_remote_kind)(void* device, unsigned int link, int* kind) = nullptr;
  int (*link_remote_pci)(void* device, unsigned int link, NvmlPci*) = nullptr;
  int (*fabric)(void* device, NvmlFabric*) = nullptr;
};

// Takes tens of milliseconds where there is a driver. Touches no GPU's memory and makes no context.
// Fails for nothing: see `problem`.
NvmlProbe probe_nvml(const std::string& library = "libnvidia-ml.so.1");

// The same by other functions.
NvmlProbe probe_nvml(const NvmlCalls& calls);

}  // namespace colibri
