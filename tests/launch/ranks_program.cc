// A program as launch/main.cc is one, for ranks_test.cc: with --ranks N it is the launcher, started
// by mpirun it is a rank that does what its mode says. Each process appends its pid to the file
// named by RANKS_TEST_PIDS.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "base/error.h"
#include "launch/rank_link.h"
#include "launch/rank_signals.h"
#include "launch/ranks.h"
#include "transport/collectives.h"
#include "transport/mpi_transport.h"

namespace colibri {
namespace {

struct Rank {
  MpiTransport& transport;
  int argc;
  char** argv;

  int id() const { return transport.rank(); }
};

void note_pid() {
  if (const char* file = std::getenv("RANKS_TEST_PIDS")) {
    std::ofstream(file, std::ios::app) << getpid() << std::endl;
  }
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void wait_for_last_rank(Rank& rank) {
  auto word = std::make_shared<int>(0);
  rank.transport.keep(word);
  const RecvOp recv{rank.transport.size() - 1, Channel::kResults, word.get(), sizeof(int)};
  const Pending pending = rank.transport.post({{}, {&recv, 1}}, nullptr);
  rank.transport.wait({&pending, 1}, Deadline::after_ms(1500), "results of layer 0");
}

// Workers: until the coordinator leaves.
int wait_for_command(Rank& rank) {
  auto word = std::make_shared<int>(0);
  rank.transport.keep(word);
  const RecvOp recv{0, Channel::kControl, word.get(), sizeof(int)};
  const Pending pending = rank.transport.post({{}, {&recv, 1}}, nullptr);
  rank.transport.wait({&pending, 1}, Deadline::never(), "a command");
  return 0;
}

void stop_workers(Rank& rank) {
  for (int peer = 1; peer < rank.transport.size(); ++peer) {
    const int word = 0;
    const SendOp send{peer, Channel::kControl, &word, sizeof word};
    const Pending pending = rank.transport.post({{&send, 1}, {}}, nullptr);
    rank.transport.wait({&pending, 1}, Deadline::after_ms(1000), "stop");
  }
}

int meet(Rank& rank) {
  barrier(rank.transport, Deadline::after_ms(20000), "meeting");
  if (rank.id() == 0) std::printf("%d ranks met\n", rank.transport.size());
  return 0;
}

int fail_together(Rank& rank) {
  std::optional<ErrorInfo> mine;
  if (rank.id() == 1) mine = ErrorInfo{ErrorKind::kInput, "rank 1 does not like its input"};
  agree(rank.transport, mine, Deadline::after_ms(20000), "start");
  return 0;
}

int lose_last(Rank& rank, int signal_number) {
  if (rank.id() == rank.transport.size() - 1) raise(signal_number);
  if (rank.id() != 0) return wait_for_command(rank);
  wait_for_last_rank(rank);
  return 0;
}

int crash_first(Rank& rank) {
  if (rank.id() == 0) raise(SIGKILL);
  return wait_for_command(rank);
}

int drain(Rank& rank) {
  if (rank.id() != 0) return wait_for_command(rank);
  std::printf("ready\n");
  std::fflush(stdout);
  while (!drain_requested()) sleep_ms(5);
  stop_workers(rank);
  std::printf("drained\n");
  return 0;
}

int be_stubborn(Rank& rank) {
  if (rank.id() == 0) {
    std::printf("ready\n");
    std::fflush(stdout);
  }
  for (;;) sleep_ms(1000);
}

int print_arguments(Rank& rank) {
  for (int i = 1; i < rank.argc && rank.id() == 0; ++i) std::printf("[%s]", rank.argv[i]);
  return 0;
}

int copy_input(Rank& rank) {
  if (rank.id() != 0) return std::getchar() == EOF ? 0 : 70;
  for (int c = std::getchar(); c != EOF; c = std::getchar()) std::putchar(c);
  return 0;
}

int print_much(Rank& rank) {
  if (rank.id() != 0) return 0;
  for (int i = 0; i < 200000; ++i) std::printf("line %d\n", i);
  std::fprintf(stderr, "rank 0 on stderr\n");
  return 0;
}

int run_mode(const std::string& mode, Rank& rank) {
  const std::map<std::string, std::function<int(Rank&)>> modes = {
      {"meet", meet},
      {"fail", fail_together},
      {"kill-last", [](Rank& r) { return lose_last(r, SIGKILL); }},
      {"stop-last", [](Rank& r) { return lose_last(r, SIGSTOP); }},
      {"crash-first", crash_first},
      {"drain", drain},
      {"stubborn", be_stubborn},
      {"arguments", print_arguments},
      {"input", copy_input},
      {"much", print_much}};
  return modes.at(mode)(rank);
}

int run_rank(int argc, char** argv, RankLink& link) {
  MpiOptions options;
  options.may_spin = false;
  const auto transport = make_mpi_transport(options);
  Rank rank{*transport, argc, argv};
  int code = 0;
  try {
    code = run_mode(argv[1], rank);
  } catch (const Error& error) {
    if (transport->rank() == 0) std::fprintf(stderr, "colibri: %s\n", error.what());
    code = exit_code(error.kind());
  }
  std::fflush(nullptr);
  link.write_status(code);
  transport->finalize(code);
  if (transport->lost()) _exit(code);
  return code;
}

int run(int argc, char** argv) {
  RankLink link = RankLink::join(argc, argv);
  note_pid();
  if (!link.is_joined() && argc > 3 && std::strcmp(argv[argc - 2], "--ranks") == 0) {
    return run_under_mpirun(argc, argv, std::atoi(argv[argc - 1]));
  }
  return run_rank(argc, argv, link);
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  try {
    return colibri::run(argc, argv);
  } catch (const colibri::Error& error) {
    std::fprintf(stderr, "colibri: %s\n", error.what());
    return colibri::exit_code(error.kind());
  }
}
