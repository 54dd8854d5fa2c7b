#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/transport/transport_suite.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

Deadline soon() { return Deadline::after_ms(20000); }

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

// Buffers that a failed wait leaves to the transport.
std::shared_ptr<std::vector<char>> lent_buffer(Transport& t, size_t bytes) {
  auto buffer = std::make_shared<std::vector<char>>(bytes);
  t.keep(buffer);
  return buffer;
}

void too_large_message_is_our_bug(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 0) {
    const std::vector<char> out(128);
    const SendOp send{1, Channel::kResults, out.data(), out.size()};
    exchange(t, {{&send, 1}, {}}, "too much");
  } else if (t.rank() == 1) {
    const auto buffer = lent_buffer(t, 64);
    const RecvOp recv{0, Channel::kResults, buffer->data(), 64};
    const std::string text = require_error(ErrorKind::kInternal, [&] {
      exchange(t, {{}, {&recv, 1}}, "layer 3");
    });
    for (const char* part : {"128 bytes", "rank 0", "results", "room for 64", "layer 3"}) {
      require_part(text, part);
    }
  }
  barrier(t, soon(), "end of scenario");
}

// Rank 1 is silent, all others answer rank 0: the counts of the two sides do not match.
void silent_rank_is_named_alone(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() > 1) {
    const SendOp send{0, Channel::kResults, nullptr, 0};
    exchange(t, {{&send, 1}, {}}, "answer");
  }
  if (t.rank() == 0) {
    std::vector<Pending> all;
    for (int peer = 1; peer < t.size(); ++peer) {
      const RecvOp recv{peer, Channel::kResults, nullptr, 0};
      all.push_back(t.post({{}, {&recv, 1}}, nullptr));
    }
    const std::string text = require_error(
        ErrorKind::kTimeout, [&] { t.wait(all, Deadline::after_ms(300), "results of layer 5"); });
    require_part(text, "rank 1 (receive on results)");
    require_part(text, "results of layer 5");
    require(text.find("rank 2") == std::string::npos, "names a rank that answered: " + text);
  }
  barrier(t, soon(), "end of scenario");
}

void one_message_too_few_times_out(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 1) {
    const SendOp send{0, Channel::kRows, nullptr, 0};
    exchange(t, {{&send, 1}, {}}, "one");
  } else if (t.rank() == 0) {
    const RecvOp recv{1, Channel::kRows, nullptr, 0};
    const std::array<RecvOp, 2> two = {recv, recv};
    const Pending pending = t.post({{}, two}, nullptr);
    const std::string text = require_error(ErrorKind::kTimeout, [&] {
      t.wait({&pending, 1}, Deadline::after_ms(300), "two");
    });
    require_part(text, "rank 1 (receive on rows)");
    require_error(ErrorKind::kInternal, [&] { t.test(pending); });
  }
  barrier(t, soon(), "end of scenario");
}

void expired_deadline_still_takes_what_is_there(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 1) {
    const SendOp send{0, Channel::kRows, nullptr, 0};
    exchange(t, {{&send, 1}, {}}, "one");
  }
  barrier(t, soon(), "message is there");
  if (t.rank() == 0) {
    const RecvOp recv{1, Channel::kRows, nullptr, 0};
    const Pending pending = t.post({{}, {&recv, 1}}, nullptr);
    t.progress();
    t.wait({&pending, 1}, Deadline::after_ms(0), "one");
    t.take_received_bytes(pending);
  }
  barrier(t, soon(), "end of scenario");
}

void stale_messages_are_dropped(RankContext& context) {
  Transport& t = context.transport;
  const uint32_t old_epoch = t.epoch();
  const auto buffer = lent_buffer(t, sizeof(int));
  const auto out = std::make_shared<std::array<int, 3>>(std::array{1, 2, 3});
  t.keep(out);
  const auto send = [&](int* word) {
    const SendOp op{0, Channel::kRows, word, sizeof(int)};
    exchange(t, {{&op, 1}, {}}, "word");
  };
  if (t.rank() == 1) send(&(*out)[0]);  // lies unread when rank 0 moves on
  barrier(t, soon(), "first word is there");
  if (t.rank() == 0) t.set_epoch(old_epoch + 1);
  if (t.rank() == 1) {
    sleep_ms(30);
    send(&(*out)[1]);  // comes after rank 0 has moved on
  }
  t.set_epoch(old_epoch + 1);
  if (t.rank() == 1) send(&(*out)[2]);
  if (t.rank() == 0) {
    sleep_ms(100);  // all three words lie there before the receive is posted
    const RecvOp recv{1, Channel::kRows, buffer->data(), sizeof(int)};
    exchange(t, {{}, {&recv, 1}}, "word");
    int word = 0;
    std::memcpy(&word, buffer->data(), sizeof word);
    require(word == 3, "got word " + std::to_string(word) + " of an old epoch, want 3");
  }
  barrier(t, soon(), "end of scenario");
}

