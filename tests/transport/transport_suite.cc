#include "tests/transport/transport_suite.h"

#include <array>
#include <cstring>
#include <numeric>

#include "transport/collectives.h"

namespace colibri {

void require(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

std::vector<size_t> exchange(Transport& transport, const Group& group, const std::string& what) {
  const Pending pending = transport.post(group, nullptr);
  transport.wait({&pending, 1}, Deadline::after_ms(20000), what);
  if (group.recvs.empty()) return {};
  return transport.take_received_bytes(pending);
}

std::string require_error(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.kind() == kind, std::string("error of kind ") + to_string(error.kind()) +
                                      ", want " + to_string(kind) + ": " + error.what());
    return error.what();
  }
  throw std::runtime_error(std::string("no error, want ") + to_string(kind));
}

void require_part(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, "'" + text + "' does not say '" + part + "'");
}

namespace {

Deadline soon() { return Deadline::after_ms(20000); }

std::string got(int64_t value, int64_t want) {
  return "got " + std::to_string(value) + ", want " + std::to_string(want);
}

struct Note {
  int from, to, channel, number;
  bool operator==(const Note&) const = default;
};

void channels_keep_their_order(RankContext& context) {
  Transport& t = context.transport;
  constexpr int kNumNotes = 20;
  const std::array channels = {Channel::kResults, Channel::kRows};
  std::vector<Note> out, in;
  out.reserve(static_cast<size_t>(t.size() * kNumNotes * 2));
  in.resize(static_cast<size_t>(t.size() * kNumNotes * 2));
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (int number = 0; number < kNumNotes; ++number) {
    for (int peer = 0; peer < t.size(); ++peer) {
      for (const Channel channel : channels) {
        out.push_back({t.rank(), peer, static_cast<int>(channel), number});
        sends.push_back({peer, channel, &out.back(), sizeof(Note)});
      }
      for (const Channel channel : {Channel::kRows, Channel::kResults}) {
        recvs.push_back({peer, channel, &in[recvs.size()], sizeof(Note)});
      }
    }
  }
  exchange(t, {sends, recvs}, "notes");
  for (size_t i = 0; i < recvs.size(); ++i) {
    const int number = static_cast<int>(i) / (2 * t.size());
    const Note want{recvs[i].peer, t.rank(), static_cast<int>(recvs[i].channel), number};
    require(in[i] == want, "note " + std::to_string(i) + ": " + got(in[i].number, number));
  }
}

void many_groups_are_in_flight(RankContext& context) {
  Transport& t = context.transport;
  constexpr size_t kNumGroups = 300;
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  std::vector<size_t> out(kNumGroups), in(kNumGroups);
  std::iota(out.begin(), out.end(), size_t{0});
  std::vector<Pending> all;
  for (size_t i = 0; i < kNumGroups; ++i) {
    const SendOp send{next, Channel::kRows, &out[i], sizeof(size_t)};
    const RecvOp recv{previous, Channel::kRows, &in[i], sizeof(size_t)};
    all.push_back(t.post({{&send, 1}, {&recv, 1}}, nullptr));
  }
  const std::vector<Pending> reversed(all.rbegin(), all.rend());
  t.wait(reversed, soon(), "many groups");
  require(in == out, "messages changed places");
  for (const Pending& pending : all) require(t.test(pending), "a done group tests false");
  for (const Pending& pending : all) require(t.take_received_bytes(pending).size() == 1, "sizes");
}

void empty_messages_arrive(RankContext& context) {
  Transport& t = context.transport;
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  const SendOp send{next, Channel::kControl, nullptr, 0};
  const RecvOp recv{previous, Channel::kControl, nullptr, 0};
  require(exchange(t, {{&send, 1}, {&recv, 1}}, "nothing").at(0) == 0, "not empty");
}

void empty_group_is_done_at_once(RankContext& context) {
  require(context.transport.test(context.transport.post({}, nullptr)), "still pending");
}

void short_messages_tell_their_size(RankContext& context) {
  Transport& t = context.transport;
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  const std::string word = "colibri";
  std::array<char, 4096> buffer{};
  const SendOp send{next, Channel::kRows, word.data(), word.size()};
  const RecvOp recv{previous, Channel::kRows, buffer.data(), buffer.size()};
  const size_t bytes = exchange(t, {{&send, 1}, {&recv, 1}}, "a word").at(0);
  require(bytes == word.size(), got(static_cast<int64_t>(bytes), 7));
  require(std::string(buffer.data(), bytes) == word, "other bytes");
}

void rank_sends_to_itself(RankContext& context) {
  Transport& t = context.transport;
  const std::vector<char> out(100000, 'x');
  std::vector<char> in(out.size());
  const SendOp send{t.rank(), Channel::kRows, out.data(), out.size()};
  const RecvOp recv{t.rank(), Channel::kRows, in.data(), in.size()};
  exchange(t, {{&send, 1}, {&recv, 1}}, "own message");
  require(in == out, "other bytes");
}

void big_messages_cross(RankContext& context) {
  Transport& t = context.transport;
  constexpr size_t kWords = 5 << 20;  // 20 MB
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  std::vector<int> out(kWords, t.rank()), from_next(kWords), from_previous(kWords);
  constexpr size_t kBytes = kWords * sizeof(int);
  const std::array<SendOp, 2> sends = {SendOp{next, Channel::kRows, out.data(), kBytes},
                                       SendOp{previous, Channel::kResults, out.data(), kBytes}};
  const std::array<RecvOp, 2> recvs = {
      RecvOp{next, Channel::kResults, from_next.data(), kBytes},
      RecvOp{previous, Channel::kRows, from_previous.data(), kBytes}};
  exchange(t, {sends, recvs}, "big messages");
  require(from_next == std::vector<int>(kWords, next), "bytes of the next rank");
  require(from_previous == std::vector<int>(kWords, previous), "bytes of the previous rank");
}

// Even ranks post and wait for dispatch first, odd ranks for combine; too large to lie in a buffer.
void opposite_orders_do_not_deadlock(RankContext& context) {
  Transport& t = context.transport;
  const int peer = t.rank() ^ 1;
  if (peer >= t.size()) return;
  constexpr size_t kBytes = 3 << 20;
  std::vector<char> out(kBytes, 'a'), rows(kBytes), results(kBytes);
  const auto post = [&](Channel channel, std::vector<char>& in) {
    const SendOp send{peer, channel, out.data(), kBytes};
    const RecvOp recv{peer, channel, in.data(), kBytes};
    return t.post({{&send, 1}, {&recv, 1}}, nullptr);
  };
  std::vector<Pending> order;
  if (t.rank() % 2 == 0) {
    order = {post(Channel::kRows, rows), post(Channel::kResults, results)};
  } else {
    order = {post(Channel::kResults, results), post(Channel::kRows, rows)};
  }
  for (const Pending& pending : order) t.wait({&pending, 1}, soon(), "one direction");
  require(rows == out && results == out, "other bytes");
}

// One group holds the dispatch of one half and the combine of the other.
void mixed_groups_do_not_deadlock(RankContext& context) {
  Transport& t = context.transport;
  constexpr size_t kBytes = 1 << 20;
  const auto num_ranks = static_cast<size_t>(t.size());
  std::vector<std::vector<char>> out(num_ranks, std::vector<char>(kBytes, 'm'));
  std::vector<std::vector<char>> in(2 * num_ranks, std::vector<char>(kBytes));
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (size_t i = 0; i < num_ranks; ++i) {
    const auto peer = static_cast<size_t>((t.rank() + static_cast<int>(i)) % t.size());
    const int to = static_cast<int>(peer);
    sends.push_back(
        {to, i % 2 == 0 ? Channel::kRows : Channel::kResults, out[peer].data(), kBytes});
    sends.push_back(
        {to, i % 2 == 0 ? Channel::kResults : Channel::kRows, out[peer].data(), kBytes});
    recvs.push_back({to, Channel::kResults, in[peer].data(), kBytes});
    recvs.push_back({to, Channel::kRows, in[num_ranks + peer].data(), kBytes});
  }
  exchange(t, {sends, recvs}, "both halves");
  for (const auto& bytes : in) require(bytes == out[0], "other bytes");
}

void test_moves_messages_along(RankContext& context) {
  Transport& t = context.transport;
  const int next = (t.rank() + 1) % t.size();
  const int previous = (t.rank() + t.size() - 1) % t.size();
  int out = t.rank(), in = -1;
  const SendOp send{next, Channel::kRows, &out, sizeof out};
  const RecvOp recv{previous, Channel::kRows, &in, sizeof in};
  const Pending pending = t.post({{&send, 1}, {&recv, 1}}, nullptr);
  const Deadline deadline = soon();
  while (!t.test(pending)) {
    require(!deadline.expired(), "test() never came true");
    t.progress();
  }
  require(in == previous, got(in, previous));
  t.take_received_bytes(pending);
}

void sizes_are_taken_once(RankContext& context) {
  Transport& t = context.transport;
  const SendOp send{t.rank(), Channel::kRows, nullptr, 0};
  const RecvOp recv{t.rank(), Channel::kRows, nullptr, 0};
  const Pending pending = t.post({{&send, 1}, {&recv, 1}}, nullptr);
  t.wait({&pending, 1}, soon(), "own message");
  t.take_received_bytes(pending);
  require_error(ErrorKind::kInternal, [&] { t.take_received_bytes(pending); });
}

void unknown_peer_is_our_bug(RankContext& context) {
  Transport& t = context.transport;
  const SendOp send{t.size(), Channel::kRows, nullptr, 0};
  const std::string text = require_error(ErrorKind::kInternal, [&] {
    t.post({{&send, 1}, {}}, nullptr);
  });
  require_part(text, "peer " + std::to_string(t.size()));
}

}  // namespace

std::vector<Scenario> message_scenarios() {
  return {{"ChannelsKeepTheirOrder", 1, false, channels_keep_their_order},
          {"ManyGroupsAreInFlight", 1, false, many_groups_are_in_flight},
          {"EmptyMessagesArrive", 1, false, empty_messages_arrive},
          {"EmptyGroupIsDoneAtOnce", 1, false, empty_group_is_done_at_once},
          {"ShortMessagesTellTheirSize", 1, false, short_messages_tell_their_size},
          {"RankSendsToItself", 1, false, rank_sends_to_itself},
          {"BigMessagesCross", 1, false, big_messages_cross},
          {"OppositeOrdersDoNotDeadlock", 2, false, opposite_orders_do_not_deadlock},
          {"MixedGroupsDoNotDeadlock", 1, false, mixed_groups_do_not_deadlock},
          {"TestMovesMessagesAlong", 1, false, test_moves_messages_along},
          {"SizesAreTakenOnce", 1, false, sizes_are_taken_once},
          {"UnknownPeerIsOurBug", 1, false, unknown_peer_is_our_bug}};
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = message_scenarios();
  for (auto&& list : {failure_scenarios(), collective_scenarios()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace colibri
