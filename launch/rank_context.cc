#include "launch/rank_context.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>

#include "base/error.h"
#include "base/thread_pool.h"
#include "launch/device_choice.h"
#include "launch/local_ranks.h"
#include "launch/rank_signals.h"
#include "transport/collectives.h"
#include "transport/mpi_transport.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

std::optional<ErrorInfo> outcome_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return ErrorInfo{error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return ErrorInfo{ErrorKind::kEnvironment, "out of memory"};
  } catch (const std::exception& error) {
    return ErrorInfo{ErrorKind::kInternal, std::string("a bug of ours: ") + error.what()};
  }
}

// A machine that hwloc cannot read is shared by the numbers of its CPUs.
std::vector<MachineCore> cores_to_share(int num_local_ranks) {
  if (num_local_ranks <= 1) return {};
  try {
    return probe_machine().cores;
  } catch (const Error&) {
    return {};
  }
}

// One process of an MPI job. After a loss MPI is not ended: the caller leaves by _exit.
int run_mpi_rank(const CommonOptions& options, const RankInfo& who,
                 const std::function<int(RankContext&)>& body,
                 const std::function<void(int)>& on_code) {
  if (who.rank == 0) {
    install_drain_signals();
  } else {
    ignore_drain_signals();
  }
  RankContext context;
  context.log = make_logger(who.rank, options.log_level);
  const auto transport = make_mpi_transport(
      {.start_timeout_ms = int64_t{options.start_timeout_s} * 1000,
       .may_spin = who.num_local_ranks <= static_cast<int>(allowed_cpus().size())});
  context.rank = who.rank;
  context.size = who.size;
  context.local_rank = who.local_rank;
  context.num_local_ranks = who.num_local_ranks;
  context.transport = transport.get();
  int code = 0;
  try {
    code = body(context);
  } catch (...) {
    code = report_exception(who.rank);
  }
  on_code(code);
  transport->finalize(code);
  return code;
}

}  // namespace

void agreed(RankContext& context, const std::string& what, int64_t timeout_ms,
            const std::function<void()>& work) {
  const std::optional<ErrorInfo> mine = outcome_of(work);
  if (mine && context.transport == nullptr) throw AgreedError(mine->kind, mine->message);
  if (context.transport == nullptr) return;
  try {
    agree(*context.transport, mine, Deadline::after_ms(timeout_ms), what);
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
}

int report_exception(int rank) {
  const auto print = [rank](const char* before, const char* text) {
    if (rank == 0) {
      std::fprintf(stderr, "colibri: %s%s\n", before, text);
    } else {
      std::fprintf(stderr, "colibri: rank %d: %s%s\n", rank, before, text);
    }
  };
  try {
    throw;
  } catch (const AgreedError& error) {
    if (rank == 0) print("", error.what());
    return exit_code(error.kind());
  } catch (const Error& error) {
    // A worker whose coordinator is gone has nothing to tell: the launcher says who died.
    if (rank == 0 || error.kind() != ErrorKind::kRankLost) print("", error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    print("", "out of memory");
    return exit_code(ErrorKind::kEnvironment);
  } catch (const std::exception& error) {
    print("a bug of ours: ", error.what());
    return exit_code(ErrorKind::kInternal);
  }
}

int report_exception_alike(int rank) {
  if (rank == 0) return report_exception(0);
  try {
    throw;
  } catch (const Error& error) {
    return exit_code(error.kind());
  } catch (...) {
    return exit_code(ErrorKind::kInternal);
  }
}

int run_ranks(const RunConfig& config, const std::function<int(RankContext&)>& run_body,
              const std::function<void(int)>& on_code) {
  const CommonOptions& options = config.common;
  const RankInfo who = find_rank([](const char* name) { return std::getenv(name); });
  const bool is_local = options.transport == "local" || who.is_alone();
  // Before MPI and ranks' threads start: hwloc sets a variable of the environment.
  const std::vector<MachineCore> cores =
      cores_to_share(is_local ? options.ranks : who.num_local_ranks);
  const auto body = [&](RankContext& context) {
    context.cores = cores;
    context.device = choose_device(options, context);
    return run_body(context);
  };
  try {
    if (is_local) {
      if (options.ranks > 1 && options.transport != "local") {
        fail(ErrorKind::kInternal, "--ranks ", options.ranks, " was not started");
      }
      install_drain_signals();
      return run_local_ranks(options, std::max(options.ranks, 1), body);
    }
    return run_mpi_rank(options, who, body, on_code);
  } catch (...) {
    return report_exception_alike(who.rank);
  }
}

}  // namespace colibri
