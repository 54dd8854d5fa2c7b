#include "coordinator/device_path.h"

#include <algorithm>

#include "base/error.h"
#include "base/staging_buffer.h"
#include "coordinator/plan_on_device.h"
#include "transport/control.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

constexpr size_t kAlignment = 64;

// An array of the device and the pinned host memory it is copied to or from.
template <class T>
class Mirrored {
 public:
  Mirrored(Device& device, int64_t count)
      : host_(device, static_cast<size_t>(count) * sizeof(T)),
        memory_(device, host_.size_bytes()) {}
  T& operator[](int64_t i) { return host_.as<T>()[i]; }
  void upload(Device& to, Stream& stream) {
    to.copy(memory_.data(), host_.template as<T>(), host_.size_bytes(), stream);
  }
  const T* on_device() const { return memory_.template as<T>(); }

 private:
  StagingBuffer host_;
  Buffer memory_;
};

class DevicePath : public ExpertPath {
 public:
  explicit DevicePath(const DevicePathParts& parts);
  void begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) override;
  void run_local(Stream& stream) override;
  LocatedResults finish(const Deadline& deadline, Stream& stream) override;
  const LoadStats& load_stats() const override { return stats_; }

 private:
  // One rank's part of a plan.
  struct Share {
    int32_t num_rows = 0, num_pairs = 0, first_pair = 0;
  };

  bool is_own(int rank) const { return rank == parts_.link->rank(); }
  Share share_of(int rank) const;
  size_t message_bytes(int rank) const;
  void fetch_counts(const Deadline& deadline, Stream& stream);
  void take_choice();
  void send_counts(const Deadline& deadline);
  void pack(Stream& stream);
  void post();
  std::string what() const;

  DevicePathParts parts_;
  Device& device_;
  int num_ranks_;
  int64_t top_k_, hidden_;
  std::unique_ptr<Stream> link_stream_;
  std::unique_ptr<Event> packed_, arrived_;
  PlanOnDevice plan_;
  StagingBuffer host_counts_, host_ids_, host_weights_;
  Mirrored<MessagePlace> places_;       // [R]
  Mirrored<int64_t> block_begin_;       // [R] results, in floats
  Mirrored<int32_t> max_results_;       // [R]
  Buffer messages_, results_, offset_;  // rows to send; [P, H] in the plan's order; [T, K]
  std::vector<std::vector<std::byte>> count_messages_;  // [R] as they are being sent
  std::vector<Pending> pending_counts_;
  RoutedTokens tokens_;
  uint64_t step_ = 0;
  LoadStats stats_;
};

// Room for the messages of the fullest plan, however its rows fall on ranks.
size_t messages_bytes(const DevicePathParts& parts, int64_t num_ranks, int64_t max_rows) {
  const int64_t pairs = parts.max_tokens * parts.config->top_k;
  const int64_t row_bytes = token_row_bytes(parts.row_dtype, parts.config->hidden_size);
  const int64_t front = sizeof(RowHeader) + sizeof(int32_t) + 2 * kAlignment;
  const int64_t numbers = (max_rows + pairs) * static_cast<int64_t>(sizeof(int32_t));
  return static_cast<size_t>(num_ranks * front + numbers + max_rows * row_bytes);
}

Buffer room(const DevicePathParts& parts, int64_t count, size_t each) {
  return Buffer(*parts.backend.device, static_cast<size_t>(count) * each);
}

