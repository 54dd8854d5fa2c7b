// The GPUs of this process as plain data: topology/probe_cuda.h fills it, everyone reads it. Needs
// no CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// How one GPU reaches the memory of another.
enum class PeerLink : uint8_t {
  kNone,    // not directly: bytes go through host memory
  kDirect,  // over PCIe
  kAtomic,  // with native atomics: NVLink
};

struct GpuInfo {
  int ordinal = 0;           // among the GPUs that this process sees
  std::string name;          // "NVIDIA H200"
  std::string uuid;          // "GPU-5f2c...": the same in every process and container
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;  // in all
  int num_multiprocessors = 0;
  std::string pci_bus_id;       // "0000:17:00.0"
  std::vector<PeerLink> peers;  // [GPUs of the probe] by ordinal; kNone for itself
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;

  std::string capability() const { return std::to_string(major) + "." + std::to_string(minor); }
};

struct GpuProbe {
  int driver_version = 0;    // the newest CUDA the driver knows, as 13000 for 13.0; 0: no driver
  int runtime_version = 0;   // the CUDA this backend was built with
  std::string problem = {};  // why no GPU can be used, in words; empty when there is one
  std::vector<GpuInfo> gpus = {};
};

// Memory of one GPU as it stands.
struct GpuMemory {
  int64_t free_bytes = 0, total_bytes = 0;
};

// 13000 -> "13.0".
std::string cuda_version_text(int version);

// Fails with kEnvironment, saying why, when the probe found no GPU.
void require_gpu(const GpuProbe& probe);

// "GPU 3 (NVIDIA H200, GPU-5f2c...)", for messages.
std::string describe(const GpuInfo& gpu);

// What a rank sees, for the choice below.
struct RankGpus {
  int rank = 0;
  int local_rank = 0;
  std::string node = {};           // equal on ranks of one machine
  int wanted_ordinal = -1;         // --device cuda:N; -1: colibri chooses
  std::vector<GpuInfo> gpus = {};  // that this rank sees; `peers` is not read
};

// The GPU of each rank, an index into its own list: cuda:N as asked; else the GPU of the local
// rank's number, or the only one that a batch system lets a rank see.
// Errors: kEnvironment naming ranks and GPUs when a machine has more ranks than GPUs, when a rank
// sees none of its number, when two ranks came to the same GPU (by UUID), and, unless
// `allow_mixed`, when compute capabilities differ: they would give other bits.
std::vector<int> choose_gpus(std::span<const RankGpus> ranks, bool allow_mixed);

// Of `ranks_near` (for each rank of this machine the CPUs near its GPU), the part of rank `which`:
// ranks with the same CPUs share them evenly, in order. When there are more ranks than CPUs, ranks
// share a CPU.
std::vector<int> share_near_cpus(std::span<const std::vector<int>> ranks_near, size_t which);

// One fact a line, for doctor:
//   GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors, 151 GB, PCI 0000:17:00.0,
//   GPU-... peer links: GPUs 0-7 all reach each other (NVLink)
std::string gpu_text(const GpuProbe& probe);

}  // namespace colibri
