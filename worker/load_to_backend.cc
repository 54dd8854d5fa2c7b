#include "worker/load_to_backend.h"

#include <algorithm>

#include "base/quantised.h"
#include "base/staging_buffer.h"

namespace colibri {
namespace {

constexpr size_t kStretchBytes = 64 << 20;
// Panels of one task that reorders weights.
constexpr int64_t kPanelsPerTask = 64;

size_t end_of(const MatrixLoad& load) {
  const int64_t bytes = matrix_bytes(load.kept, load.range.rows, load.range.cols);
  return load.offset_bytes + static_cast<size_t>(bytes);
}

// How many of `loads` from `begin` on lie within `bytes`; at least one.
size_t count_fitting(const std::vector<MatrixLoad>& loads, size_t begin, size_t bytes) {
  size_t end = begin + 1;
  while (end < loads.size() && end_of(loads[end]) - loads[begin].offset_bytes <= bytes) ++end;
  return end - begin;
}

void pack(const MatrixLoad& load, char* matrix, const Backend& backend) {
  if (!is_quantised(load.kept)) return;
  const int64_t rows_each = kPanelsPerTask * kPanelRows, cols = load.range.cols;
  const int64_t tasks = (load.range.rows + rows_each - 1) / rows_each;
  backend.pool->run(tasks, [&](int64_t i) {
    const int64_t first = i * rows_each;
    backend.ops->pack_weights(load.kept, std::min(rows_each, load.range.rows - first), cols,
                              matrix + matrix_bytes(load.kept, first, cols));
  });
}

// Pinned memory that the device may still be reading from.
class Stretch {
 public:
  Stretch(const Backend& backend, size_t bytes)
      : backend_(backend), memory_(*backend.device, bytes), copied_(backend.device->make_event()) {}

  // The memory once the device has read what was in it.
  char* free_memory() {
    backend_.device->synchronize(*copied_);
    return memory_.as<char>();
  }
  void send(char* to, size_t bytes) {
    backend_.device->copy(to, memory_.as<char>(), bytes, *backend_.stream);
    backend_.device->record(*copied_, *backend_.stream);
  }

 private:
  const Backend& backend_;
  StagingBuffer memory_;
  std::unique_ptr<Event> copied_;
};

void load_through(Stretch& stretch, const Checkpoint& checkpoint, std::vector<MatrixLoad> part,
                  char* memory, const Backend& backend,
                  const std::function<void(uint64_t)>& on_bytes) {
  const size_t begin = part.front().offset_bytes, end = end_of(part.back());
  for (MatrixLoad& load : part) load.offset_bytes -= begin;
  char* host = stretch.free_memory();
  load_matrices(checkpoint, part, host, *backend.pool, on_bytes);
  for (const MatrixLoad& load : part) pack(load, host + load.offset_bytes, backend);
  stretch.send(memory + begin, end - begin);
}

}  // namespace

int64_t staging_bytes_of_load(int64_t total_bytes, int64_t largest_bytes) {
  const int64_t stretch = std::max(static_cast<int64_t>(kStretchBytes), largest_bytes);
  return 2 * std::min(stretch, total_bytes);
}

void load_to_backend(const Checkpoint& checkpoint, const std::vector<MatrixLoad>& loads,
                     char* memory, const Backend& backend,
                     const std::function<void(uint64_t)>& on_bytes) {
  if (backend.device->place() == Place::kHost) {
    return load_matrices(checkpoint, loads, memory, *backend.pool, on_bytes);
  }
  if (loads.empty()) return;
  size_t stretch_bytes = kStretchBytes;
  for (const MatrixLoad& load : loads) {
    stretch_bytes = std::max(stretch_bytes, end_of(load) - load.offset_bytes);
  }
  stretch_bytes = std::min(stretch_bytes, end_of(loads.back()) - loads.front().offset_bytes);
  Stretch stretches[2] = {{backend, stretch_bytes}, {backend, stretch_bytes}};
  for (size_t begin = 0, turn = 0; begin < loads.size(); turn ^= 1) {
    const size_t count = count_fitting(loads, begin, stretch_bytes);
    const auto first = loads.begin() + static_cast<std::ptrdiff_t>(begin);
    load_through(stretches[turn], checkpoint, {first, first + static_cast<std::ptrdiff_t>(count)},
                 memory, backend, on_bytes);
    begin += count;
  }
  backend.stream->synchronize();
}

}  // namespace colibri
