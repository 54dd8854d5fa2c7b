#include "coordinator/device_path.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "coordinator/chosen_routes.h"
#include "coordinator/device_messages.h"
#include "coordinator/device_path_limits.h"
#include "coordinator/plan_on_device.h"
#include "coordinator/return_capacity.h"
#include "coordinator/worker_progress.h"
#include "transport/control.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

class DevicePath : public ExpertPath {
 public:
  explicit DevicePath(const DevicePathParts& parts);
  void begin_step(const Batch& batch, const Batch& padded, Stream& stream) override;
  void begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) override;
  void run_local(Stream& stream) override;
  LocatedResults finish(const Deadline& deadline, Stream& stream) override;
  bool end_step(const Deadline& deadline, Stream& stream) override;
  int64_t max_captured_tokens() const override {
    return parts_.link->can_be_captured() ? parts_.fixed.max_tokens : 0;
  }
  std::optional<uint64_t> graph_key() const override {
    return is_fixed_ ? std::optional(capacity_.version()) : std::nullopt;
  }
  const LoadStats& load_stats() const override { return stats_; }
  ExchangeTotals totals() const override { return totals_; }
  std::vector<int> late_ranks() const override { return progress_->late_ranks(); }
  void give_up() override;
  void relinked(DeviceLink& link) override;
  void placement_changed() override;
  FixedStepTotals fixed_steps() const override {
    return is_alone() ? FixedStepTotals{} : FixedStepTotals{fixed_steps_, reruns_};
  }

 private:
  int own_rank() const { return parts_.link->rank(); }
  // Nothing travels, so no step needs its counts on the host before its end, however many tokens.
  bool is_alone() const { return num_ranks_ == 1 && !parts_.self_exchange; }
  bool is_moe(int layer) const { return parts_.config->layer_is_moe[static_cast<size_t>(layer)]; }
  size_t num_choices() const { return static_cast<size_t>(num_tokens_ * top_k_); }
  bool hears(int rank) const { return rank != own_rank() && parts_.link->reaches(rank); }
  bool has_own(int layer) const { return !parts_.placement->experts_of(layer, own_rank()).empty(); }
  RankRoom counted(int layer, int rank) const;
  RankRoom fixed_room(int layer, int rank) const;
  void announce(const std::vector<std::byte>& message, int rank);
  void begin_fixed_step(Stream& stream);
  void fetch(int first_layer, int num_layers, Stream& stream);
  void wait(const Deadline& deadline, Stream& stream);
  void take_choice(int layer);
  void lay_out_exactly(Stream& stream);
  void observe_capacity(int layer);
  void count_messages(int layer);
  void count_rows(int layer);
  DeviceRows own_rows(const RankRoom& room, Stream& stream);
  RowHeader header() const;
  std::string what() const;

  DevicePathParts parts_;
  Device& device_;
  int num_ranks_;
  int64_t top_k_;
  PlanOnDevice plan_;
  DeviceMessages messages_;
  StagingBuffer host_counts_, host_ids_, host_weights_;  // of all layers of a step
  std::vector<RankRoom> rooms_;                          // [R] of the layer that was laid out last
  std::vector<std::vector<std::byte>> announcements_;    // [R] as they are being sent
  std::vector<Pending> pending_;
  ChosenRoutes routes_;
  std::optional<WorkerProgress> progress_;
  ReturnCapacity capacity_;
  const Batch* batch_ = nullptr;  // of this step, without padding
  int64_t num_tokens_ = 0;        // with it
  // Where the choices of this and every other step lie, [L, T, K]: a replay calls no begin().
  const int32_t* all_ids_ = nullptr;
  const float* all_weights_ = nullptr;
  RoutedTokens tokens_;
  bool is_fixed_ = false, must_be_exact_ = false;
  uint64_t step_ = 0, fixed_steps_ = 0, reruns_ = 0;
  ExchangeTotals totals_;
  LoadStats stats_;
};