void early_messages_wait_for_their_epoch(RankContext& context) {
  Transport& t = context.transport;
  const uint32_t next_epoch = t.epoch() + 1;
  const int word = 9;
  int in = 0;
  if (t.rank() == 1) {
    t.set_epoch(next_epoch);
    const SendOp send{0, Channel::kRows, &word, sizeof word};
    exchange(t, {{&send, 1}, {}}, "word");
  } else if (t.rank() == 0) {
    sleep_ms(30);
    t.set_epoch(next_epoch);
    const RecvOp recv{1, Channel::kRows, &in, sizeof in};
    exchange(t, {{}, {&recv, 1}}, "word");
    require(in == word, "got " + std::to_string(in));
  }
  t.set_epoch(next_epoch);
  barrier(t, soon(), "end of scenario");
}

void new_epoch_abandons_groups(RankContext& context) {
  Transport& t = context.transport;
  const auto buffer = lent_buffer(t, 16);
  const RecvOp recv{t.rank(), Channel::kRows, buffer->data(), 16};
  const Pending pending = t.post({{}, {&recv, 1}}, nullptr);
  t.set_epoch(t.epoch() + 1);
  require_error(ErrorKind::kInternal, [&] { t.test(pending); });
  require_error(ErrorKind::kInternal, [&] { t.set_epoch(t.epoch() - 1); });
}

// A ring among the ranks below `num_alive`.
void talk_among(Transport& t, int num_alive) {
  if (num_alive < 2) return;
  const int next = (t.rank() + 1) % num_alive;
  const int previous = (t.rank() + num_alive - 1) % num_alive;
  for (int round = 0; round < 5; ++round) {
    std::vector<char> out(200000, static_cast<char>(t.rank())), in(out.size());
    const SendOp send{next, Channel::kRows, out.data(), out.size()};
    const RecvOp recv{previous, Channel::kRows, in.data(), in.size()};
    exchange(t, {{&send, 1}, {&recv, 1}}, "survivors");
    require(in == std::vector<char>(in.size(), static_cast<char>(previous)), "other bytes");
  }
}

// The last rank dies while all wait for it; the others notice it by name and go on.
void lost_rank_is_named_and_survivors_go_on(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  if (t.rank() == victim) {
    sleep_ms(50);
    context.die();
  }
  const auto buffer = lent_buffer(t, 1000);
  const RecvOp recv{victim, Channel::kResults, buffer->data(), 1000};
  const std::string text = require_error(ErrorKind::kRankLost, [&] {
    exchange(t, {{}, {&recv, 1}}, "results of layer 1");
  });
  require_part(text, rank_name(victim) + " is lost");
  require_part(text, "results of layer 1");
  require(t.dead_ranks() == std::vector<int>{victim}, "dead_ranks() does not name it");
  t.set_epoch(t.epoch() + 1);
  talk_among(t, victim);
}

void loss_in_mid_transfer_leaves_survivors_working(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  constexpr size_t kBytes = 8 << 20;
  const auto in = lent_buffer(t, kBytes), out = lent_buffer(t, kBytes);
  if (t.rank() == victim) {
    for (int peer = 0; peer < victim; ++peer) {
      const auto from_peer = lent_buffer(t, kBytes);
      const SendOp send{peer, Channel::kRows, out->data(), kBytes};
      const RecvOp recv{peer, Channel::kResults, from_peer->data(), kBytes};
      t.post({{&send, 1}, {&recv, 1}}, nullptr);
    }
    t.progress();
    context.die();
  }
  const SendOp send{victim, Channel::kResults, out->data(), kBytes};
  const std::array<RecvOp, 2> recvs = {RecvOp{victim, Channel::kRows, in->data(), kBytes},
                                       RecvOp{victim, Channel::kRows, in->data(), kBytes}};
  const std::string text = require_error(ErrorKind::kRankLost, [&] {
    exchange(t, {{&send, 1}, recvs}, "transfer");
  });
  require_part(text, rank_name(victim) + " is lost");
  t.set_epoch(t.epoch() + 1);
  talk_among(t, victim);
}

