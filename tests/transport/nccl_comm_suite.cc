// One rank of the communicator's scenarios on simulated devices: nccl_comm_suite NAME DIR. Every
// rank writes DIR/rank_<r>: "ok", or what went wrong.
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "base/cuda_device.h"
#include "base/error.h"
#include "tests/transport/nccl_rig.h"
#include "tests/transport/rank_main.h"
#include "transport/collectives.h"
#include "transport/nccl_comm.h"

namespace colibri {
namespace {

struct Rank {
  MpiTransport& mpi;
  std::string late = "";  // whom this rank says it waits for

  int own() const { return mpi.rank(); }
  void meet(const std::string& what) { barrier(mpi, Deadline::after_ms(20000), what); }
  NcclOptions options() {
    NcclOptions options;
    options.rank = mpi.rank();
    options.num_ranks = mpi.size();
    options.may_spin = false;
    options.id = share_nccl_id(mpi, Deadline::after_ms(20000));
    options.poll = [this] {
      mpi.progress();
      for (const int dead : mpi.dead_ranks()) {
        fail(ErrorKind::kRankLost, "rank ", dead, " is dead");
      }
    };
    options.silent = [this] { return late; };
    return options;
  }
};

std::string text_of_error(ErrorKind kind, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    expect_that(error.kind() == kind, std::string("an error of kind ") + to_string(kind) +
                                          ", not " + to_string(error.kind()) + ": " + error.what());
    return error.what();
  }
  throw std::runtime_error("no error");
}

void expect_in(const std::string& part, const std::string& text) {
  expect_that(text.find(part) != text.npos, "\"" + part + "\" stands in: " + text);
}

// A communicator and one pair of buffers with every rank.
struct Pairs {
  explicit Pairs(Rank& me, const NcclOptions& options)
      : device(make_cuda_device(me.own())),
        stream(device->make_stream()),
        comm(make_nccl_comm(*device, options)) {
    for (int peer = 0; peer < comm->size(); ++peer) {
      out.push_back(
          std::make_unique<DeviceNumbers>(*device, *stream, count_from(100 * me.own() + peer, 3)));
      in.push_back(std::make_unique<DeviceNumbers>(*device, *stream, std::vector<int32_t>(3, -1)));
    }
  }
  void post() {
    std::vector<DeviceSend> sends;
    std::vector<DeviceRecv> recvs;
    for (int peer = 0; peer < comm->size(); ++peer) {
      sends.push_back({peer, out[static_cast<size_t>(peer)]->data(), 12});
      recvs.push_back({peer, in[static_cast<size_t>(peer)]->data(), 12});
    }
    comm->post(sends, recvs, *stream);
  }
  void wait(int64_t ms) { comm->wait(*stream, Deadline::after_ms(ms), "step 7"); }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<NcclComm> comm;
  std::vector<std::unique_ptr<DeviceNumbers>> out, in;
};

void exchange(Rank& me, bool blocks = false) {
  NcclOptions options = me.options();
  options.blocks = blocks;
  Pairs pairs(me, options);
  for (int i = 0; i < 3; ++i) pairs.post();
  pairs.wait(20000);
  for (int peer = 0; peer < pairs.comm->size(); ++peer) {
    expect_that(pairs.in[static_cast<size_t>(peer)]->get() == count_from(100 * peer + me.own(), 3),
                "the numbers of rank " + std::to_string(peer) + " came");
  }
}

void baselines(Rank& me) {
  Pairs pairs(me, me.options());
  DeviceNumbers all(*pairs.device, *pairs.stream,
                    std::vector<int32_t>(static_cast<size_t>(pairs.comm->size())));
  pairs.comm->all_gather(pairs.out[0]->data(), all.data(), 4, *pairs.stream);
  pairs.comm->broadcast(pairs.out[0]->data(), 12, 1, *pairs.stream);
  pairs.wait(20000);
  expect_that(all.get().back() == 100 * (pairs.comm->size() - 1), "all is gathered");
  expect_that(pairs.out[0]->get() == count_from(100, 3), "rank 1's numbers came");
}

// Rank 1 posts nothing.
void silent_rank(Rank& me) {
  Pairs pairs(me, me.options());
  if (me.own() == 0) {
    me.late = "rank 1 (step 7, layer 3)";
    pairs.post();
    const std::string text = text_of_error(ErrorKind::kTimeout, [&] { pairs.wait(300); });
    expect_in("step 7 did not end within", text);
    expect_in("waited for rank 1 (step 7, layer 3)", text);
    expect_that(pairs.comm->is_aborted(), "the communicator is aborted");
    pairs.stream->synchronize();
  }
  me.meet("end");
}

// Rank 1 is late, but not too late (the fault that the test plants).
void slow_rank(Rank& me) { exchange(me); }

// All but `dead` have come here: who leaves early would be missed too.
void meet_survivors(Rank& me, int dead) {
  const std::byte out{1};
  std::vector<std::byte> in(static_cast<size_t>(me.mpi.size()));
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (int peer = 0; peer < me.mpi.size(); ++peer) {
    if (peer == dead || peer == me.own()) continue;
    sends.push_back({peer, Channel::kStartup, &out, 1});
    recvs.push_back({peer, Channel::kStartup, &in[static_cast<size_t>(peer)], 1});
  }
  const Pending pending = me.mpi.post({sends, recvs}, nullptr);
  me.mpi.wait({&pending, 1}, Deadline::after_ms(20000), "survivors");
}

void dead_rank(Rank& me) {
  Pairs pairs(me, me.options());
  me.meet("all are connected");
  if (me.own() == 1) raise(SIGKILL);
  pairs.post();
  expect_in("rank 1 is dead", text_of_error(ErrorKind::kRankLost, [&] { pairs.wait(20000); }));
  expect_that(pairs.comm->is_aborted(), "the communicator is aborted");
  pairs.stream->synchronize();
  meet_survivors(me, 1);
}

void planted_error(Rank& me) {
  Pairs pairs(me, me.options());
  me.late = "rank " + std::to_string(1 - me.own());
  if (me.own() == 1) {
    const std::string text = text_of_error(ErrorKind::kRankLost, [&] {
      pairs.post();
      pairs.wait(20000);
    });
    expect_in("planted error", text);
    expect_in("waited for rank 0", text);
  } else {
    pairs.post();
    text_of_error(ErrorKind::kTimeout, [&] { pairs.wait(300); });
  }
  me.meet("end");
}

void start_without_a_rank(Rank& me) {
  NcclOptions options = me.options();
  if (me.own() == 1) return me.meet("end");
  options.start_timeout_ms = 300;
  me.late = "rank 1";
  const auto device = make_cuda_device(0);
  const std::string text =
      text_of_error(ErrorKind::kTimeout, [&] { make_nccl_comm(*device, options); });
  expect_in("the start of 2 ranks did not end", text);
  expect_in("waited for rank 1", text);
  me.meet("end");
}

// The watchdog ends rank 0, which has reported before.
void blocking_start_without_a_rank(Rank& me, const std::string& report) {
  NcclOptions options = me.options();
  if (me.own() == 1) return;
  std::ofstream(report) << "ok";
  options.blocks = true;
  options.start_timeout_ms = 300;
  make_nccl_comm(*make_cuda_device(0), options);
  throw std::runtime_error("it started");
}

void two_ranks_on_one_gpu(Rank& me) {
  const NcclOptions options = me.options();
  const auto device = make_cuda_device(0);
  expect_in("Duplicate GPU detected",
            text_of_error(ErrorKind::kEnvironment, [&] { make_nccl_comm(*device, options); }));
}

void run_scenario(const std::string& name, Rank& me, const std::string& report) {
  if (name == "Exchange") return exchange(me);
  if (name == "BlockingExchange") return exchange(me, true);
  if (name == "BlockingStartWithoutARank") return blocking_start_without_a_rank(me, report);
  if (name == "Baselines") return baselines(me);
  if (name == "SilentRank") return silent_rank(me);
  if (name == "SlowRank") return slow_rank(me);
  if (name == "DeadRank") return dead_rank(me);
  if (name == "PlantedError") return planted_error(me);
  if (name == "StartWithoutARank") return start_without_a_rank(me);
  if (name == "TwoRanksOnOneGpu") return two_ranks_on_one_gpu(me);
  throw std::runtime_error("no scenario " + name);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  return rank_main(argc, argv, [](const std::string&) {
    return RankSuite{
        .program = "nccl_comm_suite",
        .run =
            [](const std::string& name, MpiTransport& mpi, const std::string& report) {
              Rank me{mpi};
              run_scenario(name, me, report);
            },
        // A rank that leaves by its watchdog does not come to MPI's end.
        .is_left_alone =
            [](const std::string& name) { return name == "BlockingStartWithoutARank"; }};
  });
}