DevicePath::DevicePath(const DevicePathParts& parts)
    : parts_(parts),
      device_(*parts.backend.device),
      num_ranks_(parts.link->size()),
      top_k_(parts.config->top_k),
      plan_(*parts.placement, parts.backend, {parts.max_tokens, top_k_}),
      messages_(parts.backend, *parts.link, limits_of(parts, plan_.max_rows())),
      host_counts_(device_, plan_.counts_bytes()),
      host_ids_(device_, step_choices(parts) * sizeof(int32_t)),
      host_weights_(device_, step_choices(parts) * sizeof(float)),
      rooms_(static_cast<size_t>(num_ranks_)),
      announcements_(static_cast<size_t>(num_ranks_)),
      routes_(parts.backend, *parts.config, parts.max_tokens, parts.routing),
      progress_(std::in_place, *parts.transport, workers_of(*parts.link)),
      capacity_(parts.config->num_layers, top_k_, parts.fixed.first_share),
      stats_(parts.config->num_layers, parts.config->num_experts, parts.config->top_k) {
  check(parts.config->num_layers <= static_cast<int>(kMaxFixedLayers), parts.config->num_layers,
        " layers, want at most ", kMaxFixedLayers);
  totals_.wait_us.resize(static_cast<size_t>(num_ranks_));
  totals_.compute_us.resize(static_cast<size_t>(num_ranks_));
  totals_.layer_pairs.resize(static_cast<size_t>(parts.config->num_layers * num_ranks_));
}

std::string DevicePath::what() const {
  return (is_fixed_ ? "" : "layer " + std::to_string(tokens_.layer) + ", ") + "step " +
         std::to_string(step_);
}

void DevicePath::announce(const std::vector<std::byte>& message, int rank) {
  auto& kept = announcements_[static_cast<size_t>(rank)];
  kept = message;
  const SendOp send{rank, Channel::kControl, kept.data(), kept.size()};
  pending_.push_back(parts_.transport->post({{&send, 1}, {}}, nullptr));
}

void DevicePath::begin_step(const Batch& batch, const Batch& padded, Stream& stream) {
  ++step_;
  batch_ = &batch;
  num_tokens_ = padded.num_tokens();
  is_fixed_ = !must_be_exact_ && (is_alone() || num_tokens_ <= parts_.fixed.max_tokens);
  plan_.clear_flags(stream);
  routes_.choose(batch, num_tokens_, stream);
  if (is_fixed_) begin_fixed_step(stream);
}

// The workers hear once of the whole step; nobody waits for a device before its end.
void DevicePath::begin_fixed_step(Stream& stream) {
  FixedStepBody body{.step = step_,
                     .num_tokens = static_cast<int32_t>(num_tokens_),
                     .top_k = static_cast<int32_t>(top_k_),
                     .capacity = {}};
  for (int layer = 0; layer < parts_.config->num_layers; ++layer) {
    if (!is_moe(layer)) continue;
    body.capacity[layer] = capacity_.of(layer, num_tokens_);
    for (int rank = 0; rank < num_ranks_; ++rank) {
      rooms_[static_cast<size_t>(rank)] = fixed_room(layer, rank);
    }
    messages_.set_rooms(layer, rooms_);
    count_messages(layer);
  }
  messages_.upload(0, parts_.config->num_layers, stream);
  parts_.transport->wait(pending_, Deadline::after_ms(30000), "the step before was announced");
  pending_.clear();
  const auto message = encode_control(parts_.transport->rank(), parts_.transport->epoch(), body);
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (hears(rank)) announce(message, rank);
  }
  progress_->announced();
}

RowHeader DevicePath::header() const {
  RowHeader header;
  header.payload_dtype = static_cast<uint8_t>(parts_.row_dtype);
  header.epoch = parts_.transport->epoch();
  header.source_rank = own_rank();
  header.step = step_;
  header.layer = tokens_.layer;
  header.hidden_size = static_cast<int32_t>(parts_.config->hidden_size);
  return header;
}

void DevicePath::begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) {
  tokens_ = tokens;
  const int64_t before = tokens.layer * num_tokens_ * top_k_;
  all_ids_ = tokens.expert_ids - before;
  all_weights_ = tokens.weights - before;
  routes_.put(tokens, stream);
  plan_.make(tokens, stream);
  if (!is_fixed_) {
    fetch(tokens.layer, 1, stream);
    wait(deadline, stream);  // the only one in this layer
    take_choice(tokens.layer);
    parts_.transport->wait(pending_, deadline, "counts of the layer before");
    lay_out_exactly(stream);
  }
  messages_.pack(header(), tokens.rows, tokens.num_tokens(), plan_, stream);
  messages_.post(tokens.layer);
}

