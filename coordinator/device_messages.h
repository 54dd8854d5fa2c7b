// The coordinator's side of rows that travel between devices: where each rank's message and its
// results lie, the messages themselves, and the groups that carry them. Results are of the
// backend's activation type.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/staging_buffer.h"
#include "coordinator/expert_path.h"
#include "coordinator/plan_on_device.h"
#include "kernels/backend.h"
#include "transport/device_link.h"

namespace colibri {

// Room of one rank in one layer, which both sides know: what travels is as large as this, however
// much of it is filled.
struct RankRoom {
  int32_t max_rows = 0, max_pairs = 0;
  int32_t max_results = 0;
};

class DeviceMessages {
 public:
  struct Limits {
    int num_layers = 0;
    DType row_dtype = DType::kF32;
    int64_t hidden_size = 0;
    size_t message_bytes = 0;  // of all ranks in one layer
    int64_t num_results = 0;   // likewise
    int64_t num_choices = 0;   // T * K
    // Rows of this rank are sent to itself as to any other; else they take no message.
    bool own_rows_travel = false;
  };
  DeviceMessages(const Backend& backend, DeviceLink& link, const Limits& limits);

  // Fixes the rooms [R] of a layer. Fails with kInternal when they are more than was planned. Takes
  // effect with upload(), after which the host may go on only once the stream is past it.
  void set_rooms(int layer, std::span<const RankRoom> rooms);
  void upload(int layer, int num_layers, Stream& stream);

  // Fills the messages of a plan. `header` is what they share.
  void pack(const RowHeader& header, const TokenRows& tokens, int64_t num_tokens,
            const PlanOnDevice& plan, Stream& stream);
  // Sends them and receives the results, on a stream of its own: other work goes on meanwhile.
  void post(int layer);
  // After a failure, once the link is abandoned: returns when nothing is under way any more.
  void give_up() { stream_->synchronize(); }
  void set_link(DeviceLink& link) { link_ = &link; }
  // Between post() and receive(), where own rows travel: work enqueued on `stream` from now on sees
  // this rank's own message, which is returned; and what it wrote to own_results() goes back.
  const void* receive_own_rows(Stream& stream);
  void post_own_results(int layer, Stream& stream);
  // Work enqueued on `stream` from now on sees the results of the last post.
  void receive(Stream& stream);
  // Where result of each choice lies, to offset [T, K] of int64.
  LocatedResults locate(int layer, int64_t num_tokens, int64_t top_k, PlanOnDevice& plan,
                        Stream& stream);

  // Whether rows of a rank take no message.
  bool stays_here(int rank) const { return rank == link_->rank() && !limits_.own_rows_travel; }
  // Where the results of this rank's own rows are to be written.
  ResultRows own_results(int layer);
  // Bytes of a rank's message in a layer, and of its results.
  size_t message_bytes(int layer, int rank) const;
  size_t result_bytes(int layer, int rank) const;

 private:
  // Of every rank in every layer, [L, R].
  template <class T>
  struct Table {
    Table(Device& device, size_t count)
        : host(device, count * sizeof(T)), memory(device, count * sizeof(T)) {}
    StagingBuffer host;
    Buffer memory;
  };
  template <class T>
  void upload_rows(Table<T>& table, int layer, int num_layers, Stream& stream);
  size_t place_bytes(int layer, int rank) const;
  DeviceSend send_to(int layer, int rank) const;
  DeviceRecv results_from(int layer, int rank);
  char* results_of(int layer, int rank);
  size_t at(int layer, int rank) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(num_ranks_) + static_cast<size_t>(rank);
  }

  Backend backend_;
  DeviceLink* link_;
  Limits limits_;
  int num_ranks_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> packed_, arrived_;
  std::unique_ptr<Event> own_rows_arrived_, own_results_made_;  // where own rows travel
  Table<MessagePlace> places_;
  Table<int64_t> block_begin_;  // in elements
  Table<int32_t> max_results_;
  Buffer messages_, results_, offset_;
  Buffer own_message_, own_answer_;  // where own rows travel
};

}  // namespace colibri
