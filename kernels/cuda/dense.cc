#include "kernels/cuda/dense.h"

#include <algorithm>
#include <sstream>

#include "base/cuda_check.h"
#include "base/error.h"
#include "kernels/cuda/dense_probe.h"
#include "kernels/cuda/dense_rows.h"
#include "kernels/cuda/lt_library.h"

namespace colibri {
namespace {

using cuda::PinnedBucket;
using cuda::PinnedShape;

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % cuda::kLtAlignment == 0;
}

// The median of five, after one to warm up, by events around each.
double time_by_events(const std::function<void()>& enqueue, Stream& stream) {
  constexpr int kRuns = 5;
  cudaEvent_t begin = nullptr, end = nullptr;
  cuda_check(cudaEventCreateWithFlags(&begin, 0), "making an event");
  cuda_check(cudaEventCreateWithFlags(&end, 0), "making an event");
  std::vector<double> times;
  for (int run = 0; run <= kRuns; ++run) {
    float ms = 0;
    cuda_check(cudaEventRecord(begin, native(stream)), "recording an event");
    enqueue();
    cuda_check(cudaEventRecord(end, native(stream)), "recording an event");
    cuda_check(cudaEventSynchronize(end), "a timed product");
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "reading a time");
    if (run > 0) times.push_back(ms * 1e3);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

// `count` rows from `begin` on, multiplied as a bucket.
struct Piece {
  const PinnedBucket* bucket = nullptr;
  int64_t begin = 0;
  int64_t count = 0;
  bool is_staged = false;
};

class LtDense : public DenseProducts {
 public:
  LtDense(Device& device, std::span<const DenseShape> shapes, const DenseOptions& options);
  const std::vector<DenseReport>& reports() const override { return reports_; }
  bool takes(const MatMul& op) const override { return find(op) != nullptr; }
  void run(const MatMul& op, Stream& stream) override;
  uint64_t fingerprint() const override;

 private:
  const PinnedShape* find(const MatMul& op) const;
  static Piece next_piece(const PinnedShape& shape, const MatMul& op, int64_t begin);
  void run_direct(const MatMul& op, const Piece& piece, cudaStream_t stream);
  void run_staged(const MatMul& op, const Piece& piece, cudaStream_t stream);
  void multiply(const PinnedBucket& bucket, const void* weight, const void* x, float* out,
                cudaStream_t stream);
  void take_staging(Device& device);

  DenseOptions options_;
  cuda::LtPointer<cublasLtContext> handle_;
  Buffer workspace_, staged_x_, staged_out_;
  std::vector<PinnedShape> shapes_;
  std::vector<DenseReport> reports_;
};

const void* rows_of(const MatMul& op) {
  return op.weight.dtype == DType::kBF16 ? static_cast<const void*>(op.x_bf16) : op.x;
}

int64_t x_stride_of(const MatMul& op) {
  return op.weight.dtype == DType::kBF16 ? op.weight.cols : op.x_stride;
}

const void* x_row(const MatMul& op, int64_t row) {
  if (op.weight.dtype == DType::kBF16) return op.x_bf16 + row * op.weight.cols;
  return op.x + row * op.x_stride;
}

// The largest bucket a padded copy is made for.
int64_t staged_rows(std::span<const int64_t> buckets) {
  for (const int64_t rows : buckets) {
    if (rows >= kDenseStagedRows) return rows;
  }
  return buckets.back();
}

int64_t staged_rows(const PinnedShape& shape) {
  for (const PinnedBucket& bucket : shape.buckets) {
    if (bucket.rows >= kDenseStagedRows) return bucket.rows;
  }
  return shape.buckets.back().rows;
}

int64_t row_bytes_of(const DenseShape& shape, int64_t rows) {
  return rows * shape.k * static_cast<int64_t>(size_of(shape.dtype));
}

int64_t out_bytes_of(const DenseShape& shape, int64_t rows) {
  return rows * shape.n * static_cast<int64_t>(sizeof(float));
}

LtDense::LtDense(Device& device, std::span<const DenseShape> shapes, const DenseOptions& options)
    : options_(options), workspace_(device, options.workspace_bytes) {
  const bool has_library = cuda::cublaslt_problem().empty();
  if (has_library) handle_ = cuda::make_lt_handle();
  if (!options_.time_us) options_.time_us = time_by_events;
  const auto stream = device.make_stream();
  const cuda::ProbeTools tools{&device, stream.get(), handle_.get(), workspace_.data(), &options_};
  for (const DenseShape& shape : shapes) {
    check(shape.n > 0 && shape.k > 0 && shape.max_tokens > 0 &&
              (shape.dtype == DType::kBF16 || shape.dtype == DType::kF32),
          "dense shape [", shape.n, ", ", shape.k, "] of ", to_string(shape.dtype));
    DenseReport report{.shape = shape, .reason = cuda::cublaslt_problem(), .choices = {}};
    if (has_library) shapes_.push_back(cuda::pin_algorithms(shape, tools, report));
    reports_.push_back(std::move(report));
  }
  stream->synchronize();
  take_staging(device);
}

void LtDense::take_staging(Device& device) {
  int64_t x_bytes = 0, out_bytes = 0;
  for (const PinnedShape& one : shapes_) {
    if (one.buckets.empty()) continue;
    const int64_t rows = staged_rows(one);
    x_bytes = std::max(x_bytes, row_bytes_of(one.shape, rows));
    out_bytes = std::max(out_bytes, out_bytes_of(one.shape, rows));
  }
  staged_x_ = Buffer(device, static_cast<size_t>(x_bytes));
  staged_out_ = Buffer(device, static_cast<size_t>(out_bytes));
}

const PinnedShape* LtDense::find(const MatMul& op) const {
  if (rows_of(op) == nullptr || !is_aligned(op.weight.data)) return nullptr;
  for (const PinnedShape& one : shapes_) {
    if (one.shape.n == op.weight.rows && one.shape.k == op.weight.cols &&
        one.shape.dtype == op.weight.dtype && !one.buckets.empty()) {
      return &one;
    }
  }
  return nullptr;
}

// Whole buckets from the caller's arrays, large ones first; what is less than the copies' size
// goes by way of them in one piece, so that the weight is read once for it.
Piece LtDense::next_piece(const PinnedShape& shape, const MatMul& op, int64_t begin) {
  const int64_t rest = op.num_tokens - begin;
  const bool has_gaps = op.out_stride != op.weight.rows || x_stride_of(op) != op.weight.cols;
  const bool can_be_direct =
      !has_gaps && is_aligned(x_row(op, begin)) && is_aligned(op.out + begin * op.out_stride);
  const int64_t most_staged = staged_rows(shape);
  for (auto bucket = shape.buckets.rbegin(); can_be_direct && bucket != shape.buckets.rend();
       ++bucket) {
    if (bucket->rows == rest || (bucket->rows < rest && bucket->rows >= most_staged)) {
      return {&*bucket, begin, bucket->rows, false};
    }
  }
  const int64_t count = std::min(rest, most_staged);
  const auto bucket = std::find_if(shape.buckets.begin(), shape.buckets.end(),
                                   [&](const PinnedBucket& one) { return one.rows >= count; });
  return {&*bucket, begin, count, true};
}

void LtDense::multiply(const PinnedBucket& bucket, const void* weight, const void* x, float* out,
                       cudaStream_t stream) {
  cuda::lt_check(
      bucket.product->enqueue({weight, x, out, workspace_.data(), options_.workspace_bytes},
                              bucket.algo, stream),
      "a dense product");
}

void LtDense::run_direct(const MatMul& op, const Piece& piece, cudaStream_t stream) {
  float* out = op.out + piece.begin * op.out_stride;
  multiply(*piece.bucket, op.weight.data, x_row(op, piece.begin), out, stream);
  if (op.bias == nullptr) return;
  cuda::copy_dense_rows(
      {out, op.bias, out, piece.count, op.weight.rows, op.out_stride, op.out_stride}, stream);
}

void LtDense::run_staged(const MatMul& op, const Piece& piece, cudaStream_t stream) {
  const int64_t n = op.weight.rows, k = op.weight.cols;
  if (x_stride_of(op) == k) {
    const auto bytes = static_cast<size_t>(piece.count * k) * size_of(op.weight.dtype);
    cuda_check(cudaMemcpyAsync(staged_x_.data(), x_row(op, piece.begin), bytes,
                               cudaMemcpyDeviceToDevice, stream),
               "a copy of rows");
  } else {
    cuda::copy_dense_rows({op.x + piece.begin * op.x_stride, nullptr, staged_x_.as<float>(),
                           piece.count, k, op.x_stride, k},
                          stream);
  }
  auto* staged = staged_out_.as<float>();
  multiply(*piece.bucket, op.weight.data, staged_x_.data(), staged, stream);
  cuda::copy_dense_rows(
      {staged, op.bias, op.out + piece.begin * op.out_stride, piece.count, n, n, op.out_stride},
      stream);
}

void LtDense::run(const MatMul& op, Stream& stream) {
  const PinnedShape* shape = find(op);
  check(shape != nullptr, "a dense product that was not prepared: weight [", op.weight.rows, ", ",
        op.weight.cols, "] of ", to_string(op.weight.dtype));
  for (int64_t begin = 0; begin < op.num_tokens;) {
    const Piece piece = next_piece(*shape, op, begin);
    if (piece.is_staged) {
      run_staged(op, piece, native(stream));
    } else {
      run_direct(op, piece, native(stream));
    }
    begin += piece.count;
  }
}

uint64_t LtDense::fingerprint() const {
  uint64_t hash = 0;
  for (const PinnedShape& one : shapes_) hash = hash * 0x100000001B3u + one.fingerprint;
  return hash;
}

}  // namespace

double DenseReport::cost() const {
  double most = 1;
  for (const DenseChoice& one : choices) {
    if (one.free_time_us > 0) most = std::max(most, one.time_us / one.free_time_us);
  }
  return most;
}

std::string DenseReport::text() const {
  std::ostringstream out;
  out << "dense [" << shape.n << ", " << shape.k << "] " << to_string(shape.dtype) << ": ";
  if (!fits) {
    out << "own kernel, for " << reason;
    return out.str();
  }
  out << choices.size() << " buckets pinned";
  if (choices.front().free_time_us > 0) out << ", at most " << cost() << " times free choice";
  return out.str();
}

DenseMemory dense_memory(std::span<const DenseShape> shapes, const DenseOptions& options) {
  DenseMemory memory;
  int64_t x_bytes = 0, out_bytes = 0;
  for (const DenseShape& shape : shapes) {
    const auto buckets = cuda::buckets_of(shape, options);
    const int64_t probed = buckets.back(), staged = staged_rows(buckets);
    memory.probe_bytes =
        std::max(memory.probe_bytes, row_bytes_of(shape, shape.n) + row_bytes_of(shape, probed) +
                                         out_bytes_of(shape, probed));
    x_bytes = std::max(x_bytes, row_bytes_of(shape, staged));
    out_bytes = std::max(out_bytes, out_bytes_of(shape, staged));
  }
  memory.kept_bytes = static_cast<int64_t>(options.workspace_bytes) + x_bytes + out_bytes;
  return memory;
}

std::unique_ptr<DenseProducts> make_dense_products(Device& device,
                                                   std::span<const DenseShape> shapes,
                                                   const DenseOptions& options) {
  check(!options.buckets.empty() && options.buckets.front() == 1 &&
            std::is_sorted(options.buckets.begin(), options.buckets.end()),
        "buckets of dense products ascend from 1");
  return std::make_unique<LtDense>(device, shapes, options);
}

}  // namespace colibri
