#include "tests/kernels/exchange_rig.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/buffer.h"
#include "transport/row_batch.h"

namespace colibri {
namespace {

// A vector in the memory of a side.
template <class T>
class Uploaded {
 public:
  Uploaded(const Side& side, const std::vector<T>& values)
      : side_(side), count_(values.size()), buffer_(side.device, (count_ + 1) * sizeof(T)) {
    side.device.copy(data(), values.data(), count_ * sizeof(T), side.stream);
    side.stream.synchronize();
  }
  T* data() { return buffer_.template as<T>(); }
  std::vector<T> host() {
    std::vector<T> values(count_);
    side_.device.copy(values.data(), data(), count_ * sizeof(T), side_.stream);
    side_.stream.synchronize();
    return values;
  }

 private:
  const Side& side_;
  size_t count_;
  Buffer buffer_;
};

int32_t pairs_of(const Plan& plan, int32_t rank) {
  const auto at = [&](int32_t r) {
    return plan.pair_begin[static_cast<size_t>(plan.row_begin[static_cast<size_t>(r)])];
  };
  return at(rank + 1) - at(rank);
}

void place_all(PackCase& one, const auto& room) {
  for (int32_t rank = 0; rank < one.plan.num_ranks(); ++rank) {
    MessagePlace place = room(rank);
    place.offset_bytes = static_cast<int64_t>(one.messages_bytes);
    const size_t bytes =
        row_message_layout(place.max_rows, place.max_pairs, one.width * 4).total_bytes;
    one.messages_bytes += (bytes + 63) / 64 * 64;
    one.places.push_back(place);
  }
}

}  // namespace

Choices random_choices(int64_t num_tokens, int64_t top_k, int32_t num_ranks, uint32_t seed) {
  Choices choices{num_tokens, top_k, num_ranks, {}, {}};
  std::mt19937 random(seed);
  for (int64_t i = 0; i < num_tokens * top_k; ++i) {
    choices.rank.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(num_ranks)));
    choices.slot.push_back(static_cast<int32_t>(random() % 9));
  }
  return choices;
}

Plan plan_of(const Choices& choices) {
  Plan plan;
  plan.pair_of_choice.resize(choices.rank.size());
  plan.row_begin = {0};
  for (int32_t rank = 0; rank < choices.num_ranks; ++rank) {
    int64_t last_token = -1;
    for (size_t i = 0; i < choices.rank.size(); ++i) {
      if (choices.rank[i] != rank) continue;
      const auto token = static_cast<int64_t>(i) / choices.top_k;
      if (token != last_token) {
        plan.row_token.push_back(static_cast<int32_t>(token));
        plan.pair_begin.push_back(static_cast<int32_t>(plan.slot.size()));
      }
      last_token = token;
      plan.pair_of_choice[i] = static_cast<int32_t>(plan.slot.size());
      plan.slot.push_back(choices.slot[i]);
    }
    plan.row_begin.push_back(static_cast<int32_t>(plan.row_token.size()));
  }
  plan.pair_begin.push_back(static_cast<int32_t>(plan.slot.size()));
  return plan;
}

RowHeader header_of(const PackCase& one) {
  RowHeader header;
  header.epoch = 3;
  header.source_rank = 1;
  header.step = 41;
  header.layer = 2;
  header.hidden_size = static_cast<int32_t>(one.width);
  return header;
}

void place_exactly(PackCase& one) {
  place_all(one, [&](int32_t rank) {
    const auto at = static_cast<size_t>(rank);
    return MessagePlace{0, one.plan.row_begin[at + 1] - one.plan.row_begin[at],
                        pairs_of(one.plan, rank)};
  });
}

void place_with_room(PackCase& one, int32_t max_rows, int32_t max_pairs) {
  place_all(one, [&](int32_t) { return MessagePlace{0, max_rows, max_pairs}; });
}

