// One rank of the simulated NCCL's scenarios over MPI: simulated_nccl_suite NAME DIR. Every rank
// writes DIR/rank_<r>: "ok", or what went wrong. Ranks are started by mpirun, and the product's own
// transport runs beside NCCL all the time.
#include <cstring>

#include "simulated_nccl.h"
#include "tests/transport/nccl_rig.h"
#include "tests/transport/rank_main.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

struct Rank {
  MpiTransport& mpi;
  int rank;
  int size;
  ncclUniqueId id;

  void meet(const std::string& what) { barrier(mpi, Deadline::after_ms(20000), what); }
  NcclRig rig(int ordinal, bool is_blocking = true) const {
    return NcclRig(ordinal, size, rank, id, is_blocking);
  }
};

DeviceNumbers numbers(NcclRig& rig, int32_t first, size_t count) {
  return DeviceNumbers(*rig.device, *rig.stream, count_from(first, count));
}

void send(NcclRig& rig, DeviceNumbers& from, size_t count, int peer) {
  ncclSend(from.data(), count, ncclInt32, peer, rig.comm, rig.native());
}
void receive(NcclRig& rig, DeviceNumbers& to, size_t count, int peer) {
  ncclRecv(to.data(), count, ncclInt32, peer, rig.comm, rig.native());
}

// Every rank with every rank, 0 numbers for some, and many for others.
void all_pairs(Rank& me, NcclRig& rig, int size, int own) {
  constexpr size_t kMost = 70000;
  const auto count = [](int from, int to) { return static_cast<size_t>((from + to) % 3) * 35000; };
  std::vector<std::unique_ptr<DeviceNumbers>> out, in;
  ncclGroupStart();
  for (int peer = 0; peer < size; ++peer) {
    out.push_back(std::make_unique<DeviceNumbers>(*rig.device, *rig.stream,
                                                  count_from(1000 * own + peer, kMost)));
    in.push_back(
        std::make_unique<DeviceNumbers>(*rig.device, *rig.stream, std::vector<int32_t>(kMost)));
    send(rig, *out.back(), count(own, peer), peer);
    receive(rig, *in.back(), count(peer, own), peer);
  }
  const ncclResult_t ended = ncclGroupEnd();
  expect_that(ended == ncclSuccess || ended == ncclInProgress, "the group is issued");
  expect_that(rig.async_error() == ncclSuccess, "the group is on its stream");
  for (int peer = 0; peer < size; ++peer) {
    auto want = count_from(1000 * peer + own, count(peer, own));
    want.resize(kMost);
    expect_that(in[static_cast<size_t>(peer)]->get() == want,
                "rank " + std::to_string(peer) + "'s numbers came");
  }
  me.meet("all pairs");
}

void exchange(Rank& me, bool is_blocking) {
  NcclRig rig = me.rig(me.rank, is_blocking);
  for (int i = 0; i < 3; ++i) all_pairs(me, rig, me.size, me.rank);
}

void collectives(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  const auto ranks = static_cast<size_t>(me.size);
  DeviceNumbers own = numbers(rig, 10 * me.rank, 2), all = numbers(rig, 0, 2 * ranks),
                low = numbers(rig, 0, 2), told = numbers(rig, 0, 2);
  ncclAllGather(own.data(), all.data(), 2, ncclInt32, rig.comm, rig.native());
  ncclAllReduce(own.data(), low.data(), 2, ncclInt32, ncclMin, rig.comm, rig.native());
  ncclBroadcast(own.data(), told.data(), 2, ncclInt32, me.size - 1, rig.comm, rig.native());
  for (size_t rank = 0; rank < ranks; ++rank) {
    expect_that(all.get()[2 * rank + 1] == 10 * static_cast<int32_t>(rank) + 1, "all is gathered");
  }
  expect_that(low.get() == std::vector<int32_t>({0, 1}), "the least is found");
  expect_that(told.get() == count_from(10 * (me.size - 1), 2), "the root's numbers came");
}

