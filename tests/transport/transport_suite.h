// One list of facts that every transport must satisfy. A scenario runs on all ranks at once, as
// threads (local) or as processes (MPI); it throws to say that a fact does not hold.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "transport/transport.h"

namespace colibri {

struct RankContext {
  Transport& transport;
  // Ends this rank as a crash would. Local: throws RankDied.
  std::function<void()> die;
  // Never calls the transport again; returns only when somebody has killed this rank (local), or
  // not at all.
  std::function<void()> hang;
};

struct RankDied {};

struct Scenario {
  std::string name;
  int min_ranks = 1;
  bool kills = false;  // a rank is gone afterwards
  std::function<void(RankContext&)> run;
};

std::vector<Scenario> message_scenarios();
std::vector<Scenario> failure_scenarios();
std::vector<Scenario> collective_scenarios();
std::vector<Scenario> all_scenarios();

// Helpers of the scenarios.

// Fails the scenario on this rank.
void require(bool condition, const std::string& message);

// Posts and waits within ten seconds; the sizes of the receives.
std::vector<size_t> exchange(Transport& transport, const Group& group, const std::string& what);

// The error that `call` throws; fails the scenario if there is none, or of another kind.
std::string require_error(ErrorKind kind, const std::function<void()>& call);

// Fails the scenario unless `text` holds `part`.
void require_part(const std::string& text, const std::string& part);

}  // namespace colibri
