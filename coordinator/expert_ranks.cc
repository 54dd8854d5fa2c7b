#include "coordinator/expert_ranks.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/backoff.h"
#include "base/rank_list.h"
#include "base/units.h"
#include "topology/placement_file.h"
#include "topology/replan.h"

namespace colibri {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string with_rank(int rank, const std::string& message) {
  return "rank " + std::to_string(rank) + ": " + message;
}

}  // namespace

ExpertRanks::ExpertRanks(ExpertRanksParts parts)
    : parts_(std::move(parts)), shown_(*parts_.placement) {
  if (parts_.transport != nullptr) state_.num_ranks = parts_.transport->size();
}

std::string ExpertRanks::text() const {
  const Placement shown = [this] {
    const std::lock_guard lock(mutex_);
    return shown_;
  }();
  return placement_text(shown, *parts_.shape);
}

ExpertRanksState ExpertRanks::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void ExpertRanks::log(const std::string& line) const {
  if (parts_.log) parts_.log(line);
}

void ExpertRanks::tell_change() const {
  if (events_.on_change) events_.on_change(state_.lost);
}

std::vector<int> ExpertRanks::workers() const {
  std::vector<int> ranks;
  for (int rank = 1; rank < state_.num_ranks; ++rank) {
    if (!contains(state_.lost, rank)) ranks.push_back(rank);
  }
  return ranks;
}

// ---- Losses ---------------------------------------------------------------------------------

// True when there is one among them that was not lost before.
bool ExpertRanks::note_lost(const std::vector<int>& ranks) {
  bool is_news = false;
  for (const int rank : ranks) {
    if (rank == 0 || contains(state_.lost, rank)) continue;
    parts_.transport->declare_dead(rank);
    const std::lock_guard lock(mutex_);
    state_.lost.insert(std::upper_bound(state_.lost.begin(), state_.lost.end(), rank), rank);
    is_news = true;
  }
  if (is_news) tell_change();
  return is_news;
}

// Who died, or did not answer before the deadline.
bool ExpertRanks::learn_from(const Error& error) {
  if (parts_.transport == nullptr) return false;
  std::vector<int> ranks = parts_.transport->dead_ranks();
  if (error.kind() == ErrorKind::kTimeout) {
    const std::vector<int> late = silent_.empty() ? parts_.path->late_ranks() : silent_;
    ranks.insert(ranks.end(), late.begin(), late.end());
  }
  silent_.clear();
  return note_lost(ranks);
}

// A link between devices may fail although nobody died: then all join a new one, unless the last
// one was new as well.
bool ExpertRanks::may_rejoin(const Error& error) {
  const bool is_proved = num_looks_ >= kLooksOfAProvedLink;
  num_looks_ = 0;
  return parts_.join_link && error.kind() == ErrorKind::kRankLost && is_proved;
}

void ExpertRanks::recover(const Error& error) {
  const auto start = Clock::now();
  if (!learn_from(error) && !may_rejoin(error)) throw Error(error.kind(), error.what());
  log(error.what());
  {
    const std::lock_guard lock(mutex_);
    state_.is_recovering = true;
  }
  end_rebalance(ErrorInfo{ErrorKind::kRankLost, std::string("a step failed: ") + error.what()});
  read_bytes_ = 0;
  for (bool is_settled = false; !is_settled;) {
    try {
      settle();
      is_settled = true;
    } catch (const Error& next) {
      if (!learn_from(next)) throw;
      log(next.what());
    }
  }
  const double seconds = seconds_since(start);
  {
    const std::lock_guard lock(mutex_);
    state_.is_recovering = false;
    ++state_.num_recoveries;
    state_.last_recovery_s = seconds;
    state_.all_recoveries_s += seconds;
  }
  tell_change();
  if (events_.on_recovery) events_.on_recovery(seconds);
  std::ostringstream line;
  line << "goes on ";
  if (!state_.lost.empty()) line << "without " << rank_list(state_.lost) << " ";
  line << "after " << seconds << " s, " << format_bytes(read_bytes_) << " read; "
       << describe(*parts_.placement);
  log(line.str());
}

