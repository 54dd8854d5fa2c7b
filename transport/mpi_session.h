// MPI's start and end, each bounded by a watchdog: both are collective and wait for ever for a rank
// that does not come. Included by mpi_*.cc alone.
#pragma once

// The C interface alone, without the C++ bindings that some MPIs add to it.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace colibri {

// Leaves the process with `exit_code` and a line on stderr unless destroyed within `timeout_ms`.
class Watchdog {
 public:
  Watchdog(std::string what, int64_t timeout_ms, int exit_code);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run(int64_t timeout_ms, int exit_code);

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  std::thread thread_;
};

// MPI_Init_thread with errors returned. Fails with kEnvironment where MPI does not start, with
// kInternal on a second start.
void start_mpi(int64_t timeout_ms);
void finalize_mpi(int64_t timeout_ms, int exit_code);

// The text of an MPI error code.
std::string mpi_error_text(int code);

}  // namespace colibri
