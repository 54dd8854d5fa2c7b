// Dense products by cuBLASLt in which a row has the same bits in every call. cuBLASLt is free to
// sum in another order for another number of rows, so each weight shape gets a finite list of row
// counts (buckets), and each bucket one pinned algorithm, chosen at start: of the algorithms that
// the heuristic offers, those count whose probe row comes out bit-equal at the first, middle and
// last position of the bucket; they fall into classes of equal bits over all buckets, and the
// class that serves every bucket at the lowest places of the heuristic's lists is taken. That
// choice depends on GPU model, library version and shape alone, so every process makes the same
// one; times choose only inside the class, where they cannot be seen in a result. TF32 is off.
// Where cuBLASLt cannot be opened (kernels/cuda/lt_library.h) no shape fits, for that reason.
//
// Built into libcolibri_cuda.so; the header needs no CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/device.h"
#include "kernels/op_types.h"

namespace colibri {

// Weight [n, k] and rows [T, k], both of `dtype`: kBF16 or kF32; the result is f32.
struct DenseShape {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kBF16;
  int64_t max_tokens = 1024;  // larger calls are cut; the head, which sees few rows, says less
};

struct DenseOptions {
  std::vector<int64_t> buckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};  // ascending
  size_t workspace_bytes = size_t{32} << 20;                                     // cuBLASLt's own
  int max_candidates = 16;  // algorithms tried a bucket
  // Microseconds of what `enqueue` puts on `stream`. Empty: the median by CUDA events. Only the
  // fastest of algorithms with equal bits is chosen by it.
  std::function<double(const std::function<void()>& enqueue, Stream& stream)> time_us;
  // False: the class's first algorithm in the heuristic's order, and no times in the reports.
  bool measures = true;
};

// What was chosen for one bucket.
struct DenseChoice {
  int64_t bucket = 0;
  std::string algorithm;  // cuBLASLt's id, tile and split of k
  int num_candidates = 0;
  int num_bit_equal = 0;  // of these, in the class
  double time_us = 0;
  double free_time_us = 0;  // of the fastest candidate, whatever its bits
};

struct DenseReport {
  DenseShape shape;
  bool fits = false;   // else the own kernel multiplies, for every number of rows
  std::string reason;  // why not
  std::vector<DenseChoice> choices;

  // Largest time over free choice's among the buckets, at least 1; 1 where nothing was measured.
  double cost() const;
  // One line for logs.
  std::string text() const;
};

// Threads: one. Streams: work of one object must not overlap, for the workspace is one.
class DenseProducts {
 public:
  virtual ~DenseProducts() = default;
  virtual const std::vector<DenseReport>& reports() const = 0;
  // Whether run() multiplies with this weight: its shape fits, it is aligned to 16 bytes and the
  // rows are of its type. Never depends on the number of rows.
  virtual bool takes(const MatMul& op) const = 0;
  // Enqueues the product, bias added by a rounding of its own. Rows: whole buckets straight from
  // and into the caller's arrays where these are 16-byte aligned and without gaps; the rest by way
  // of a padded copy of at most kDenseStagedRows rows, so that nothing past the caller's rows is
  // touched. The copies' padding rows hold anything. Can be captured in a graph.
  virtual void run(const MatMul& op, Stream& stream) = 0;
  // Of the probes' bits: processes that differ here would give different tokens.
  virtual uint64_t fingerprint() const = 0;
};

// Rows of the padded copies at most: the smallest bucket that is at least this, or the largest.
inline constexpr int64_t kDenseStagedRows = 128;

// Bytes on the device for one process.
struct DenseMemory {
  int64_t kept_bytes = 0;   // at most: workspace and padded copies
  int64_t probe_bytes = 0;  // besides, while the largest shape is probed
};
// Of make_dense_products with the same arguments. Pure.
DenseMemory dense_memory(std::span<const DenseShape> shapes, const DenseOptions& options);

// Probes every shape (a product of each candidate a bucket, on memory of its own, freed again) and
// takes the workspace; nothing is allocated later. dense_memory() says how much: the probe wants
// the weight's bytes and max_tokens rows in and out. Fails with kInternal for a shape that is empty
// or of another dtype, and for buckets that do not ascend from 1.
std::unique_ptr<DenseProducts> make_dense_products(Device& device,
                                                   std::span<const DenseShape> shapes,
                                                   const DenseOptions& options);

}  // namespace colibri