DevicePath::DevicePath(const DevicePathParts& parts)
    : parts_(parts),
      device_(*parts.backend.device),
      num_ranks_(parts.link->size()),
      top_k_(parts.config->top_k),
      hidden_(parts.config->hidden_size),
      link_stream_(device_.make_stream()),
      packed_(device_.make_event()),
      arrived_(device_.make_event()),
      plan_(*parts.placement, parts.backend, {parts.max_tokens, top_k_}),
      host_counts_(device_, plan_.counts_bytes()),
      host_ids_(device_, static_cast<size_t>(parts.max_tokens * top_k_) * sizeof(int32_t)),
      host_weights_(device_, static_cast<size_t>(parts.max_tokens * top_k_) * sizeof(float)),
      places_(device_, num_ranks_),
      block_begin_(device_, num_ranks_),
      max_results_(device_, num_ranks_),
      messages_(device_, messages_bytes(parts, num_ranks_, plan_.max_rows())),
      results_(room(parts, parts.max_tokens * top_k_ * hidden_, sizeof(float))),
      offset_(room(parts, parts.max_tokens * top_k_, sizeof(int64_t))),
      count_messages_(static_cast<size_t>(num_ranks_)),
      stats_(parts.config->num_layers, parts.config->num_experts, parts.config->top_k) {}

DevicePath::Share DevicePath::share_of(int rank) const {
  const int32_t* row_begin = host_counts_.as<int32_t>() + rank;
  const int32_t* pair_begin = row_begin + num_ranks_ + 1;
  return {row_begin[1] - row_begin[0], pair_begin[1] - pair_begin[0], pair_begin[0]};
}

size_t DevicePath::message_bytes(int rank) const {
  const Share share = share_of(rank);
  const int64_t row_bytes = token_row_bytes(parts_.row_dtype, hidden_);
  const size_t bytes = row_message_layout(share.num_rows, share.num_pairs, row_bytes).total_bytes;
  return share.num_rows == 0 ? 0 : bytes;
}

std::string DevicePath::what() const {
  return "layer " + std::to_string(tokens_.layer) + ", exchange " + std::to_string(step_);
}

void DevicePath::begin(const RoutedTokens& tokens, const Deadline& deadline, Stream& stream) {
  tokens_ = tokens;
  ++step_;
  device_.zero(plan_.flags(), sizeof(uint32_t), stream);
  plan_.make(tokens.layer, tokens.expert_ids, tokens.num_tokens(), stream);
  fetch_counts(deadline, stream);
  take_choice();
  send_counts(deadline);
  pack(stream);
  post();
}

// The only wait for the device in this layer.
void DevicePath::fetch_counts(const Deadline& deadline, Stream& stream) {
  const auto choices = static_cast<size_t>(tokens_.num_tokens() * top_k_);
  device_.copy(host_counts_.as<char>(), plan_.counts(), plan_.counts_bytes(), stream);
  device_.copy(host_ids_.as<char>(), tokens_.expert_ids, choices * sizeof(int32_t), stream);
  if (parts_.observer != nullptr) {
    device_.copy(host_weights_.as<char>(), tokens_.weights, choices * sizeof(float), stream);
  }
  parts_.link->wait(stream, deadline, what());
}

void DevicePath::take_choice() {
  const auto choices = static_cast<size_t>(tokens_.num_tokens() * top_k_);
  const std::span<const int32_t> ids(host_ids_.as<int32_t>(), choices);
  check_choice(tokens_, ids, top_k_);
  stats_.add(tokens_.layer, ids);
  if (parts_.observer == nullptr) return;
  parts_.observer->on_routes(tokens_.layer, *tokens_.batch, ids,
                             {host_weights_.as<float>(), choices});
}

// Every rank hears of every layer, so that both sides name every pair.
void DevicePath::send_counts(const Deadline& deadline) {
  Transport& transport = *parts_.transport;
  transport.wait(pending_counts_, deadline, "counts of the layer before");
  pending_counts_.clear();
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (is_own(rank)) continue;
    const Share share = share_of(rank);
    auto& message = count_messages_[static_cast<size_t>(rank)];
    message = encode_control(transport.rank(), transport.epoch(),
                             LayerRowsBody{.step = step_,
                                           .layer = tokens_.layer,
                                           .num_rows = share.num_rows,
                                           .num_pairs = share.num_pairs});
    const SendOp send{rank, Channel::kControl, message.data(), message.size()};
    pending_counts_.push_back(transport.post({{&send, 1}, {}}, nullptr));
  }
}

