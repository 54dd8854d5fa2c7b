// What the machine can do at most, to hold a measured rate against: pieces of work that meet one
// limit and nothing else. Run them in the process and at the time of what they are compared with,
// in turns, because neighbours and clocks change.
#pragma once

#include <cstdint>
#include <functional>

#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace colibri {

// `amount` divided by the seconds that run() takes is the rate. The first run is slower (clocks,
// page faults): run once before measuring, then take the median of several.
struct Probe {
  double amount = 0;
  std::function<void()> run;
};

// Bytes read per second by all threads of `pool`, each piece of 1 MB in four streams: what a kernel
// that reads every weight once can reach. Reads whole megabytes of [data, data + bytes), which must
// have been written before, hold at least some hundred MB to say anything about memory rather than
// caches, and outlive the probe, as must the pool. A run costs bytes / bandwidth.
Probe read_probe(ThreadPool& pool, const void* data, int64_t bytes);

// f32 operations per second, two a multiply-add, of all threads of `pool` with the widest vectors
// of `isa` in twelve independent chains; portable has no fused multiply-add and multiplies, then
// adds. No memory is touched. A run costs about 5 to 50 ms.
Probe f32_probe(ThreadPool& pool, Isa isa);

// Integer operations per second, two a multiply-add of bytes, in the cheapest instructions that the
// products of q8 and q4 weights use on `isa`: vpdpbusd; pmaddubsw and paddw; or pmaddwd and paddd.
// Unpacking, sums of 16 bit that must be widened, and scales are not counted: two scales a group
// leave a product on AVX-512 about 70 % of this at best. A run costs about 5 to 50 ms.
Probe int8_probe(ThreadPool& pool, Isa isa);

// One timed run, per second of the wall clock.
double rate_of(const Probe& probe);

}  // namespace colibri
