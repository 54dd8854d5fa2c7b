// What tests ask of the simulated device beyond CUDA: seeds, counts, faults, the order of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace colibri_sim {

// When enqueued work runs: as late as the rules allow (only what a wait asks for, and everything as
// far as it goes when that stalls), at once, or a random mixture. Starts with COLIBRI_SIM_STREAMS.
enum class StreamOrder : unsigned char { kLate, kAtOnce, kMixed };
void set_stream_order(StreamOrder order);
// Order of blocks, threads, streams and graph nodes. Starts with COLIBRI_SIM_SEED.
void set_seed(uint64_t seed);

// Messages of kernel faults, spoilt memory and misused calls since the last reset, oldest first.
std::vector<std::string> faults();
// Forgets faults and the devices' sticky errors, drops all work that is still queued.
void reset_faults();

struct KernelCounters {
  uint64_t num_launches = 0;
  // Global memory. Asked: lanes times their bytes. Sectors: distinct 32-byte sectors of each warp
  // instruction, times 32.
  uint64_t loaded_bytes = 0, stored_bytes = 0;
  uint64_t loaded_sector_bytes = 0, stored_sector_bytes = 0;
  uint64_t num_global_instructions = 0;
  // Shared memory. Ways: the most words that one bank serves in one phase of an instruction.
  uint64_t num_shared_instructions = 0;
  uint64_t num_shared_phases = 0;      // without conflicts
  uint64_t num_shared_wavefronts = 0;  // with them
  int worst_bank_ways = 0;
  size_t max_shared_bytes = 0;
  // Bytes loaded from each range named by name_allocation().
  std::map<std::string, uint64_t> loaded_bytes_of;
};

// Sum over the kernels of this name: "colibri::cuda::rms_norm_kernel", or the part after the last
// "::"; without template arguments it stands for all of them. Zero for an unknown name.
KernelCounters counters_of(std::string_view kernel);
std::vector<std::string> counted_kernels();
void reset_counters();
// By copies from device memory to the host's that have run since.
uint64_t bytes_copied_to_host();
// Bytes of [memory, memory + bytes) are counted under `name`; without `bytes`, up to the end of the
// allocation. The name goes when the memory is freed.
void name_allocation(const void* memory, std::string name, size_t bytes = 0);

// What was done in which order, for tests that show that work was enqueued before a wait.
enum class Order : unsigned char {
  kEnqueueKernel,
  kEnqueueCopy,
  kEnqueueFill,
  kEnqueueWork,  // of stand-ins, by their name
  kEnqueueGraph,
  kRecordEvent,
  kWaitEvent,  // a stream for an event
  kHostWait,   // synchronise or query, or what a stand-in logs as such
  kStart,      // work begins to run
  kDone,
  kBeginRange,  // a thread's range (NVTX), by its name
  kEndRange,
};
struct OrderEntry {
  Order what;
  std::string name;
  int stream = 0;  // streams count from 1 in the order of their creation; 0 is no stream or several
};
void start_order_log();  // empties it
std::vector<OrderEntry> order_log();
void log_order(Order what, std::string name, int stream = 0);

// One line for each allocation, stream, event and graph that lives; "" when none does.
std::string leak_report();
size_t device_bytes_in_use(int device);

}  // namespace colibri_sim
