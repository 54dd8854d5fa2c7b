#include "coordinator/device_messages.h"

#include "base/dtype.h"
#include "base/error.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

constexpr size_t kAlignment = 64;

size_t table_size(const DeviceLink& link, const DeviceMessages::Limits& limits) {
  return static_cast<size_t>(limits.num_layers) * static_cast<size_t>(link.size());
}

}  // namespace

DeviceMessages::DeviceMessages(const Backend& backend, DeviceLink& link, const Limits& limits)
    : backend_(backend),
      link_(&link),
      limits_(limits),
      num_ranks_(link.size()),
      stream_(backend.device->make_stream()),
      packed_(backend.device->make_event()),
      arrived_(backend.device->make_event()),
      own_rows_arrived_(backend.device->make_event()),
      own_results_made_(backend.device->make_event()),
      places_(*backend.device, table_size(link, limits)),
      block_begin_(*backend.device, table_size(link, limits)),
      max_results_(*backend.device, table_size(link, limits)),
      messages_(*backend.device, limits.message_bytes),
      results_(*backend.device,
               static_cast<size_t>(limits.num_results *
                                   token_row_bytes(backend.activations, limits.hidden_size))),
      offset_(*backend.device, static_cast<size_t>(limits.num_choices) * sizeof(int64_t)),
      own_message_(*backend.device, limits.own_rows_travel ? messages_.size_bytes() : 0),
      own_answer_(*backend.device, limits.own_rows_travel ? results_.size_bytes() : 0) {}

// Where nothing travels the header still has its place: it is written for every rank.
size_t DeviceMessages::place_bytes(int layer, int rank) const {
  if (stays_here(rank)) return 0;
  const MessagePlace& place = places_.host.as<MessagePlace>()[at(layer, rank)];
  return row_message_layout(place.max_rows, place.max_pairs,
                            token_row_bytes(limits_.row_dtype, limits_.hidden_size))
      .total_bytes;
}

size_t DeviceMessages::message_bytes(int layer, int rank) const {
  const bool is_empty = places_.host.as<MessagePlace>()[at(layer, rank)].max_rows == 0;
  return is_empty ? 0 : place_bytes(layer, rank);
}

size_t DeviceMessages::result_bytes(int layer, int rank) const {
  return static_cast<size_t>(max_results_.host.as<int32_t>()[at(layer, rank)] *
                             token_row_bytes(backend_.activations, limits_.hidden_size));
}

void DeviceMessages::set_rooms(int layer, std::span<const RankRoom> rooms) {
  size_t message_at = 0;
  int64_t result_at = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    const RankRoom& room = rooms[static_cast<size_t>(rank)];
    places_.host.as<MessagePlace>()[at(layer, rank)] = {static_cast<int64_t>(message_at),
                                                        room.max_rows, room.max_pairs};
    block_begin_.host.as<int64_t>()[at(layer, rank)] = result_at * limits_.hidden_size;
    max_results_.host.as<int32_t>()[at(layer, rank)] = room.max_results;
    message_at += (place_bytes(layer, rank) + kAlignment - 1) / kAlignment * kAlignment;
    result_at += room.max_results;
  }
  check(message_at <= messages_.size_bytes() && result_at <= limits_.num_results, "messages of ",
        message_at, " bytes and ", result_at, " results, planned for ", messages_.size_bytes(),
        " and ", limits_.num_results);
}

template <class T>
void DeviceMessages::upload_rows(Table<T>& table, int layer, int num_layers, Stream& stream) {
  const size_t first = at(layer, 0), count = at(num_layers, 0);
  backend_.device->copy(table.memory.template as<T>() + first, table.host.template as<T>() + first,
                        count * sizeof(T), stream);
}

void DeviceMessages::upload(int layer, int num_layers, Stream& stream) {
  upload_rows(places_, layer, num_layers, stream);
  upload_rows(block_begin_, layer, num_layers, stream);
  upload_rows(max_results_, layer, num_layers, stream);
}

