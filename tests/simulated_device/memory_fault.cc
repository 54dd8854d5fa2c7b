// The handler of SIGSEGV: who touched which memory that was not open to him.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "block_runner.h"
#include "memory.h"

namespace colibri_sim {
namespace {

struct sigaction previous;

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) std::abort();
}

void on_fault(int number, siginfo_t* info, void*) {
  char where[200], who[300], line[600];
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool in_kernel = describe_running_thread(who, sizeof who);
  const bool ours = describe_address(address, where, sizeof where);
  if (!in_kernel && !ours) {
    sigaction(number, &previous, nullptr);  // happens again, to whoever cared before
    return;
  }
  if (!in_kernel) std::snprintf(who, sizeof who, "the host outside a kernel");
  if (!ours) std::snprintf(where, sizeof where, "%p, no memory of CUDA", info->si_addr);
  std::snprintf(line, sizeof line, "simulated device: %s touched %s\n", who, where);
  say(line);
  signal(SIGABRT, SIG_DFL);
  std::abort();
}

// A fibre that runs out of its stack faults too: the handler needs one of its own.
void install_signal_stack() {
  thread_local bool done = false;
  if (done) return;
  done = true;
  constexpr size_t kBytes = 64 * 1024;
  stack_t stack = {};
  stack.ss_sp = std::malloc(kBytes);  // as long as the process
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

}  // namespace

void install_fault_handler() {
  install_signal_stack();
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace colibri_sim
