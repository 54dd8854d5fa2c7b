#include "topology/probe_nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <type_traits>
#include <utility>

namespace colibri {
namespace {

constexpr unsigned int kMaxGpus = 256, kMaxLinks = 64;
constexpr int kRemoteGpu = 0, kRemoteSwitch = 2;
constexpr unsigned char kFabricReady = 3;

// NVML writes the domain with eight digits, hwloc and CUDA with four.
std::string bus_id_text(const NvmlPci& pci) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  return text;
}

class Asker {
 public:
  explicit Asker(const NvmlCalls& calls) : calls_(calls) {}

  NvmlProbe ask() {
    NvmlProbe probe;
    unsigned int count = 0;
    if (const int error = calls_.count(&count); error != 0) {
      probe.problem = "NVML counts no GPUs: " + words_of(error);
      return probe;
    }
    for (unsigned int i = 0; i < std::min(count, kMaxGpus); ++i) {
      void* device = nullptr;
      NvmlPci pci{};
      int error = calls_.handle(i, &device);
      if (error == 0) error = calls_.pci(device, &pci);
      if (error != 0) {
        // The others are known all the same.
        probe.problem = "NVML does not tell GPU " + std::to_string(i) + ": " + words_of(error);
        continue;
      }
      probe.gpus.push_back(gpu_of(device, pci));
    }
    std::sort(probe.gpus.begin(), probe.gpus.end(),
              [](const NvmlGpu& a, const NvmlGpu& b) { return a.pci_bus_id < b.pci_bus_id; });
    if (probe.gpus.empty() && probe.problem.empty()) probe.problem = "NVML sees no GPU";
    return probe;
  }

  std::string words_of(int error) const {
    const char* words = calls_.error_text == nullptr ? nullptr : calls_.error_text(error);
    return words != nullptr ? words : "error " + std::to_string(error);
  }

 private:
  NvmlGpu gpu_of(void* device, const NvmlPci& pci) const {
    NvmlGpu gpu;
    gpu.pci_bus_id = bus_id_text(pci);
    char name[96] = {};
    if (calls_.name(device, name, sizeof name - 1) == 0) gpu.name = name;
    NvmlMemory memory{};
    if (calls_.memory(device, &memory) == 0) gpu.memory_bytes = static_cast<int64_t>(memory.total);
    unsigned int generation = 0, lanes = 0;
    if (calls_.pcie_generation(device, &generation) == 0 && generation <= 16) {
      gpu.pcie_generation = static_cast<int>(generation);
    }
    if (calls_.pcie_lanes(device, &lanes) == 0 && lanes <= 32) {
      gpu.pcie_lanes = static_cast<int>(lanes);
    }
    add_links(device, gpu);
    gpu.fabric = fabric_of(device);
    return gpu;
  }

  void add_links(void* device, NvmlGpu& gpu) const {
    if (calls_.link_state == nullptr || calls_.link_remote_pci == nullptr) return;
    for (unsigned int link = 0; link < kMaxLinks; ++link) {
      int is_up = 0;
      // A link that is cut off may be an error, and the next one up: all are asked.
      if (calls_.link_state(device, link, &is_up) != 0 || is_up != 1) continue;
      int kind = -1;
      const bool is_told =
          calls_.link_remote_kind != nullptr && calls_.link_remote_kind(device, link, &kind) == 0;
      NvmlPci remote{};
      if (is_told && kind == kRemoteSwitch) {
        ++gpu.switch_links;
      } else if ((!is_told || kind == kRemoteGpu) &&
                 calls_.link_remote_pci(device, link, &remote) == 0) {
        ++gpu.peer_links[bus_id_text(remote)];
      }
    }
  }

  std::string fabric_of(void* device) const {
    NvmlFabric fabric{};
    if (calls_.fabric == nullptr || calls_.fabric(device, &fabric) != 0) return "";
    // An eight-GPU board reports a fabric too, with nothing but zeros for a name.
    const bool has_name = std::any_of(std::begin(fabric.cluster), std::end(fabric.cluster),
                                      [](unsigned char byte) { return byte != 0; });
    if (fabric.state != kFabricReady || fabric.status != 0 || !has_name) return "";
    std::string text = "fabric-";
    for (const unsigned char byte : fabric.cluster) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned int>(byte));
      text += digits;
    }
    return text + "." + std::to_string(fabric.clique);
  }

  const NvmlCalls& calls_;
};

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};

// Functions that every driver of this decade has; "": all found, else the first that is missing.
std::string missing_call(const NvmlCalls& c) {
  const std::pair<const char*, bool> needed[] = {
      {"nvmlInit_v2", c.init != nullptr},
      {"nvmlShutdown", c.shutdown != nullptr},
      {"nvmlDeviceGetCount_v2", c.count != nullptr},
      {"nvmlDeviceGetHandleByIndex_v2", c.handle != nullptr},
      {"nvmlDeviceGetName", c.name != nullptr},
      {"nvmlDeviceGetPciInfo_v3", c.pci != nullptr},
      {"nvmlDeviceGetMemoryInfo", c.memory != nullptr},
      {"nvmlDeviceGetMaxPcieLinkGeneration", c.pcie_generation != nullptr},
      {"nvmlDeviceGetMaxPcieLinkWidth", c.pcie_lanes != nullptr}};
  for (const auto& [name, is_there] : needed) {
    if (!is_there) return name;
  }
  return "";
}

}  // namespace

NvmlProbe probe_nvml(const NvmlCalls& calls) {
  if (const std::string name = missing_call(calls); !name.empty()) {
    return {.problem = "this NVML has no " + name + "; is the driver older than 450?"};
  }
  Asker asker(calls);
  if (const int error = calls.init(); error != 0) {
    return {.problem = "NVML does not start: " + asker.words_of(error)};
  }
  NvmlProbe probe = asker.ask();
  calls.shutdown();
  return probe;
}

NvmlProbe probe_nvml(const std::string& library) {
  const std::unique_ptr<void, Closer> opened(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (opened == nullptr) {
    const char* words = dlerror();
    return {.problem = "NVML is not here: " + std::string(words != nullptr ? words : library)};
  }
  NvmlCalls calls;
  const auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(opened.get(), name));
  };
  find(calls.init, "nvmlInit_v2");
  find(calls.shutdown, "nvmlShutdown");
  find(calls.error_text, "nvmlErrorString");
  find(calls.count, "nvmlDeviceGetCount_v2");
  find(calls.handle, "nvmlDeviceGetHandleByIndex_v2");
  find(calls.name, "nvmlDeviceGetName");
  find(calls.pci, "nvmlDeviceGetPciInfo_v3");
  find(calls.memory, "nvmlDeviceGetMemoryInfo");
  find(calls.pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  find(calls.pcie_lanes, "nvmlDeviceGetMaxPcieLinkWidth");
  find(calls.link_state, "nvmlDeviceGetNvLinkState");
  find(calls.link_remote_kind, "nvmlDeviceGetNvLinkRemoteDeviceType");
  find(calls.link_remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  find(calls.fabric, "nvmlDeviceGetGpuFabricInfo");
  return probe_nvml(calls);
}

}  // namespace colibri
