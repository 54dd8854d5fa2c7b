#include "worker/shard_changes.h"

#include "base/error.h"
#include "topology/placement_file.h"

namespace colibri {

ShardChanges::ShardChanges(const Checkpoint& checkpoint, const ModelShape& shape,
                           ExpertShard& shard, const Backend& backend)
    : checkpoint_(checkpoint), shape_(shape), shard_(shard), backend_(backend) {}

ShardChanges::~ShardChanges() { drop_change(); }

void ShardChanges::begin_change(std::string_view placement_text, bool is_urgent) {
  drop_change();
  const Placement next = parse_placement(placement_text, "the coordinator's placement", shape_);
  change_ = std::make_unique<ShardChange>(shard_.plan_change(checkpoint_, next));
  is_done_ = change_->num_new == 0;
  if (is_done_) return;
  const int num_threads = is_urgent ? backend_.pool->num_threads() : 1;
  reader_ = std::thread([this, num_threads] { read(num_threads); });
}

void ShardChanges::read(int num_threads) {
  try {
    // The shard's own threads are busy with rows, and its stream with their work.
    backend_.device->use_on_this_thread();
    ThreadPool pool({.num_threads = num_threads, .spin = false});
    const std::unique_ptr<Stream> stream = backend_.device->make_stream();
    Backend own = backend_;
    own.pool = &pool;
    own.stream = stream.get();
    ExpertShard::load(*change_, checkpoint_, own, [this](uint64_t) {
      if (is_dropped_) fail(ErrorKind::kInternal, "a change of experts was dropped");
    });
  } catch (...) {
    error_ = std::current_exception();
  }
  is_done_ = true;
}

bool ShardChanges::is_change_read() {
  check(change_ != nullptr, "no change of experts was begun");
  if (!is_done_) return false;
  if (reader_.joinable()) reader_.join();
  if (error_) std::rethrow_exception(error_);
  return true;
}

void ShardChanges::adopt_change() {
  check(is_change_read(), "a change of experts is adopted before it was read");
  shard_.adopt(std::move(*change_));
  change_.reset();
}

void ShardChanges::drop_change() {
  is_dropped_ = true;
  if (reader_.joinable()) reader_.join();
  is_dropped_ = is_done_ = false;
  error_ = nullptr;
  change_.reset();
}

}  // namespace colibri