// The ranks that are left hold all experts when it returns. May be begun anew at any point.
void ExpertRanks::settle() {
  move_epoch();
  for (;;) {
    std::vector<int64_t> capacity = parts_.capacity_slots;
    if (capacity.empty() && !full_.empty()) {
      capacity.assign(static_cast<size_t>(state_.num_ranks), std::numeric_limits<int64_t>::max());
    }
    for (const int rank : full_) {
      capacity[static_cast<size_t>(rank)] = parts_.placement->num_slots(rank);
    }
    const Placement next =
        placement_without(*parts_.shape, *parts_.placement, state_.lost, capacity);
    const auto refusal = read_all(next);
    if (!refusal) return adopt(next);
    const bool is_full = refusal->error.kind == ErrorKind::kEnvironment;
    if (!is_full || contains(full_, refusal->rank)) {
      fail(refusal->error.kind, with_rank(refusal->rank, refusal->error.message));
    }
    log(with_rank(refusal->rank, refusal->error.message));
    full_.push_back(refusal->rank);
  }
}

// Nothing that was under way is taken for something new.
void ExpertRanks::move_epoch() {
  parts_.path->give_up();
  NewEpochBody next{.epoch = parts_.transport->epoch() + 1};
  LinkId id{};
  if (parts_.make_link_id) {
    id = parts_.make_link_id();
    const std::vector<int> joining = members();
    check(joining.size() <= kMaxLinkMembers, "a link of ", joining.size(), " members");
    next.num_members = static_cast<uint32_t>(joining.size());
    std::memcpy(next.link_id, id.data(), id.size());
    std::copy(joining.begin(), joining.end(), next.members);
  }
  StatusRound round(*parts_.transport,
                    {.workers = workers(), .order = encoded(next), .answered_under = next.epoch});
  wait(round, "a new epoch");
  if (parts_.join_link) parts_.join_link(members(), id);
}

std::vector<int> ExpertRanks::members() const {
  std::vector<int> ranks = workers();
  ranks.insert(ranks.begin(), 0);
  return ranks;
}

template <class Body>
std::vector<std::byte> ExpertRanks::encoded(const Body& body) const {
  return encode_control(parts_.transport->rank(), parts_.transport->epoch(), body);
}

void ExpertRanks::wait(StatusRound& round, const std::string& what) {
  try {
    round.wait(Deadline::after_ms(parts_.answer_timeout_ms), what);
  } catch (const Error&) {
    silent_ = round.silent_ranks();
    throw;
  }
}

// ---- A change of placement ------------------------------------------------------------------

std::unique_ptr<StatusRound> ExpertRanks::begin_reading(const Placement& next, bool is_urgent) {
  const auto new_slots = slots_to_load(*parts_.placement, next);
  if (parts_.check_room) parts_.check_room(new_slots);
  num_read_slots_ = std::accumulate(new_slots.begin(), new_slots.end(), int64_t{0});
  std::string text = placement_text(next, *parts_.shape);
  std::unique_ptr<StatusRound> round;
  if (parts_.transport != nullptr) {
    round = std::make_unique<StatusRound>(
        *parts_.transport,
        StatusRound::Order{.workers = workers(),
                           .order = encoded(ChangePlacementBody{.text_bytes = text.size(),
                                                                .is_urgent = is_urgent ? 1u : 0u}),
                           .text = text});
  }
  own_refusal_.reset();
  try {
    parts_.own->begin_change(text, is_urgent);
  } catch (const Error& error) {
    own_refusal_ = StatusRound::Refusal{0, {error.kind(), error.what()}};
  }
  return round;
}

// True once every rank has answered; what a rank refused is in refusal_of().
bool ExpertRanks::is_read(StatusRound* round) {
  if (round != nullptr && !round->is_answered()) return false;
  if (own_refusal_) return true;
  try {
    return parts_.own->is_change_read();
  } catch (const Error& error) {
    own_refusal_ = StatusRound::Refusal{0, {error.kind(), error.what()}};
    return true;
  }
}

std::optional<StatusRound::Refusal> ExpertRanks::refusal_of(const StatusRound* round) const {
  return own_refusal_ || round == nullptr ? own_refusal_ : round->refusal();
}

std::optional<StatusRound::Refusal> ExpertRanks::read_all(const Placement& next) {
  const auto round = begin_reading(next, true);
  read_bytes_ += num_read_slots_ * parts_.shape->expert_bytes;
  const Deadline deadline = Deadline::after_ms(parts_.read_timeout_ms);
  Backoff backoff(false);
  while (!is_read(round.get())) {
    if (deadline.expired()) {
      silent_ = round->silent_ranks();
      fail(ErrorKind::kTimeout, rank_list(silent_), " did not read experts within ",
           deadline.waited_ms(), " ms");
    }
    backoff.pause();
  }
  return refusal_of(round.get());
}