void replayed(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  const int peer = 1 - me.rank;
  DeviceNumbers out = numbers(rig, 0, 4), in = numbers(rig, 0, 4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cudaStreamBeginCapture(rig.native(), cudaStreamCaptureModeThreadLocal);
  ncclGroupStart();
  send(rig, out, 4, peer);
  receive(rig, in, 4, peer);
  expect_that(ncclGroupEnd() == ncclSuccess, "a group is captured");
  cudaStreamEndCapture(rig.native(), &graph);
  expect_that(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess, "the graph is made");
  for (int32_t round = 1; round < 4; ++round) {
    out.set(count_from(100 * round + me.rank, 4));
    cudaGraphLaunch(replay, rig.native());
    expect_that(in.get() == count_from(100 * round + peer, 4), "new numbers come by the replay");
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

void mismatched_count(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  DeviceNumbers some = numbers(rig, 0, 4);
  if (me.rank == 1) {
    send(rig, some, 3, 0);
    rig.runs_dry_within(5000);
  } else {
    receive(rig, some, 4, 1);
    expect_that(!rig.runs_dry_within(300), "the receive does not end");
    expect_that(rig.async_error() == ncclInvalidUsage, "it is an error");
    const std::string text = ncclGetLastError(rig.comm);
    expect_that(text.find("rank 1 sent 3 int32") != text.npos &&
                    text.find("rank 0 receives 4 int32") != text.npos,
                "both sides are named: " + text);
  }
  me.meet("end");
  rig.abort();
}

void one_sided_pair(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  DeviceNumbers some = numbers(rig, 0, 4);
  if (me.rank == 0) {
    receive(rig, some, 4, 1);
    expect_that(!rig.runs_dry_within(300), "the receive does not end");
    const std::string text = colibri_sim::nccl_pending(rig.comm);
    expect_that(text.find("rank 0 of 2") != text.npos &&
                    text.find("receive of 4 int32 from rank 1") != text.npos,
                "both ranks are named: " + text);
  }
  me.meet("end");
  rig.abort();
}

// Two groups in the same order on both ranks end; in opposite orders none does.
void orders(Rank& me, bool are_opposite) {
  NcclRig rig = me.rig(me.rank);
  const int peer = 1 - me.rank;
  DeviceNumbers out = numbers(rig, me.rank, 1), in = numbers(rig, 7, 1);
  const bool sends_first = are_opposite || me.rank == 0;
  if (sends_first) {
    send(rig, out, 1, peer);
    receive(rig, in, 1, peer);
  } else {
    receive(rig, in, 1, peer);
    send(rig, out, 1, peer);
  }
  expect_that(rig.runs_dry_within(are_opposite ? 300 : 5000) == !are_opposite,
              are_opposite ? "opposite orders wait for ever" : "equal orders end");
  me.meet("end");
  rig.abort();
}

void duplicate_device(Rank& me) {
  std::string text;
  try {
    me.rig(0);
  } catch (const std::exception& error) {
    text = error.what();
  }
  expect_that(text.find("Duplicate GPU detected : rank 0 and rank 1") != text.npos,
              "two ranks on one GPU are refused: " + text);
}

void planted_error(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  const int peer = 1 - me.rank;
  DeviceNumbers out = numbers(rig, 0, 1), in = numbers(rig, 0, 1);
  if (me.rank == 0) {
    send(rig, out, 1, peer);
  } else {
    receive(rig, in, 1, peer);
  }
  expect_that(!rig.runs_dry_within(300), "nothing ends");
  expect_that(rig.async_error() == (me.rank == 1 ? ncclSystemError : ncclSuccess),
              "the rank of the fault knows, the other does not");
  me.meet("end");
  rig.abort();
}

// Rank 1 is killed at its first operation; rank 0's ends by abort alone.
void killed_rank(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  DeviceNumbers some = numbers(rig, 0, 50000);
  if (me.rank == 1) send(rig, some, 50000, 0);
  if (me.rank == 0) receive(rig, some, 50000, 1);
  expect_that(!rig.runs_dry_within(500), "nothing ends");
  rig.abort();
  expect_that(rig.runs_dry_within(2000), "an abort frees the stream");
}

void shrunk(Rank& me) {
  NcclRig rig = me.rig(me.rank);
  int gone = me.size - 1;
  if (me.rank != gone) {
    ncclComm_t smaller = nullptr;
    expect_that(
        ncclCommShrink(rig.comm, &gone, 1, &smaller, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess,
        "the others go on");
    std::swap(rig.comm, smaller);
    const int own = me.rank;
    DeviceNumbers out = numbers(rig, own, 1), in = numbers(rig, 7, 1);
    ncclGroupStart();
    send(rig, out, 1, 1 - own);
    receive(rig, in, 1, 1 - own);
    ncclGroupEnd();
    expect_that(in.get() == std::vector<int32_t>({1 - own}), "they exchange");
    ncclCommAbort(smaller);
  }
  me.meet("end");
}

void run_scenario(const std::string& name, Rank& me) {
  if (name == "Exchange") return exchange(me, true);
  if (name == "NonblockingExchange") return exchange(me, false);
  if (name == "Collectives") return collectives(me);
  if (name == "Replayed") return replayed(me);
  if (name == "MismatchedCount") return mismatched_count(me);
  if (name == "OneSidedPair") return one_sided_pair(me);
  if (name == "EqualOrders") return orders(me, false);
  if (name == "OppositeOrders") return orders(me, true);
  if (name == "DuplicateDevice") return duplicate_device(me);
  if (name == "PlantedError") return planted_error(me);
  if (name == "KilledRank") return killed_rank(me);
  if (name == "Shrunk") return shrunk(me);
  throw std::runtime_error("no scenario " + name);
}

void run_in_rank(const std::string& name, MpiTransport& mpi) {
  const ncclUniqueId own = mpi.rank() == 0 ? new_nccl_id() : ncclUniqueId{};
  const auto bytes = broadcast(mpi, std::as_bytes(std::span(&own, 1)), Deadline::after_ms(20000),
                               "the id of NCCL");
  Rank me{mpi, mpi.rank(), mpi.size(), {}};
  std::memcpy(&me.id, bytes.data(), sizeof me.id);
  run_scenario(name, me);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  return rank_main(argc, argv, [](const std::string&) {
    return RankSuite{.program = "simulated_nccl_suite",
                     .run = [](const std::string& name, MpiTransport& mpi, const std::string&) {
                       run_in_rank(name, mpi);
                     }};
  });
}
