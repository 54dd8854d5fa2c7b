#include <string>

#include "tests/transport/transport_suite.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

Deadline soon() { return Deadline::after_ms(20000); }

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Text of rank r: r + 1 times 1000 letters.
std::string text_of_rank(int rank) {
  return std::string(static_cast<size_t>(rank + 1) * 1000, static_cast<char>('a' + rank));
}

void broadcast_brings_the_bytes_of_rank_0(RankContext& context) {
  Transport& t = context.transport;
  const std::string mine = text_of_rank(t.rank());
  const auto bytes = broadcast(t, bytes_of(mine), soon(), "configuration");
  require(text_of(bytes) == text_of_rank(0), "got " + text_of(bytes));
  require(broadcast(t, {}, soon(), "nothing").empty(), "not empty");
}

void gather_brings_all_in_order(RankContext& context) {
  Transport& t = context.transport;
  const std::string mine = text_of_rank(t.rank());
  const auto all = gather(t, bytes_of(mine), soon(), "texts");
  require(all.size() == (t.rank() == 0 ? static_cast<size_t>(t.size()) : 0), "number of texts");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    require(text_of(all[rank]) == text_of_rank(static_cast<int>(rank)), "other text");
  }
  barrier(t, soon(), "end of scenario");
}

void agreement_without_errors_returns(RankContext& context) {
  agree(context.transport, std::nullopt, soon(), "start");
}

void lowest_rank_that_fails_is_heard_by_all(RankContext& context) {
  Transport& t = context.transport;
  std::optional<ErrorInfo> mine;
  if (t.rank() > 0) {
    mine = ErrorInfo{ErrorKind::kEnvironment, "no room on rank " + std::to_string(t.rank())};
  }
  const std::string text =
      require_error(ErrorKind::kEnvironment, [&] { agree(t, mine, soon(), "load"); });
  require(text == "no room on rank 1", "got '" + text + "'");
}

void error_of_rank_0_is_heard_by_all(RankContext& context) {
  Transport& t = context.transport;
  std::optional<ErrorInfo> mine;
  if (t.rank() == 0) mine = ErrorInfo{ErrorKind::kInput, "no such prompt"};
  const std::string text = require_error(ErrorKind::kInput, [&] { agree(t, mine, soon(), "run"); });
  require(text == "no such prompt", "got '" + text + "'");
}

void unequal_value_names_rank_and_both(RankContext& context) {
  Transport& t = context.transport;
  agree_same(t, "backend", "cpu", soon());
  const std::string build = t.rank() == t.size() - 1 ? "b2" : "b1";
  const std::string text =
      require_error(ErrorKind::kInput, [&] { agree_same(t, "build", build, soon()); });
  require_part(text, "rank " + std::to_string(t.size() - 1) + " has build 'b2', rank 0 has 'b1'");
}

void late_rank_is_named_to_all(RankContext& context) {
  Transport& t = context.transport;
  const int late = t.size() - 1;
  if (t.rank() != late) {
    const std::string text = require_error(
        ErrorKind::kTimeout, [&] { agree(t, std::nullopt, Deadline::after_ms(300), "load"); });
    require_part(text, "rank " + std::to_string(late) + " (receive on startup)");
  }
  t.set_epoch(t.epoch() + 1);
  barrier(t, soon(), "end of scenario");
}

void missing_rank_is_named_by_the_barrier(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 0) {
    const std::string text =
        require_error(ErrorKind::kTimeout, [&] { barrier(t, Deadline::after_ms(200), "meeting"); });
    require_part(text, "rank 1 (receive on startup)");
  }
  t.set_epoch(t.epoch() + 1);
  barrier(t, soon(), "end of scenario");
}

void lost_rank_is_agreed_on(RankContext& context) {
  Transport& t = context.transport;
  const int victim = t.size() - 1;
  if (t.rank() == victim) context.die();
  const std::string text =
      require_error(ErrorKind::kRankLost, [&] { agree(t, std::nullopt, soon(), "load"); });
  require_part(text, "rank " + std::to_string(victim) + " is lost; rank 0 waited for load");
}

void report_outweighs_a_loss(RankContext& context) {
  Transport& t = context.transport;
  if (t.rank() == 1) context.die();
  std::optional<ErrorInfo> mine;
  if (t.rank() == 2) mine = ErrorInfo{ErrorKind::kInput, "shard is cut"};
  const std::string text =
      require_error(ErrorKind::kInput, [&] { agree(t, mine, soon(), "load"); });
  require(text == "shard is cut", "got '" + text + "'");
}

}  // namespace

std::vector<Scenario> collective_scenarios() {
  return {{"BroadcastBringsTheBytesOfRank0", 1, false, broadcast_brings_the_bytes_of_rank_0},
          {"GatherBringsAllInOrder", 1, false, gather_brings_all_in_order},
          {"AgreementWithoutErrorsReturns", 1, false, agreement_without_errors_returns},
          {"LowestRankThatFailsIsHeardByAll", 2, false, lowest_rank_that_fails_is_heard_by_all},
          {"ErrorOfRank0IsHeardByAll", 1, false, error_of_rank_0_is_heard_by_all},
          {"UnequalValueNamesRankAndBoth", 2, false, unequal_value_names_rank_and_both},
          {"LateRankIsNamedToAll", 2, false, late_rank_is_named_to_all},
          {"MissingRankIsNamedByTheBarrier", 2, false, missing_rank_is_named_by_the_barrier},
          {"LostRankIsAgreedOn", 2, true, lost_rank_is_agreed_on},
          {"ReportOutweighsALoss", 3, true, report_outweighs_a_loss}};
}

}  // namespace colibri
