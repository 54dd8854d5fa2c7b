// Time of one layer's exchange over NCCL: groups that send each rank its rows and bring its results
// back, beside the baseline that needs no plan: all rows broadcast to all ranks, all results
// gathered by all. One rank a GPU:
//   mpirun -n 8 --bind-to none nccl_exchange_bench [HIDDEN [TOP_K [ROUNDS]]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/cuda_device.h"
#include "transport/collectives.h"
#include "transport/mpi_transport.h"
#include "transport/nccl_comm.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

constexpr int64_t kMaxTokens = 512;

struct Sizes {
  int64_t hidden = 4096, top_k = 8;
  int num_rounds = 200;
};

// Rank 0 coordinates, the others hold the experts, evenly chosen.
class Exchange {
 public:
  Exchange(Transport& host, const Sizes& sizes, int64_t num_tokens)
      : host_(host), row_bytes_(sizes.hidden * 2), result_bytes_(sizes.hidden * 2) {
    const double workers = host.size() - 1;
    const auto choices = static_cast<double>(sizes.top_k);
    const double share = 1 - std::pow(1 - 1 / workers, choices);
    const auto tokens = static_cast<double>(num_tokens);
    num_tokens_ = num_tokens;
    num_rows_ = static_cast<int64_t>(std::ceil(tokens * share));
    num_pairs_ = static_cast<int64_t>(std::ceil(tokens * choices / workers));
  }

  size_t all_rows_bytes() const { return static_cast<size_t>(num_tokens_ * row_bytes_); }
  size_t rows_bytes() const { return static_cast<size_t>(num_rows_ * row_bytes_); }
  size_t results_bytes() const { return static_cast<size_t>(num_pairs_ * result_bytes_); }

  void by_groups(NcclComm& comm, Buffer& rows, Buffer& results, Stream& stream) const {
    if (host_.rank() != 0) {
      const DeviceRecv recv{0, rows.data(), rows_bytes()};
      comm.post({}, {&recv, 1}, stream);
      const DeviceSend send{0, results.data(), results_bytes()};
      return comm.post({&send, 1}, {}, stream);
    }
    std::vector<DeviceSend> sends;
    std::vector<DeviceRecv> recvs;
    for (int rank = 1; rank < host_.size(); ++rank) {
      sends.push_back({rank, rows.data(), rows_bytes()});
      recvs.push_back({rank, results.as<char>() + static_cast<size_t>(rank) * results_bytes(),
                       results_bytes()});
    }
    comm.post(sends, {}, stream);
    comm.post({}, recvs, stream);
  }

  void by_all(NcclComm& comm, Buffer& rows, Buffer& results, Stream& stream) const {
    comm.broadcast(rows.data(), all_rows_bytes(), 0, stream);
    const size_t own = static_cast<size_t>(host_.rank()) * results_bytes();
    comm.all_gather(results.as<char>() + own, results.data(), results_bytes(), stream);
  }

 private:
  Transport& host_;
  int64_t row_bytes_, result_bytes_;
  int64_t num_tokens_ = 0, num_rows_ = 0, num_pairs_ = 0;
};

double median_us(const std::function<void()>& round, int num_rounds) {
  std::vector<double> times;
  for (int i = 0; i < num_rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    round();
    const auto took = std::chrono::steady_clock::now() - start;
    times.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void run(Transport& host, int gpu, const Sizes& sizes) {
  const auto device = make_cuda_device(gpu);
  const auto stream = device->make_stream();
  NcclOptions options;
  options.rank = host.rank();
  options.num_ranks = host.size();
  options.id = share_nccl_id(host, Deadline::after_ms(options.start_timeout_ms));
  const auto comm = make_nccl_comm(*device, options);
  const Exchange largest(host, sizes, kMaxTokens);
  Buffer rows(*device, largest.all_rows_bytes());
  Buffer results(*device, static_cast<size_t>(host.size()) * largest.results_bytes());
  if (host.rank() == 0) {
    std::printf(
        "%d ranks, hidden size %ld, top %ld, NCCL %s, median of %d\n"
        "| tokens | groups, us | broadcast and all-gather, us |\n|---:|---:|---:|\n",
        host.size(), static_cast<long>(sizes.hidden), static_cast<long>(sizes.top_k),
        nccl_version().c_str(), sizes.num_rounds);
  }
  for (int64_t tokens = 1; tokens <= kMaxTokens; tokens *= 8) {
    const Exchange exchange(host, sizes, tokens);
    const auto time = [&](auto post) {
      return median_us(
          [&] {
            (exchange.*post)(*comm, rows, results, *stream);
            comm->wait(*stream, Deadline::after_ms(60000), "an exchange");
          },
          sizes.num_rounds);
    };
    const double groups = time(&Exchange::by_groups), all = time(&Exchange::by_all);
    if (host.rank() == 0)
      std::printf("| %ld | %.1f | %.1f |\n", static_cast<long>(tokens), groups, all);
  }
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  using namespace colibri;
  try {
    const RankInfo who = find_rank([](const char* name) { return std::getenv(name); });
    Sizes sizes;
    if (argc > 1) sizes.hidden = std::atol(argv[1]);
    if (argc > 2) sizes.top_k = std::atol(argv[2]);
    if (argc > 3) sizes.num_rounds = std::atoi(argv[3]);
    if (who.size < 2 || sizes.hidden < 1 || sizes.top_k < 1 || sizes.num_rounds < 1) {
      std::fprintf(stderr, "want at least two ranks under mpirun, and positive sizes\n");
      return 2;
    }
    const auto host = make_mpi_transport({});
    run(*host, who.local_rank, sizes);
    host->finalize(0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
