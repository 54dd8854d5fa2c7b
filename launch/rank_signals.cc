#include "launch/rank_signals.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace colibri {
namespace {

// A signal handler reaches nothing but what is static.
std::atomic<int64_t> drain_at_ms{0};  // 0: not asked
static_assert(std::atomic<int64_t>::is_always_lock_free);

// One Ctrl-C may arrive twice, from the terminal and from the launcher.
constexpr int64_t kSameRequestMs = 300;

int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000 + 1;
}

void request_drain(int signal_number) {
  int64_t first = 0;
  if (drain_at_ms.compare_exchange_strong(first, now_ms())) return;
  if (signal_number == SIGUSR1 || now_ms() - first < kSameRequestMs) return;
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal_number, &action, nullptr);
  raise(signal_number);
}

std::atomic<int> interrupts{0};
std::atomic<int64_t> interrupted_at_ms{0};

void count_interrupt(int) {
  const int64_t now = now_ms();
  const int64_t last = interrupted_at_ms.exchange(now);
  if (last == 0 || now - last >= kSameRequestMs) ++interrupts;
}

void set_handler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal_number : {SIGTERM, SIGINT, SIGUSR1}) {
    sigaction(signal_number, &action, nullptr);
  }
}

}  // namespace

void install_drain_signals() { set_handler(request_drain); }

void ignore_drain_signals() { set_handler(SIG_IGN); }

void default_signals() { set_handler(SIG_DFL); }

void count_interrupts() {
  struct sigaction action = {};
  action.sa_handler = count_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

int num_interrupts() { return interrupts.load(); }

bool drain_requested() { return drain_at_ms.load() != 0; }

}  // namespace colibri
