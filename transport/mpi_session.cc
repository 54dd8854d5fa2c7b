#include "transport/mpi_session.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/error.h"

namespace colibri {

Watchdog::Watchdog(std::string what, int64_t timeout_ms, int exit_code)
    : what_(std::move(what)), thread_([=, this] { run(timeout_ms, exit_code); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::run(int64_t timeout_ms, int exit_code) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::milliseconds(timeout_ms);
  if (changed_.wait_for(lock, limit, [this] { return is_done_; })) return;
  std::fprintf(stderr, "colibri: %s did not end within %lld ms; leaving\n", what_.c_str(),
               static_cast<long long>(timeout_ms));
  std::fflush(nullptr);
  _exit(exit_code);
}

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<size_t>(length)};
}

void start_mpi(int64_t timeout_ms) {
  int is_started = 0;
  MPI_Initialized(&is_started);
  check(is_started == 0, "MPI is started twice");
  const Watchdog watchdog("the start of MPI (a rank did not come)", timeout_ms,
                          exit_code(ErrorKind::kTimeout));
  int provided = 0;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) {
    fail(ErrorKind::kEnvironment, "MPI does not start: ", mpi_error_text(code));
  }
  if (provided < MPI_THREAD_FUNNELED) {
    fail(ErrorKind::kEnvironment, "this MPI gives thread level ", provided, ", want ",
         MPI_THREAD_FUNNELED, " (funneled)");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

void finalize_mpi(int64_t timeout_ms, int exit_code) {
  const Watchdog watchdog("the end of MPI (a rank did not come)", timeout_ms,
                          exit_code == 0 ? colibri::exit_code(ErrorKind::kTimeout) : exit_code);
  MPI_Finalize();
}

}  // namespace colibri
