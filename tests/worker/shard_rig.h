// The tiny model of tests/support, one rank's experts of it, and rows to run through them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"
#include "worker/expert_shard.h"

namespace colibri {

class ShardRig {
 public:
  // `activations`: of the results, whatever the CPU's own are.
  explicit ShardRig(DType activations = DType::kF32)
      : activations_(activations), pool_({.num_threads = 2}), device_(make_cpu_device(pool_)) {
    write_tiny_model(dir_.path());
    checkpoint_.emplace(Checkpoint::open(dir_.path()));
    stream_ = device_->make_stream();
    ops_ = make_cpu_ops(best_isa());
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelConfig& config() const { return checkpoint_->config(); }
  ModelShape shape() const { return model_shape(config(), {}, DType::kF32); }
  Ops& ops() { return *ops_; }
  Stream& stream() { return *stream_; }
  ThreadPool& pool() { return pool_; }
  Backend backend() { return {device_.get(), stream_.get(), ops_.get(), &pool_, activations_}; }

  std::unique_ptr<ExpertShard> load(const Placement& placement, int rank, int64_t max_pairs = 64) {
    ShardOptions options{.rank = rank, .max_pairs = max_pairs};
    options.on_bytes = [this](uint64_t bytes) { loaded_bytes_ += bytes; };
    return std::make_unique<ExpertShard>(*checkpoint_, placement, options, backend());
  }
  uint64_t loaded_bytes() const { return loaded_bytes_; }

  // [num_rows, H], different for each `seed`.
  std::vector<float> rows(int64_t num_rows, int seed) const {
    std::vector<float> values(static_cast<size_t>(num_rows * config().hidden_size));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 101) % 64 - 32) / 16;
    }
    return values;
  }

 private:
  DType activations_;
  TempDir dir_;
  std::optional<Checkpoint> checkpoint_;
  ThreadPool pool_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  uint64_t loaded_bytes_ = 0;
};

}  // namespace colibri
