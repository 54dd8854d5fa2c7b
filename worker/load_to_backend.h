// Matrices from a checkpoint to where a backend computes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/backend.h"
#include "model/matrix_loads.h"

namespace colibri {

// As load_matrices, into `memory` of the backend's device. For a GPU the matrices come through two
// stretches of pinned host memory: while one is copied the next is read into the other; q8 and q4
// weights are put into the backend's order there. Peak host memory: both stretches, each of 64 MB
// or one matrix if that is larger.
void load_to_backend(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& loads,
                     char* memory, const Backend& backend,
                     const std::function<void(uint64_t)>& on_bytes);

// Of pinned memory that load_to_backend takes and gives back for matrices of total_bytes, each of
// largest_bytes at most.
int64_t staging_bytes_of_load(int64_t total_bytes, int64_t largest_bytes);

}  // namespace colibri
