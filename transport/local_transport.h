// Ranks are threads of one process: the reference implementation, for tests, for `--transport
// local` and for a rank that runs alone.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace colibri {

// The mailboxes between `size` ranks. Thread safe. A send copies its bytes, straight into the
// buffer where the receive is already posted, so it is done when post() returns.
class LocalFabric {
 public:
  // may_spin: the ranks' threads do not outnumber the cores.
  explicit LocalFabric(int size, bool may_spin = false);

  // The transport of `rank`, made once for each rank and used by its thread alone. It may outlive
  // the LocalFabric object. A rank whose transport is destroyed counts as dead for the others; what
  // it has sent still arrives.
  std::unique_ptr<Transport> endpoint(int rank);

  // As if the process of `rank` were killed: its own calls fail with kRankLost from now on.
  void kill(int rank);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace colibri