void ExpertRanks::end_change(bool is_adopted) {
  if (parts_.transport == nullptr) return;
  StatusRound round(
      *parts_.transport,
      {.workers = workers(), .order = encoded(EndChangeBody{.is_adopted = is_adopted ? 1u : 0u})});
  wait(round, "the end of a change of placement");
}

// The own experts last: whatever fails before leaves this rank as it was, and the workers are then
// given a placement anew.
void ExpertRanks::adopt(const Placement& next) {
  end_change(true);
  parts_.own->adopt_change();
  *parts_.placement = next;
  parts_.path->placement_changed();
  if (parts_.on_change) parts_.on_change();
  const std::lock_guard lock(mutex_);
  shown_ = next;
}

// ---- Rebalance ------------------------------------------------------------------------------

Placement ExpertRanks::parse(std::string_view text) const {
  Placement next = parse_placement(text, "placement", *parts_.shape);
  const ExpertRanksState now = state();
  if (next.num_ranks() != now.num_ranks) {
    fail(ErrorKind::kInput, "the placement is for ", next.num_ranks(), " ranks, this server has ",
         now.num_ranks);
  }
  for (const int rank : now.lost) {
    if (next.num_slots(rank) == 0) continue;
    fail(ErrorKind::kInput, "the placement gives rank ", rank, " ", next.num_slots(rank),
         " experts, but that rank is lost");
  }
  check_capacity(next, parts_.capacity_slots);
  return next;
}

bool ExpertRanks::rebalance(Placement next, OnDone on_done) {
  if (rebalance_) return false;
  rebalance_ = std::make_unique<Rebalance>(
      Rebalance{std::move(next), std::move(on_done), {}, nullptr, Clock::now(), false});
  return true;
}

void ExpertRanks::look() {
  ++num_looks_;
  if (parts_.transport != nullptr) {
    parts_.transport->progress();
    std::vector<int> dead = parts_.transport->dead_ranks();
    std::erase_if(dead, [this](int rank) { return contains(state_.lost, rank); });
    if (!dead.empty()) recover(Error(ErrorKind::kRankLost, rank_list(dead) + " ended"));
  }
  if (!rebalance_) return;
  try {
    advance_rebalance();
  } catch (const Error& error) {
    recover(error);
  }
}

void ExpertRanks::advance_rebalance() {
  Rebalance& now = *rebalance_;
  if (!now.is_reading) {
    // Slots may have been lost since it was parsed.
    for (const int rank : state_.lost) {
      if (now.next.num_slots(rank) > 0) {
        return end_rebalance(
            ErrorInfo{ErrorKind::kRankLost, with_rank(rank, "lost since the placement came")});
      }
    }
    try {
      now.reading = begin_reading(now.next, false);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kEnvironment) throw;
      return end_rebalance(ErrorInfo{error.kind(), error.what()});  // no room, and nobody was asked
    }
    now.result.num_moved_slots = num_read_slots_;
    now.result.read_bytes = num_read_slots_ * parts_.shape->expert_bytes;
    now.is_reading = true;
  }
  if (!is_read(now.reading.get())) return;
  if (const auto refusal = refusal_of(now.reading.get())) {
    end_change(false);
    parts_.own->drop_change();
    return end_rebalance(
        ErrorInfo{refusal->error.kind, with_rank(refusal->rank, refusal->error.message)});
  }
  adopt(now.next);
  end_rebalance(std::nullopt);
}

void ExpertRanks::end_rebalance(std::optional<ErrorInfo> error) {
  if (!rebalance_) return;
  const auto ended = std::move(rebalance_);
  ended->result.error = std::move(error);
  ended->result.seconds = seconds_since(ended->start);
  if (!ended->result.error) {
    const std::lock_guard lock(mutex_);
    ++state_.num_rebalances;
  }
  if (!ended->result.error) tell_change();
  std::ostringstream line;
  if (ended->result.error) {
    line << "the placement stays: " << ended->result.error->message;
  } else {
    line << "moved " << ended->result.num_moved_slots << " experts in " << ended->result.seconds
         << " s; " << describe(*parts_.placement);
  }
  log(line.str());
  if (ended->on_done) ended->on_done(ended->result);
}

}  // namespace colibri
