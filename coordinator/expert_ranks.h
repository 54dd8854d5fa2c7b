// The ranks that hold experts, as a server keeps them: it notices who is lost, gives their experts
// to the others and goes on; and it moves experts while requests run. Tokens never change by it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "coordinator/expert_path.h"
#include "coordinator/status_round.h"
#include "topology/placement.h"
#include "transport/device_link.h"
#include "transport/expert_exchange.h"
#include "transport/transport.h"

namespace colibri {

// All outlive it.
struct ExpertRanksParts {
  Transport* transport = nullptr;  // null: one rank, which cannot be lost
  ExpertHolder* own = nullptr;     // of this rank
  const ModelShape* shape = nullptr;
  Placement* placement = nullptr;  // the one `path` reads; assigned anew between steps
  ExpertPath* path = nullptr;
  // Where rows travel between devices: an id for a new link, and the joining of it by this rank,
  // which hands it to `path`. Empty elsewhere.
  std::function<LinkId()> make_link_id = {};
  std::function<void(std::vector<int> members, const LinkId& id)> join_link = {};
  // Called when slots have changed; may be empty.
  std::function<void()> on_change = {};
  // [R] slots that each rank's memory holds; empty: as many as its system gives.
  std::vector<int64_t> capacity_slots = {};
  int64_t answer_timeout_ms = 30000;  // until a rank has answered an order
  int64_t read_timeout_ms = 600000;   // until experts have been read
  // Throws kEnvironment where so many new slots [R] have no room; may be empty.
  std::function<void(const std::vector<int64_t>& new_slots)> check_room = {};
  std::function<void(const std::string& line)> log = {};  // may be empty
};

struct ExpertRanksState {
  int num_ranks = 1;
  std::vector<int> lost;       // ascending
  bool is_recovering = false;  // no step can run; for good where recover() failed
  int64_t num_recoveries = 0, num_rebalances = 0;
  double last_recovery_s = 0, all_recoveries_s = 0;
};

// Called on the engine's thread; each may be empty.
struct RankEvents {
  // Who is lost, or who holds what, is not what it was.
  std::function<void(const std::vector<int>& lost)> on_change = {};
  std::function<void(double seconds)> on_recovery = {};  // from the notice until steps can run
};

// What became of a rebalance.
struct RebalanceResult {
  std::optional<ErrorInfo> error;
  int64_t num_moved_slots = 0;  // experts that a rank had to read
  int64_t read_bytes = 0;
  double seconds = 0;
};

// One thread, that of the engine; parse(), state() and text() may be called on any.
class ExpertRanks {
 public:
  explicit ExpertRanks(ExpertRanksParts parts);

  // After Engine::step threw `error`. A rank that is dead, or that the step waited for in vain, is
  // killed for certain; the others hold its experts when this returns, and the step can run again.
  // Ranks lost meanwhile are treated the same. Takes as long as reading the experts takes.
  // A link between devices that failed although nobody died is joined anew by all, once in a while.
  // Errors: `error` itself when no rank was lost; kEnvironment when the ranks that are left have no
  // room. Then no step can run any more.
  void recover(const Error& error);

  // Between two steps, and every second at least when none runs: recovers from a loss that no step
  // has met yet, and takes a rebalance further. Errors: as recover().
  void look();

  // A placement for these ranks in its file form. Errors: kInput for what is no such placement, or
  // has experts on a rank that is lost.
  Placement parse(std::string_view text) const;
  // Moves to `next`, which parse() gave: every rank reads what is new to it beside the steps, then
  // all switch between two. `on_done` is called inside look() or recover(). One at a time: false,
  // and on_done is never called, while another goes on.
  using OnDone = std::function<void(const RebalanceResult&)>;
  bool rebalance(Placement next, OnDone on_done);

  // One goes on, or waits for look(). Workers may answer it at any time then: nothing else may be
  // asked of them over the control channel.
  bool is_rebalancing() const { return rebalance_ != nullptr; }

  // Instead of those of an earlier call.
  void watch(RankEvents events) { events_ = std::move(events); }

  ExpertRanksState state() const;
  // Whether the placement is another than at first.
  bool has_changed() const { return state().num_recoveries + state().num_rebalances > 0; }
  // The present placement in its file form.
  std::string text() const;

 private:
  // Steps after which a link counts as one that works.
  static constexpr int64_t kLooksOfAProvedLink = 8;
  using Clock = std::chrono::steady_clock;
  struct Rebalance {
    Placement next;
    OnDone on_done;
    RebalanceResult result;
    std::unique_ptr<StatusRound> reading;
    Clock::time_point start;
    bool is_reading = false;
  };
  using Refusal = std::optional<StatusRound::Refusal>;

  std::vector<int> workers() const;
  bool note_lost(const std::vector<int>& ranks);
  bool learn_from(const Error& error);
  bool may_rejoin(const Error& error);
  void settle();
  void move_epoch();
  std::vector<int> members() const;
  std::unique_ptr<StatusRound> begin_reading(const Placement& next, bool is_urgent);
  bool is_read(StatusRound* round);
  Refusal refusal_of(const StatusRound* round) const;
  Refusal read_all(const Placement& next);
  void end_change(bool is_adopted);
  void adopt(const Placement& next);
  void advance_rebalance();
  void end_rebalance(std::optional<ErrorInfo> error);
  void wait(StatusRound& round, const std::string& what);
  void log(const std::string& line) const;
  void tell_change() const;
  template <class Body>
  std::vector<std::byte> encoded(const Body& body) const;

  ExpertRanksParts parts_;
  RankEvents events_;
  std::vector<int> full_;    // ranks that refused more for want of memory
  std::vector<int> silent_;  // that the last failed round waited for
  Refusal own_refusal_;      // of the change that is read
  // Since all joined a new link although nobody was lost; the first link counts as proved.
  int64_t num_looks_ = kLooksOfAProvedLink;
  int64_t num_read_slots_ = 0;  // of the change that is read
  int64_t read_bytes_ = 0;      // in this recovery
  std::unique_ptr<Rebalance> rebalance_;
  mutable std::mutex mutex_;  // of what other threads read
  ExpertRanksState state_;
  Placement shown_;  // the present placement
};

}  // namespace colibri
