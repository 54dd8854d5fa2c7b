// Brings matrices from a checkpoint into one stretch of memory, with every thread and in large
// positional reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread_pool.h"
#include "model/checkpoint.h"
#include "model/weight_loader.h"

namespace colibri {

// One matrix and where it goes.
struct MatrixLoad {
  TensorRange range;
  DType kept = DType::kF32;
  size_t offset_bytes = 0;  // in the memory: a multiple of 64
};

// Reads `loads`, which follow each other in memory. A matrix that is stored as it is kept goes
// straight to its place; neighbours in memory that lie as far apart in the file are read together,
// with the padding between them. Others are converted through a few MB a thread. `on_bytes` is
// called on this thread with the stored bytes just read. Errors: as load_range.
void load_matrices(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& loads, char* memory,
                   ThreadPool& pool, const std::function<void(uint64_t)>& on_bytes);

// One matrix with memory of its own, read the same way.
OwnedMatrix load_matrix(const Checkpoint& checkpoint, const TensorKey& key,
                        const WeightFormats& formats, ThreadPool& pool);

}  // namespace colibri