void DeviceMessages::pack(const RowHeader& header, const TokenRows& tokens, int64_t num_tokens,
                          const PlanOnDevice& plan, Stream& stream) {
  backend_.ops->pack_rows({.header = header,
                           .tokens = tokens.data,
                           .row_bytes = tokens.row_bytes(),
                           .row_begin = plan.row_begin(header.layer),
                           .row_token = plan.row_token(),
                           .pair_begin = plan.pair_begin(),
                           .slot = plan.slot(),
                           .places = places_.memory.as<MessagePlace>() + at(header.layer, 0),
                           .messages = messages_.data(),
                           .num_ranks = num_ranks_,
                           .skip_rank = limits_.own_rows_travel ? -1 : link_->rank(),
                           .max_rows = num_tokens},
                          stream);
  backend_.device->record(*packed_, stream);
}

DeviceSend DeviceMessages::send_to(int layer, int rank) const {
  const MessagePlace& place = places_.host.as<MessagePlace>()[at(layer, rank)];
  return {rank, messages_.as<char>() + place.offset_bytes, message_bytes(layer, rank)};
}

DeviceRecv DeviceMessages::results_from(int layer, int rank) {
  return {rank, results_of(layer, rank), result_bytes(layer, rank)};
}

// A message to oneself is received in the group that sends it.
void DeviceMessages::post(int layer) {
  std::vector<DeviceSend> sends;
  std::vector<DeviceRecv> own, recvs;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (stays_here(rank)) continue;
    sends.push_back(send_to(layer, rank));
    if (rank == link_->rank()) {
      own.push_back({rank, own_message_.data(), sends.back().bytes});
    } else {
      recvs.push_back(results_from(layer, rank));
    }
  }
  backend_.device->wait(*stream_, *packed_);
  link_->post(sends, own, *stream_);
  if (limits_.own_rows_travel) backend_.device->record(*own_rows_arrived_, *stream_);
  if (!recvs.empty()) link_->post({}, recvs, *stream_);
  backend_.device->record(*arrived_, *stream_);
}

const void* DeviceMessages::receive_own_rows(Stream& stream) {
  backend_.device->wait(stream, *own_rows_arrived_);
  return own_message_.data();
}

void DeviceMessages::post_own_results(int layer, Stream& stream) {
  const DeviceRecv recv = results_from(layer, link_->rank());
  const DeviceSend send{link_->rank(), own_answer_.data(), recv.bytes};
  backend_.device->record(*own_results_made_, stream);
  backend_.device->wait(*stream_, *own_results_made_);
  link_->post({&send, 1}, {&recv, 1}, *stream_);
  backend_.device->record(*arrived_, *stream_);
}

void DeviceMessages::receive(Stream& stream) { backend_.device->wait(stream, *arrived_); }

LocatedResults DeviceMessages::locate(int layer, int64_t num_tokens, int64_t top_k,
                                      PlanOnDevice& plan, Stream& stream) {
  backend_.ops->locate_results({.pair_of_choice = plan.pair_of_choice(),
                                .row_begin = plan.row_begin(layer),
                                .pair_begin = plan.pair_begin(),
                                .block_begin = block_begin_.memory.as<int64_t>() + at(layer, 0),
                                .max_results = max_results_.memory.as<int32_t>() + at(layer, 0),
                                .result_offset = offset_.as<int64_t>(),
                                .flags = plan.flags(),
                                .num_tokens = num_tokens,
                                .top_k = top_k,
                                .num_ranks = num_ranks_,
                                .hidden_size = limits_.hidden_size},
                               stream);
  return {results_.data(), backend_.activations, offset_.as<int64_t>()};
}

char* DeviceMessages::results_of(int layer, int rank) {
  return results_.as<char>() +
         static_cast<size_t>(block_begin_.host.as<int64_t>()[at(layer, rank)]) *
             size_of(backend_.activations);
}

ResultRows DeviceMessages::own_results(int layer) {
  char* first = limits_.own_rows_travel ? own_answer_.as<char>() : results_of(layer, link_->rank());
  return {first, backend_.activations};
}

}  // namespace colibri