std::vector<std::byte> pack(const Side& side, const PackCase& one) {
  Uploaded<float> tokens(side, one.tokens);
  Uploaded<int32_t> row_begin(side, one.plan.row_begin), row_token(side, one.plan.row_token),
      pair_begin(side, one.plan.pair_begin), slot(side, one.plan.slot),
      messages(side, Ints(one.messages_bytes / 4, kUntouched));
  Uploaded<MessagePlace> places(side, one.places);
  side.ops.pack_rows({.header = header_of(one),
                      .tokens = tokens.data(),
                      .row_bytes = one.width * 4,
                      .row_begin = row_begin.data(),
                      .row_token = row_token.data(),
                      .pair_begin = pair_begin.data(),
                      .slot = slot.data(),
                      .places = places.data(),
                      .messages = messages.data(),
                      .num_ranks = one.plan.num_ranks(),
                      .skip_rank = one.skip_rank,
                      .max_rows = static_cast<int64_t>(one.tokens.size()) / one.width},
                     side.stream);
  const Ints words = messages.host();
  std::vector<std::byte> bytes(one.messages_bytes);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

GroupCase rows_of(const Plan& plan, int32_t rank, int32_t num_slots) {
  const auto first = plan.row_begin.begin() + rank;
  GroupCase one;
  one.num_rows = first[1] - first[0];
  one.pair_begin.assign(plan.pair_begin.begin() + first[0], plan.pair_begin.begin() + first[1] + 1);
  one.row_token.assign(plan.row_token.begin() + first[0], plan.row_token.begin() + first[1]);
  one.slot = plan.slot;
  one.num_slots = num_slots;
  one.max_rows = one.num_rows;
  one.max_pairs = static_cast<int64_t>(plan.slot.size());
  one.max_results = one.max_pairs;
  return one;
}

GroupCase range_of(const Plan& plan, int32_t rank, int32_t num_slots) {
  GroupCase one = rows_of(plan, rank, num_slots);
  const auto first = plan.row_begin.begin() + rank;
  one.row_range = {first[0], first[1]};
  one.pair_begin = plan.pair_begin;
  one.row_token = plan.row_token;
  return one;
}

Groups group(const Side& side, const GroupCase& one) {
  const auto room = static_cast<size_t>(one.max_pairs);
  Uploaded<int32_t> num_rows(side, {one.num_rows}), pair_begin(side, one.pair_begin),
      slot(side, one.slot), row_token(side, one.row_token), row_range(side, one.row_range),
      group_begin(side, Ints(static_cast<size_t>(one.num_slots) + 1, kUntouched)),
      pair_row(side, Ints(room, kUntouched));
  Uploaded<int64_t> out_offset(side, std::vector<int64_t>(room, kUntouched));
  Uploaded<uint32_t> flags(side, {0});
  const bool of_plan = !one.row_range.empty();
  side.ops.group_pairs({.num_rows = of_plan ? nullptr : num_rows.data(),
                        .row_range = of_plan ? row_range.data() : nullptr,
                        .pair_begin = pair_begin.data(),
                        .slot = slot.data(),
                        .row_token = one.row_token.empty() ? nullptr : row_token.data(),
                        .group_begin = group_begin.data(),
                        .pair_row = pair_row.data(),
                        .out_offset = out_offset.data(),
                        .flags = flags.data(),
                        .num_slots = one.num_slots,
                        .max_rows = one.max_rows,
                        .max_pairs = one.max_pairs,
                        .max_results = one.max_results,
                        .hidden_size = one.hidden_size},
                       side.stream);
  return {group_begin.host(), pair_row.host(), out_offset.host(), flags.host().front()};
}

Located locate(const Side& side, const LocateCase& one) {
  const std::vector<int64_t> before(one.plan.pair_of_choice.size(), kUntouched);
  Uploaded<int32_t> pair_of_choice(side, one.plan.pair_of_choice),
      row_begin(side, one.plan.row_begin), pair_begin(side, one.plan.pair_begin),
      max_results(side, one.max_results);
  Uploaded<int64_t> block_begin(side, one.block_begin), offset(side, before);
  Uploaded<uint32_t> flags(side, {0});
  side.ops.locate_results({.pair_of_choice = pair_of_choice.data(),
                           .row_begin = row_begin.data(),
                           .pair_begin = pair_begin.data(),
                           .block_begin = block_begin.data(),
                           .max_results = max_results.data(),
                           .result_offset = offset.data(),
                           .flags = flags.data(),
                           .num_tokens = static_cast<int64_t>(before.size()) / one.top_k,
                           .top_k = one.top_k,
                           .num_ranks = one.plan.num_ranks(),
                           .hidden_size = one.hidden_size},
                          side.stream);
  return {offset.host(), flags.host().front()};
}

}  // namespace colibri