// Brings counts, ids and weights of layers to the host's copies, at the same places, and after the
// last layer the flags.
void DevicePath::fetch(int first_layer, int num_layers, Stream& stream) {
  const size_t each = num_choices(), at = each * static_cast<size_t>(first_layer);
  const size_t count = each * static_cast<size_t>(num_layers);
  const size_t counts = plan_.counts_at(first_layer);
  const size_t end = plan_.counts_at(first_layer + num_layers);
  const size_t flags = first_layer + num_layers == plan_.num_layers() ? 1 : 0;
  device_.copy(host_counts_.as<int32_t>() + counts, plan_.row_begin(first_layer),
               (end - counts + flags) * sizeof(int32_t), stream);
  device_.copy(host_ids_.as<int32_t>() + at, all_ids_ + at, count * sizeof(int32_t), stream);
  if (parts_.observer == nullptr) return;
  device_.copy(host_weights_.as<float>() + at, all_weights_ + at, count * sizeof(float), stream);
}

// The device does not tell whose rows it waits for; the workers' own messages do.
void DevicePath::wait(const Deadline& deadline, Stream& stream) {
  const auto start = std::chrono::steady_clock::now();
  try {
    parts_.link->wait(stream, deadline, what());
    const auto took = std::chrono::steady_clock::now() - start;
    totals_.finish_us += std::chrono::duration<double, std::micro>(took).count();
  } catch (const Error& error) {
    const std::string late = error.kind() == ErrorKind::kTimeout ? progress_->late_text() : "";
    if (late.empty()) throw;
    fail(error.kind(), error.what(), "; not done: ", late);
  }
}

void DevicePath::take_choice(int layer) {
  const size_t at = num_choices() * static_cast<size_t>(layer);
  const auto count = static_cast<size_t>(batch_->num_tokens() * top_k_);
  const std::span<const int32_t> ids(host_ids_.as<int32_t>() + at, count);
  check_choice(layer, *batch_, ids, top_k_);
  stats_.add(layer, ids);
  for (int rank = 0; rank < num_ranks_; ++rank) {
    totals_.layer_pairs[static_cast<size_t>(layer * num_ranks_ + rank)] +=
        static_cast<uint64_t>(counted(layer, rank).max_pairs);
  }
  if (parts_.observer == nullptr) return;
  parts_.observer->on_routes(layer, *batch_, ids, {host_weights_.as<float>() + at, count});
}

RankRoom DevicePath::counted(int layer, int rank) const {
  const int32_t* rows = host_counts_.as<int32_t>() + plan_.counts_at(layer) + rank;
  const int32_t* pairs = rows + num_ranks_ + 1;
  return {rows[1] - rows[0], pairs[1] - pairs[0], pairs[1] - pairs[0]};
}

// Whatever travels is bounded by the capacity; what stays here never runs out of room.
RankRoom DevicePath::fixed_room(int layer, int rank) const {
  if (rank == own_rank() ? !has_own(layer) : !parts_.link->reaches(rank)) return {};
  const auto tokens = static_cast<int32_t>(num_tokens_);
  const auto pairs = static_cast<int32_t>(tokens * top_k_);
  return {tokens, pairs, messages_.stays_here(rank) ? pairs : capacity_.of(layer, tokens)};
}

// Every rank hears of every layer, so that both sides name every pair.
void DevicePath::lay_out_exactly(Stream& stream) {
  pending_.clear();
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const RankRoom room = counted(tokens_.layer, rank);
    rooms_[static_cast<size_t>(rank)] = room;
    if (!hears(rank)) continue;
    announce(encode_control(parts_.transport->rank(), parts_.transport->epoch(),
                            LayerRowsBody{.step = step_,
                                          .layer = tokens_.layer,
                                          .num_rows = room.max_rows,
                                          .num_pairs = room.max_pairs}),
             rank);
  }
  progress_->announced();
  messages_.set_rooms(tokens_.layer, rooms_);
  count_messages(tokens_.layer);
  count_rows(tokens_.layer);
  messages_.upload(tokens_.layer, 1, stream);
}

