// How the ranks of a communicator of the simulated NCCL find each other: each says hello to the
// maker of the id, who checks all and tells all.
#pragma once

#include <memory>
#include <vector>

#include "nccl_state.h"
#include "nccl_wire.h"

namespace colibri_sim {

class Bootstrap {
 public:
  explicit Bootstrap(CommState& state);
  // Goes on as far as possible; true once state.async has left ncclInProgress.
  bool step();

 private:
  struct Hello {
    uint64_t nonce = 0;
    int32_t rank = 0, num_ranks = 0;
    PeerRecord record;
  };
  struct Verdict {
    int32_t result = 0;
    char text[252] = {};
  };
  bool is_root() const { return root_ == own_.record.world_rank; }
  void take_hellos();
  Verdict judge() const;
  void tell_all();
  void hear_verdict();
  void settle(const Verdict& verdict);

  CommState& state_;
  int root_;
  Hello own_;
  std::vector<Hello> hellos_;
  std::vector<std::unique_ptr<WireMessage>> incoming_, outgoing_;
};

PeerRecord own_record(int device);

}  // namespace colibri_sim