void last_words_of_a_dead_rank_arrive(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  const int word = 77;
  if (t.rank() == victim) {
    const SendOp send{0, Channel::kResults, &word, sizeof word};
    exchange(t, {{&send, 1}, {}}, "last words");
    context.die();
  }
  if (t.rank() == 0) {
    sleep_ms(100);
    int in = 0;
    const RecvOp recv{victim, Channel::kResults, &in, sizeof in};
    exchange(t, {{}, {&recv, 1}}, "last words");
    require(in == word, "got " + std::to_string(in));
  }
}

void rank_declared_dead_is_ended(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  if (t.rank() == victim) return context.hang();
  if (t.rank() == 0) t.declare_dead(victim);
  const auto buffer = lent_buffer(t, 8);
  const RecvOp recv{victim, Channel::kRows, buffer->data(), 8};
  const std::string text = require_error(ErrorKind::kRankLost, [&] {
    exchange(t, {{}, {&recv, 1}}, "a row");
  });
  require_part(text, rank_name(victim) + " is lost");
  const SendOp send{victim, Channel::kRows, nullptr, 0};
  require_error(ErrorKind::kRankLost, [&] { exchange(t, {{&send, 1}, {}}, "a row"); });
  t.set_epoch(t.epoch() + 1);
  talk_among(t, victim);
}

void test_notices_a_loss(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  if (t.rank() == victim) context.die();
  const auto buffer = lent_buffer(t, 8);
  const RecvOp recv{victim, Channel::kRows, buffer->data(), 8};
  const Pending pending = t.post({{}, {&recv, 1}}, nullptr);
  const Deadline deadline = soon();
  require_error(ErrorKind::kRankLost, [&] {
    while (!t.test(pending)) require(!deadline.expired(), "test() never noticed");
  });
}

void workers_notice_the_loss_of_the_coordinator(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 0) {
    sleep_ms(50);
    context.die();
  }
  const auto buffer = lent_buffer(t, 64);
  const RecvOp recv{0, Channel::kControl, buffer->data(), 64};
  const Pending pending = t.post({{}, {&recv, 1}}, nullptr);
  const std::string text = require_error(ErrorKind::kRankLost, [&] {
    t.wait({&pending, 1}, Deadline::never(), "a command");
  });
  require_part(text, "rank 0 is lost");
}

}  // namespace

std::vector<Scenario> failure_scenarios() {
  return {
      {"TooLargeMessageIsOurBug", 2, false, too_large_message_is_our_bug},
      {"SilentRankIsNamedAlone", 2, false, silent_rank_is_named_alone},
      {"OneMessageTooFewTimesOut", 2, false, one_message_too_few_times_out},
      {"ExpiredDeadlineStillTakesWhatIsThere", 2, false,
       expired_deadline_still_takes_what_is_there},
      {"StaleMessagesAreDropped", 2, false, stale_messages_are_dropped},
      {"EarlyMessagesWaitForTheirEpoch", 2, false, early_messages_wait_for_their_epoch},
      {"NewEpochAbandonsGroups", 1, false, new_epoch_abandons_groups},
      {"LostRankIsNamedAndSurvivorsGoOn", 2, true, lost_rank_is_named_and_survivors_go_on},
      {"LossInMidTransferLeavesSurvivorsWorking", 2, true,
       loss_in_mid_transfer_leaves_survivors_working},
      {"LastWordsOfADeadRankArrive", 2, true, last_words_of_a_dead_rank_arrive},
      {"RankDeclaredDeadIsEnded", 2, true, rank_declared_dead_is_ended},
      {"TestNoticesALoss", 2, true, test_notices_a_loss},
      {"WorkersNoticeTheLossOfTheCoordinator", 2, true, workers_notice_the_loss_of_the_coordinator},
  };
}

}  // namespace colibri
