// The experts this rank holds: loaded from their own byte ranges only, kept resident, run on the
// rows that arrive. The same shard serves a worker's loop and a coordinator's own slots.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/uploaded_array.h"
#include "kernels/backend.h"
#include "model/checkpoint.h"
#include "model/matrix_loads.h"
#include "model/weight_loader.h"
#include "topology/placement.h"
#include "transport/expert_exchange.h"

namespace colibri {

// Called on the loading thread with the bytes just read.
using ShardBytesRead = std::function<void(uint64_t)>;

struct ShardOptions {
  int rank = 0;
  WeightFormats formats = {};
  int64_t max_pairs = 0;  // largest number of (row, slot) pairs of one call
  ShardBytesRead on_bytes = [](uint64_t) {};
  bool reads_weights = true;  // false: takes its memory and reads nothing, for a plan
};

// One expert as a shard holds it.
struct ResidentExpert {
  int32_t expert = 0;
  ExpertWeights weights;
  char* memory = nullptr;  // of its three matrices
  size_t bytes = 0;
};

// A shard's experts under another placement, beside those that run: which stay, and memory for
// those that come.
struct ShardChange {
  struct Part {
    char* memory = nullptr;
    std::vector<MatrixLoad> loads;
  };
  std::vector<std::vector<ResidentExpert>> slots;  // [L][slot]
  std::vector<Part> parts;                         // what is to be read, and where to
  Buffer fresh;                                    // memory of those that did not fit elsewhere
  int64_t num_new = 0;                             // experts to read
};

class ExpertShard : public LocalExperts, public DeviceExperts {
 public:
  // Takes the memory of all slots of `options.rank` where the backend computes, then reads them
  // with every thread of its pool. Errors: as Checkpoint::read; kEnvironment when memory ends.
  ExpertShard(const Checkpoint& checkpoint, const Placement& placement, const ShardOptions& options,
              const Backend& backend);

  // Runs gate, up, activation and down of each named slot; results are of the backend's activation
  // type, rounded once. Token rows and `out` lie where the backend computes, the other arrays in
  // host memory. Errors: kInput when a slot is not in this rank's list of the layer, or when there
  // are more than max_pairs pairs. One thread.
  void run(const LocalRows& rows, Stream& stream) override;
  // The same without a look at the counts: nothing is checked on the host but the layer and the
  // bound of the pairs.
  void run(const DeviceRows& rows, Stream& stream) override;

  // What `placement` makes of this shard: experts that it holds stay in place, others get memory
  // that no expert uses, or fresh memory. run() knows nothing of it. Errors: kEnvironment when
  // memory ends.
  ShardChange plan_change(const Checkpoint& checkpoint, const Placement& placement) const;
  // Reads what is new, with every thread of backend's pool. May run on another thread beside run().
  // Errors: as Checkpoint::read.
  static void load(const ShardChange& change, const Checkpoint& checkpoint, const Backend& backend,
                   const ShardBytesRead& on_bytes);
  // From the next run() on, slots are those of `change`, which was planned since the last adopt().
  // Nothing of an earlier run() may be under way on the device; graphs that hold one are stale.
  void adopt(ShardChange change);

  // The form of the rows that run() takes: quantised when the experts are. kF32 without experts.
  DType row_dtype() const { return row_dtype_; }
  // All bytes taken for experts, and all slots kept.
  int64_t resident_bytes() const;
  int64_t num_resident() const { return num_resident_; }

 private:
  void take_workspace();
  void lay_out_tables();
  void group_by_slot(const LocalRows& rows);
  void run_groups(const TokenRows& tokens, const ResultRows& out, GroupedFfn groups,
                  Stream& stream);

  ShardOptions options_;
  Backend backend_;
  int64_t hidden_size_, width_, num_resident_ = 0;
  DType row_dtype_ = DType::kF32, weight_dtype_ = DType::kF32;
  std::vector<Buffer> memory_;                      // of all experts
  std::vector<std::vector<ResidentExpert>> slots_;  // [L][slot]
  std::vector<ResidentExpert> unused_;              // memory that no slot uses
  // One call's plan; capacity is kept.
  Buffer hidden_;                    // [max_pairs, 2 I]
  Buffer hidden_quantised_;          // [max_pairs] quantised rows of I, for quantised experts
  std::vector<int32_t> slot_count_;  // [slots of a layer]
  std::vector<int32_t> group_of_slot_;
  std::vector<ExpertWeights> groups_;
  std::vector<int32_t> group_begin_, next_, pair_row_;
  std::vector<int64_t> out_offset_;
  // Of a call whose counts the device knows: one group a slot.
  Buffer slot_memory_;                                  // [all slots] ExpertWeights
  std::vector<const ExpertWeights*> slot_table_;        // [L] into it
  Buffer slot_group_begin_, slot_pair_row_, slot_out_;  // [slots + 1], [max_pairs] twice
  UploadedArray<ExpertWeights> device_groups_;
  UploadedArray<int32_t> device_group_begin_, device_pair_row_;
  UploadedArray<int64_t> device_out_offset_;
};

}  // namespace colibri
