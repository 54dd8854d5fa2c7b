// Counts of memory traffic by kernel (include/simulated_control.h).
#pragma once

#include <cstddef>

#include "block_runner.h"

namespace colibri_sim {

struct Allocation;

void start_counting(const KernelCall& call);
void end_counting();
// One access of the running thread from the place `code`; `allocation` is null for shared memory.
void count_one(Access access, const void* address, size_t bytes, const void* code,
               const Allocation* allocation);
// Accesses before and after a meeting of all are never one instruction.
void flush_counters();
void flush_counters_of_warp(int warp);
void count_copy_to_host(size_t bytes);

}  // namespace colibri_sim
