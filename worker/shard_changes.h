// A shard's next experts, read by a thread of their own while the present ones run.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "kernels/backend.h"
#include "model/checkpoint.h"
#include "transport/expert_exchange.h"
#include "worker/expert_shard.h"

namespace colibri {

class ShardChanges : public ExpertHolder {
 public:
  // All outlive it. `shape` is the model's; `backend` the one of `shard`.
  ShardChanges(const Checkpoint& checkpoint, const ModelShape& shape, ExpertShard& shard,
               const Backend& backend);
  ~ShardChanges() override;

  void begin_change(std::string_view placement_text, bool is_urgent) override;
  bool is_change_read() override;
  void adopt_change() override;
  void drop_change() override;

 private:
  void read(int num_threads);

  const Checkpoint& checkpoint_;
  const ModelShape& shape_;
  ExpertShard& shard_;
  Backend backend_;
  std::unique_ptr<ShardChange> change_;
  std::thread reader_;
  std::atomic<bool> is_done_ = false, is_dropped_ = false;
  std::exception_ptr error_;  // of the reader, once it is done
};

}  // namespace colibri
