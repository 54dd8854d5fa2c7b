#include "model/matrix_loads.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/buffer.h"
#include "base/quantised.h"

namespace colibri {
namespace {

// Between two calls of on_bytes.
constexpr uint64_t kSliceBytes = 256 << 20;
// Of one read: large enough that its cost is the copy, small enough to share between threads.
constexpr size_t kPieceBytes = 8 << 20;
// Pieces end where pages do: no page is touched first by two threads at once.
constexpr size_t kPageBytes = 2 << 20;
// Padding between neighbours that is read with them.
constexpr uint64_t kMaxPaddingBytes = 64;

// Values of one task that converts.
constexpr int64_t kConvertedValues = 4 << 20;

// One task: a read straight into place, or rows to convert.
struct Task {
  TensorRange range;
  size_t to = 0;
  bool is_copy = true;
  DType kept = DType::kF32;
  uint64_t counted_bytes = 0;  // stored bytes of matrices
};

bool continues(const Task& last, const MatrixLoad& load) {
  const TensorRange& range = load.range;
  if (!last.is_copy || last.range.file_idx != range.file_idx || load.offset_bytes < last.to) {
    return false;
  }
  const uint64_t end = last.range.offset_bytes + last.range.size_bytes;
  return range.offset_bytes >= end && range.offset_bytes - end < kMaxPaddingBytes &&
         range.offset_bytes - last.range.offset_bytes == load.offset_bytes - last.to;
}

std::vector<Task> joined(const std::vector<MatrixLoad>& loads) {
  std::vector<Task> tasks;
  for (const MatrixLoad& load : loads) {
    const bool is_copy = load.range.dtype == load.kept;
    const uint64_t bytes = load.range.size_bytes;
    if (is_copy && !tasks.empty() && continues(tasks.back(), load)) {
      Task& last = tasks.back();
      last.range.size_bytes = load.range.offset_bytes + bytes - last.range.offset_bytes;
      last.counted_bytes += bytes;
    } else {
      tasks.push_back({load.range, load.offset_bytes, is_copy, load.kept, bytes});
    }
  }
  return tasks;
}

// A matrix to convert falls into pieces of whole blocks of rows.
void cut_rows(const Task& whole, std::vector<Task>& pieces) {
  const int64_t blocks = kConvertedValues / std::max<int64_t>(1, whole.range.cols) / kScaleBlock;
  const int64_t rows = std::max<int64_t>(1, blocks) * kScaleBlock;
  for (int64_t first = 0; first < whole.range.rows; first += rows) {
    Task piece = whole;
    piece.range = row_slice(whole.range, first, std::min(rows, whole.range.rows - first));
    piece.to += static_cast<size_t>(matrix_bytes(whole.kept, first, whole.range.cols));
    piece.counted_bytes = piece.range.size_bytes;
    pieces.push_back(std::move(piece));
  }
}

void cut(const Task& whole, std::vector<Task>& pieces) {
  if (!whole.is_copy) return cut_rows(whole, pieces);
  const size_t bytes = whole.range.size_bytes;
  for (size_t at = 0; at < bytes;) {
    const size_t page_end = (whole.to + at + kPieceBytes) / kPageBytes * kPageBytes;
    const size_t end = std::min(bytes, page_end - whole.to);
    Task piece = whole;
    piece.range.offset_bytes += at;
    piece.range.size_bytes = end - at;
    piece.to += at;
    piece.counted_bytes = end == bytes ? whole.counted_bytes : 0;
    pieces.push_back(std::move(piece));
    at = end;
  }
}

// Scratch that was used once is kept for the next task: fresh pages are dear.
class ScratchShelf {
 public:
  Buffer take() {
    const std::lock_guard lock(mutex_);
    if (shelf_.empty()) return {};
    Buffer taken = std::move(shelf_.back());
    shelf_.pop_back();
    return taken;
  }
  void give_back(Buffer scratch) {
    const std::lock_guard lock(mutex_);
    shelf_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> shelf_;
};

void do_task(const Checkpoint& checkpoint, const Task& task, char* memory, ScratchShelf& shelf) {
  if (task.is_copy) return checkpoint.read(task.range, memory + task.to);
  Buffer scratch = shelf.take();
  load_range(checkpoint, task.range, task.kept, memory + task.to, scratch);
  shelf.give_back(std::move(scratch));
}

}  // namespace

void load_matrices(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& loads, char* memory,
                   ThreadPool& pool, const std::function<void(uint64_t)>& on_bytes) {
  std::vector<Task> tasks;
  for (const Task& whole : joined(loads)) cut(whole, tasks);
  ScratchShelf shelf;
  size_t begin = 0;
  while (begin < tasks.size()) {
    size_t end = begin;
    uint64_t read_bytes = 0, counted_bytes = 0;
    while (end < tasks.size() && read_bytes < kSliceBytes) {
      read_bytes += tasks[end].range.size_bytes;
      counted_bytes += tasks[end++].counted_bytes;
    }
    pool.run(static_cast<int64_t>(end - begin), [&](int64_t i) {
      do_task(checkpoint, tasks[begin + static_cast<size_t>(i)], memory, shelf);
    });
    on_bytes(counted_bytes);
    begin = end;
  }
}

OwnedMatrix load_matrix(const Checkpoint& checkpoint, const TensorKey& key,
                        const WeightFormats& formats, ThreadPool& pool) {
  const TensorRange range = checkpoint.range(key);
  OwnedMatrix matrix;
  matrix.view = {nullptr, kept_dtype(key.role, range.dtype, formats), range.rows, range.cols};
  matrix.memory = Buffer(static_cast<size_t>(matrix.view.size_bytes()));
  matrix.view.data = matrix.memory.data();
  load_matrices(checkpoint, {{range, matrix.view.dtype, 0}}, matrix.memory.as<char>(), pool,
                [](uint64_t) {});
  return matrix;
}

}  // namespace colibri
