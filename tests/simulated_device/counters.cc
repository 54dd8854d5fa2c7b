#include "counters.h"

#include <algorithm>
#include <array>
#include <vector>

#include "device_state.h"
#include "execution.h"
#include "memory.h"
#include "simulated_control.h"

namespace colibri_sim {
namespace {

constexpr int kNumBanks = 32;
constexpr size_t kTableBits = 12, kTableSize = size_t{1} << kTableBits;

struct Instruction {
  unsigned int lanes = 0;
  bool is_counted = false;
  uintptr_t address[kWarpSize];
};

// A place in the code of one warp's kernel, and its instructions that not all lanes have reached.
struct Place {
  const void* code = nullptr;
  Access access = Access::kGlobalLoad;
  size_t bytes = 0;
  size_t num_passed = 0;  // instructions before pending[0]
  std::array<uint32_t, kWarpSize> num_accesses{};
  std::vector<Instruction> pending;
  size_t num_pending = 0;  // of them in use
};

struct WarpPlaces {
  std::vector<Place> places;    // of all launches
  std::vector<uint16_t> used;   // since the last flush
  std::vector<uint16_t> table;  // hash of code -> place + 1; empty until first used
};

struct Counting {
  std::map<std::string, KernelCounters> kernels;
  KernelCounters* current = nullptr;
  std::vector<WarpPlaces> warps;
  uint64_t bytes_to_host = 0;
};
Counting& counting() {
  static auto* one = new Counting;
  return *one;
}

bool is_shared(Access access) {
  return access == Access::kSharedLoad || access == Access::kSharedStore ||
         access == Access::kSharedAtomic;
}

void count_sectors(const Place& place, const Instruction& one) {
  uintptr_t sectors[kWarpSize];
  uint64_t num_sectors = 0, num_lanes = 0;
  for (unsigned int left = one.lanes; left != 0; left &= left - 1) {
    const uintptr_t sector = one.address[__builtin_ctz(left)] / 32;
    ++num_lanes;
    const uintptr_t* end = sectors + num_sectors;
    if (num_sectors > 0 && end[-1] == sector) continue;
    if (std::find(static_cast<const uintptr_t*>(sectors), end, sector) == end) {
      sectors[num_sectors++] = sector;
    }
  }
  KernelCounters& to = *counting().current;
  ++to.num_global_instructions;
  const bool is_load = place.access == Access::kGlobalLoad;
  (is_load ? to.loaded_bytes : to.stored_bytes) += num_lanes * place.bytes;
  (is_load ? to.loaded_sector_bytes : to.stored_sector_bytes) += num_sectors * 32;
}

// Ways of one phase: the lanes of `lanes` in one go.
int ways_of(const Place& place, const Instruction& one, unsigned int lanes) {
  uintptr_t words[kNumBanks][kWarpSize];
  int counts[kNumBanks] = {};
  int worst = 0;
  for (unsigned int left = lanes; left != 0; left &= left - 1) {
    const uintptr_t address = one.address[__builtin_ctz(left)];
    for (uintptr_t word = address / 4; word <= (address + place.bytes - 1) / 4; ++word) {
      const size_t bank = word % kNumBanks;
      uintptr_t* end = words[bank] + counts[bank];
      if (std::find(words[bank], end, word) != end) continue;
      *end = word;
      worst = std::max(worst, ++counts[bank]);
    }
  }
  return worst;
}

// 8 bytes are served in half warps, 16 in quarters.
void count_banks(const Place& place, const Instruction& one) {
  KernelCounters& to = *counting().current;
  ++to.num_shared_instructions;
  const int lanes_a_phase = place.bytes <= 4 ? 32 : place.bytes == 8 ? 16 : 8;
  const unsigned int phase = lanes_a_phase == 32 ? ~0u : (1u << lanes_a_phase) - 1;
  for (int first = 0; first < kWarpSize; first += lanes_a_phase) {
    const unsigned int lanes = one.lanes & (phase << first);
    if (lanes == 0) continue;
    const int ways = ways_of(place, one, lanes);
    ++to.num_shared_phases;
    to.num_shared_wavefronts += static_cast<uint64_t>(ways);
    to.worst_bank_ways = std::max(to.worst_bank_ways, ways);
  }
}

void count_instruction(const Place& place, Instruction& one) {
  if (is_shared(place.access)) {
    count_banks(place, one);
  } else {
    count_sectors(place, one);
  }
  one.is_counted = true;
}

Place& place_of(WarpPlaces& warp, const void* code, Access access, size_t bytes) {
  size_t slot = (reinterpret_cast<uintptr_t>(code) * 0x9E3779B97F4A7C15u) >> (64 - kTableBits);
  if (warp.table.empty()) warp.table.resize(kTableSize);
  for (size_t num_tried = 0; num_tried < kTableSize; ++num_tried) {
    uint16_t& entry = warp.table[slot];
    if (entry == 0) {
      warp.places.emplace_back();
      warp.places.back().code = code;
      warp.places.back().access = access;
      warp.places.back().bytes = bytes;
      entry = static_cast<uint16_t>(warp.places.size());
    }
    Place& place = warp.places[entry - 1u];
    if (place.code == code && place.bytes == bytes && place.access == access) {
      if (place.num_pending == 0 && place.num_passed == 0) {
        warp.used.push_back(static_cast<uint16_t>(entry - 1));
      }
      return place;
    }
    slot = (slot + 1) % kTableSize;
  }
  fail_thread("the simulated device counts at most 4096 places of memory access in a kernel");
}

void flush(Place& place) {
  for (size_t i = 0; i < place.num_pending; ++i) {
    if (!place.pending[i].is_counted) count_instruction(place, place.pending[i]);
  }
  place.num_pending = place.num_passed = 0;
  place.num_accesses.fill(0);
}

// The n-th access of each lane from this place.
Instruction& instruction_of(Place& place, int lane) {
  const size_t n = place.num_accesses[static_cast<size_t>(lane)]++ - place.num_passed;
  if (n >= place.num_pending) {
    if (place.pending.size() <= n) place.pending.resize(std::max<size_t>(8, 2 * n));
    place.pending[n].lanes = 0;
    place.pending[n].is_counted = false;
    place.num_pending = n + 1;
  }
  return place.pending[n];
}

}  // namespace

void start_counting(const KernelCall& call) {
  Counting& all = counting();
  all.current = &all.kernels[call.name];
  ++all.current->num_launches;
  all.current->max_shared_bytes = std::max(all.current->max_shared_bytes, call.shared_bytes);
  const auto num_warps = static_cast<size_t>((execution().num_threads + kWarpSize - 1) / kWarpSize);
  if (all.warps.size() < num_warps) all.warps.resize(num_warps);
  for (WarpPlaces& warp : all.warps) {
    if (!warp.used.empty() || warp.places.size() > kTableSize / 2)
      warp = {};  // left by a fault, or full
  }
}

void end_counting() { counting().current = nullptr; }

void count_one(Access access, const void* address, size_t bytes, const void* code,
               const Allocation* allocation) {
  const Execution& now = execution();
  const auto at = reinterpret_cast<uintptr_t>(address);
  Place& place = place_of(counting().warps[static_cast<size_t>(now.warp)], code, access, bytes);
  Instruction& one = instruction_of(place, now.lane);
  one.lanes |= 1u << now.lane;
  one.address[now.lane] = at;
  if (one.lanes == now.lanes_of(now.warp)) count_instruction(place, one);
  if (place.num_pending == 1 && one.is_counted) {  // all lanes are past it
    place.num_pending = 0;
    ++place.num_passed;
  }
  if (allocation == nullptr || allocation->names.empty() || access != Access::kGlobalLoad) return;
  for (const NamedRange& range : allocation->names) {
    if (at >= range.begin && at < range.end) {
      counting().current->loaded_bytes_of[range.name] += bytes;
    }
  }
}

void flush_counters_of_warp(int which) {
  WarpPlaces& warp = counting().warps[static_cast<size_t>(which)];
  for (const uint16_t idx : warp.used) flush(warp.places[idx]);
  warp.used.clear();
}

void flush_counters() {
  for (size_t i = 0; i < counting().warps.size(); ++i) flush_counters_of_warp(static_cast<int>(i));
}

KernelCounters counters_of(std::string_view kernel) {
  Guard guard(big_lock());
  const auto matches = [&](std::string_view name) {
    if (name == kernel || name.ends_with("::" + std::string(kernel))) return true;
    const std::string_view plain = name.substr(0, name.find('<'));
    return plain == kernel || plain.ends_with("::" + std::string(kernel));
  };
  KernelCounters sum;
  for (const auto& [name, one] : counting().kernels) {
    if (!matches(name)) continue;
    sum.num_launches += one.num_launches;
    sum.loaded_bytes += one.loaded_bytes;
    sum.stored_bytes += one.stored_bytes;
    sum.loaded_sector_bytes += one.loaded_sector_bytes;
    sum.stored_sector_bytes += one.stored_sector_bytes;
    sum.num_global_instructions += one.num_global_instructions;
    sum.num_shared_instructions += one.num_shared_instructions;
    sum.num_shared_phases += one.num_shared_phases;
    sum.num_shared_wavefronts += one.num_shared_wavefronts;
    sum.worst_bank_ways = std::max(sum.worst_bank_ways, one.worst_bank_ways);
    sum.max_shared_bytes = std::max(sum.max_shared_bytes, one.max_shared_bytes);
    for (const auto& [range, bytes] : one.loaded_bytes_of) sum.loaded_bytes_of[range] += bytes;
  }
  return sum;
}

std::vector<std::string> counted_kernels() {
  Guard guard(big_lock());
  std::vector<std::string> names;
  for (const auto& [name, counters] : counting().kernels) names.push_back(name);
  return names;
}

void reset_counters() {
  Guard guard(big_lock());
  counting().kernels.clear();
  counting().bytes_to_host = 0;
}

void count_copy_to_host(size_t bytes) {
  Guard guard(big_lock());
  counting().bytes_to_host += bytes;
}

uint64_t bytes_copied_to_host() {
  Guard guard(big_lock());
  return counting().bytes_to_host;
}

}  // namespace colibri_sim