void DevicePath::pack(Stream& stream) {
  int64_t at = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const Share share = share_of(rank);
    places_[rank] = {at, share.num_rows, share.num_pairs};
    block_begin_[rank] = share.first_pair * hidden_;
    max_results_[rank] = share.num_pairs;
    if (is_own(rank)) continue;
    at += static_cast<int64_t>((message_bytes(rank) + kAlignment - 1) / kAlignment * kAlignment);
  }
  places_.upload(device_, stream);
  block_begin_.upload(device_, stream);
  max_results_.upload(device_, stream);
  RowHeader header;
  header.payload_dtype = static_cast<uint8_t>(parts_.row_dtype);
  header.epoch = parts_.transport->epoch();
  header.source_rank = parts_.link->rank();
  header.step = step_;
  header.layer = tokens_.layer;
  header.hidden_size = static_cast<int32_t>(hidden_);
  parts_.backend.ops->pack_rows({.header = header,
                                 .tokens = tokens_.rows.data,
                                 .row_bytes = tokens_.rows.row_bytes(),
                                 .row_begin = plan_.row_begin(),
                                 .row_token = plan_.row_token(),
                                 .pair_begin = plan_.pair_begin(),
                                 .slot = plan_.slot(),
                                 .places = places_.on_device(),
                                 .messages = messages_.data(),
                                 .num_ranks = num_ranks_,
                                 .skip_rank = parts_.link->rank(),
                                 .max_rows = tokens_.num_tokens()},
                                stream);
  device_.record(*packed_, stream);
}

// On a stream of its own: the layer's other work goes on while rows travel.
void DevicePath::post() {
  std::vector<DeviceSend> sends;
  std::vector<DeviceRecv> recvs;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (is_own(rank)) continue;
    sends.push_back({rank, messages_.as<char>() + places_[rank].offset_bytes, message_bytes(rank)});
    const auto pairs = static_cast<size_t>(max_results_[rank]);
    recvs.push_back({rank, results_.as<float>() + block_begin_[rank],
                     pairs * static_cast<size_t>(hidden_) * sizeof(float)});
  }
  device_.wait(*link_stream_, *packed_);
  parts_.link->post(sends, {}, *link_stream_);
  parts_.link->post({}, recvs, *link_stream_);
  device_.record(*arrived_, *link_stream_);
}

void DevicePath::run_local(Stream& stream) {
  const int own = parts_.link->rank();
  const Share share = share_of(own);
  if (share.num_pairs == 0) return;
  check(parts_.local != nullptr, "rank ", own, " has rows but no experts");
  parts_.local->run(DeviceRows{.layer = tokens_.layer,
                               .tokens = tokens_.rows,
                               .row_range = plan_.row_begin() + own,
                               .row_token = plan_.row_token(),
                               .pair_begin = plan_.pair_begin(),
                               .slot = plan_.slot(),
                               .max_rows = share.num_rows,
                               .max_pairs = share.num_pairs,
                               .max_results = share.num_pairs,
                               .out = results_.as<float>() + block_begin_[own],
                               .flags = plan_.flags()},
                    stream);
}

LocatedResults DevicePath::finish(const Deadline&, Stream& stream) {
  device_.wait(stream, *arrived_);
  parts_.backend.ops->locate_results({.pair_of_choice = plan_.pair_of_choice(),
                                      .row_begin = plan_.row_begin(),
                                      .pair_begin = plan_.pair_begin(),
                                      .block_begin = block_begin_.on_device(),
                                      .max_results = max_results_.on_device(),
                                      .result_offset = offset_.as<int64_t>(),
                                      .flags = plan_.flags(),
                                      .num_tokens = tokens_.num_tokens(),
                                      .top_k = top_k_,
                                      .num_ranks = num_ranks_,
                                      .hidden_size = hidden_},
                                     stream);
  return {results_.as<float>(), offset_.as<int64_t>()};
}

}  // namespace

std::unique_ptr<ExpertPath> make_device_path(const DevicePathParts& parts) {
  return std::make_unique<DevicePath>(parts);
}

}  // namespace colibri