// Bytes as they travel: of fixed size whether filled or not.
void DevicePath::count_messages(int layer) {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (messages_.stays_here(rank)) continue;
    totals_.dispatch_bytes += messages_.message_bytes(layer, rank);
    totals_.combine_bytes += messages_.result_bytes(layer, rank);
    ++totals_.num_messages;
  }
}

void DevicePath::count_rows(int layer) {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (messages_.stays_here(rank)) continue;
    totals_.num_rows += static_cast<uint64_t>(counted(layer, rank).max_rows);
  }
}

// This rank's own rows: out of the plan, or out of the message that went to itself.
DeviceRows DevicePath::own_rows(const RankRoom& room, Stream& stream) {
  if (parts_.self_exchange) {
    return rows_of({.data = messages_.receive_own_rows(stream),
                    .max_rows = room.max_rows,
                    .max_pairs = room.max_pairs,
                    .row_dtype = parts_.row_dtype,
                    .hidden_size = parts_.config->hidden_size});
  }
  return {.tokens = tokens_.rows,
          .row_range = plan_.row_begin(tokens_.layer) + own_rank(),
          .row_token = plan_.row_token(),
          .pair_begin = plan_.pair_begin(),
          .slot = plan_.slot(),
          .max_rows = room.max_rows,
          .max_pairs = room.max_pairs};
}

void DevicePath::run_local(Stream& stream) {
  const int layer = tokens_.layer;
  const RankRoom room =
      is_fixed_ ? fixed_room(layer, own_rank()) : rooms_[static_cast<size_t>(own_rank())];
  if (room.max_pairs > 0) {
    check(parts_.local != nullptr, "rank ", own_rank(), " has rows but no experts");
    DeviceRows rows = own_rows(room, stream);
    rows.layer = layer;
    rows.max_results = room.max_results;
    rows.out = messages_.own_results(layer);
    rows.flags = plan_.flags();
    parts_.local->run(rows, stream);
  }
  if (parts_.self_exchange) messages_.post_own_results(layer, stream);
}

LocatedResults DevicePath::finish(const Deadline&, Stream& stream) {
  messages_.receive(stream);
  return messages_.locate(tokens_.layer, tokens_.num_tokens(), top_k_, plan_, stream);
}

// What the device still does after the link is gone writes where nobody reads.
void DevicePath::give_up() {
  parts_.link->abandon();
  messages_.give_up();
  parts_.backend.stream->synchronize();
  parts_.transport->keep(
      std::make_shared<std::vector<std::vector<std::byte>>>(std::move(announcements_)));
  announcements_.assign(static_cast<size_t>(num_ranks_), {});
  pending_.clear();
}

void DevicePath::relinked(DeviceLink& link) {
  parts_.link = &link;
  messages_.set_link(link);
  progress_.emplace(*parts_.transport, workers_of(link));
}

void DevicePath::placement_changed() {
  plan_ = PlanOnDevice(*parts_.placement, parts_.backend, {parts_.max_tokens, top_k_});
}

void DevicePath::observe_capacity(int layer) {
  if (is_alone()) return;
  int32_t most = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (!messages_.stays_here(rank)) most = std::max(most, counted(layer, rank).max_pairs);
  }
  capacity_.observe(layer, num_tokens_, most);
}

bool DevicePath::end_step(const Deadline& deadline, Stream& stream) {
  must_be_exact_ = false;
  if (!is_fixed_) {
    wait(deadline, stream);
    return true;
  }
  fetch(0, parts_.config->num_layers, stream);
  wait(deadline, stream);
  const auto* counts = host_counts_.as<int32_t>();
  const auto flags = static_cast<uint32_t>(counts[plan_.counts_at(plan_.num_layers())]);
  must_be_exact_ = (flags & kFlagOverflow) != 0;
  ++fixed_steps_;
  if (must_be_exact_) ++reruns_;
  for (int layer = 0; layer < parts_.config->num_layers; ++layer) {
    if (!is_moe(layer)) continue;
    observe_capacity(layer);
    count_rows(layer);
    if (!must_be_exact_) take_choice(layer);
  }
  return !must_be_exact_;
}

}  // namespace

std::unique_ptr<ExpertPath> make_device_path(const DevicePathParts& parts) {
  return std::make_unique<DevicePath>(parts);
}

}  // namespace colibri
