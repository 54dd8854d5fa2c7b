// The other ranks of a session, as the coordinator keeps them while it serves and at the end.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/units.h"
#include "launch/cuda_backend.h"
#include "launch/session_parts.h"
#include "launch/session_setup.h"
#include "topology/system_memory.h"
#include "transport/control.h"

namespace colibri {

void ModelSession::make_ranks(Coordinator& c) {
  const auto expert_bytes = static_cast<uint64_t>(shape_.expert_bytes * shape_.num_experts);
  c.ranks = std::make_unique<ExpertRanks>(ExpertRanksParts{
      .transport = context_.transport,
      .own = changes_.get(),
      .shape = &shape_,
      .placement = &*placement_,
      .path = c.path.get(),
      .make_link_id = may_relink() ? context_.device.backend->make_link_id : nullptr,
      .join_link =
          [this, &c](std::vector<int> members, const LinkId& id) {
            if (has_link()) c.path->relinked(*join_link(members, id));
          },
      .on_change = [&c] { c.forward->forget_graphs(); },
      .capacity_slots = capacity_slots_,
      .answer_timeout_ms = int64_t{options_.step_timeout_s} * 1000,
      .read_timeout_ms =
          int64_t{options_.start_timeout_s} * 1000 +
          load_allowance_ms(expert_bytes * static_cast<uint64_t>(shape_.num_moe_layers())),
      .check_room = [this](const std::vector<int64_t>& new_slots) { check_room(new_slots); },
      .log = [this](const std::string& line) { context_.log->warn("{}", line); }});
}

bool ModelSession::may_relink() const {
  return !hooks_.make_link && context_.device.over_nccl && context_.transport != nullptr;
}

// The link that is of no use any more goes first: a GPU takes part in one at a time.
DeviceLink* ModelSession::join_link(std::span<const int> members, const LinkId& id) {
  if (!may_relink()) {
    fail(ErrorKind::kUnsupported,
         "rows travel over a link that cannot be joined anew after a loss");
  }
  backend_.link.reset();
  backend_.link = context_.device.backend->make_link(
      *backend_.device, {.host = context_.transport,
                         .start_timeout_ms = int64_t{options_.step_timeout_s} * 1000,
                         .step_timeout_ms = int64_t{options_.step_timeout_s} * 1000,
                         .may_spin = may_spin(context_),
                         .members = {members.begin(), members.end()},
                         .id = id});
  return backend_.link.get();
}

// On the CPU, where ranks of one machine share its memory; GPUs have their capacities.
void ModelSession::check_room(const std::vector<int64_t>& new_slots) const {
  const bool one_node = context_.num_local_ranks == context_.size;
  if (context_.device.is_cuda() || !one_node) return;
  const int64_t slots = std::accumulate(new_slots.begin(), new_slots.end(), int64_t{0});
  const int64_t need = slots * shape_.expert_bytes, have = read_system_memory().usable_bytes();
  if (need <= have) return;
  fail(ErrorKind::kEnvironment, "the ranks that are left need ", format_bytes(need), " more for ",
       slots, " experts, this machine has ", format_bytes(have),
       ": use more ranks, or smaller weights");
}

// Tells every living worker to leave and waits for the answers. A worker that cannot be told is
// left to the launcher.
void ModelSession::stop_workers(int code, int64_t timeout_ms) {
  if (context_.transport == nullptr || context_.size == 1) return;
  Transport& transport = *context_.transport;
  const auto dead = transport.dead_ranks();
  struct Messages {
    std::vector<std::byte> stop;
    std::vector<std::vector<std::byte>> answers;
  };
  const auto messages = std::make_shared<Messages>();
  messages->stop = encode_control(0, transport.epoch(), StopBody{.exit_code = code});
  messages->answers.resize(static_cast<size_t>(context_.size));
  std::vector<Pending> pending;
  for (int rank = 1; rank < context_.size; ++rank) {
    if (std::find(dead.begin(), dead.end(), rank) != dead.end()) continue;
    auto& answer = messages->answers[static_cast<size_t>(rank)];
    answer.resize(kMaxControlBytes);
    const SendOp send{rank, Channel::kControl, messages->stop.data(), messages->stop.size()};
    const RecvOp recv{rank, Channel::kControl, answer.data(), answer.size()};
    pending.push_back(transport.post({{&send, 1}, {&recv, 1}}, nullptr));
  }
  try {
    transport.wait(pending, Deadline::after_ms(timeout_ms), "workers to leave");
  } catch (const Error& error) {
    transport.keep(messages);  // late answers may still arrive in these buffers
    context_.log->info("not every rank was told to leave: {}", error.what());
  }
}

}  // namespace colibri
