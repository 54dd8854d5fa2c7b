#include "launch/local_ranks.h"

#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "transport/local_transport.h"

namespace colibri {
namespace {

RankContext context_of(const CommonOptions& options, int rank, int size, Transport* transport) {
  RankContext context;
  context.rank = rank;
  context.size = size;
  context.local_rank = rank;
  context.num_local_ranks = size;
  context.transport = transport;
  context.log = make_logger(rank, options.log_level);
  return context;
}

}  // namespace

int run_local_ranks(const CommonOptions& options, int num_ranks,
                    const std::function<int(RankContext&)>& body) {
  if (num_ranks <= 1 && !options.self_exchange) {
    RankContext alone = context_of(options, 0, 1, nullptr);
    return body(alone);
  }
  LocalFabric fabric(num_ranks, num_ranks <= static_cast<int>(allowed_cpus().size()));
  std::vector<int> results(static_cast<size_t>(num_ranks), exit_code(ErrorKind::kInternal));
  std::exception_ptr root_error;
  const auto run_one = [&](int rank) {
    const auto transport = fabric.endpoint(rank);
    RankContext context = context_of(options, rank, num_ranks, transport.get());
    try {
      results[static_cast<size_t>(rank)] = body(context);
    } catch (...) {
      if (rank == 0) {
        root_error = std::current_exception();
      } else {
        report_exception(rank);
      }
    }
  };
  std::vector<std::thread> others;
  std::optional<Error> no_thread;
  try {
    for (int rank = 1; rank < num_ranks; ++rank) others.emplace_back(run_one, rank);
  } catch (const std::system_error& error) {
    const int first = static_cast<int>(others.size()) + 1;
    no_thread.emplace(ErrorKind::kEnvironment, "cannot start a thread for rank " +
                                                   std::to_string(first) + ": " + error.what());
    for (int rank = first; rank < num_ranks; ++rank) fabric.kill(rank);  // so that no rank waits
  }
  if (no_thread) {
    fabric.kill(0);
  } else {
    run_one(0);
  }
  for (std::thread& other : others) other.join();
  if (no_thread) throw Error(*no_thread);
  if (root_error) std::rethrow_exception(root_error);
  return results.front();
}

}  // namespace colibri
