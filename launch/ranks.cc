#include "launch/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "launch/process_tree.h"
#include "launch/rank_link.h"

namespace colibri {
namespace {

constexpr size_t kMaxKeptNoise = 16384;
constexpr int64_t kMpirunTermMs = 3000;  // mpirun needs 1-2 s from TERM to its end
constexpr int64_t kKillMs = 5000;

std::string find_mpirun() {
  const char* path = std::getenv("PATH");
  const std::string list = path == nullptr ? "/usr/bin:/bin" : path;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    const std::string candidate = list.substr(begin, end - begin) + "/mpirun";
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  fail(ErrorKind::kEnvironment,
       "--ranks needs mpirun, which is not on PATH; install it (Debian: apt-get install "
       "openmpi-bin) or use --transport local");
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) fail(ErrorKind::kEnvironment, "cannot read /proc/self/exe");
  return {path.data(), static_cast<size_t>(length)};
}

// This program's arguments without --ranks N, disguised for mpirun.
std::vector<std::string> rank_arguments(int argc, char** argv, int num_ranks) {
  const std::string number = std::to_string(num_ranks);
  std::vector<std::string> out;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--ranks=" + number) continue;
    if (argument == "--ranks" && i + 1 < argc && argv[i + 1] == number) {
      ++i;
      continue;
    }
    out.push_back(disguise_argument(argument));
  }
  return out;
}

std::vector<std::string> mpirun_command(int argc, char** argv, int num_ranks) {
  std::vector<std::string> command = {find_mpirun(),       "-n",        std::to_string(num_ranks),
                                      "--oversubscribe",   "--bind-to", "none",
                                      "--enable-recovery", "--quiet"};
  if (geteuid() == 0) command.push_back("--allow-run-as-root");
  command.push_back(own_program());
  for (std::string& argument : rank_arguments(argc, argv, num_ranks)) {
    command.push_back(std::move(argument));
  }
  return command;
}

// A job that one machine's launcher started, from start to end. Single-threaded; all waiting is one
// poll().
class Job {
 public:
  Job(int num_ranks, const LaunchOptions& options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void start(const std::vector<std::string>& command);
  int run_to_end();

 private:
  struct Peer {
    int fd = -1;
    int rank = -1;  // -1: has not joined yet
    pid_t pid = 0;
  };

  void open_socket();
  [[noreturn]] void exec_mpirun(const std::vector<std::string>& command, int noise_write_fd,
                                pid_t launcher);
  void wait_once();
  void accept_rank();
  void hear(Peer& peer);
  void welcome(Peer& peer);
  void end_peer(Peer& peer);
  void keep_noise();
  void take_signal();
  void drain();
  void signal_rank0(int number);
  void enforce_limits();
  void kill_ranks();
  void reap();
  int result() const;

  int num_ranks_;
  LaunchOptions options_;
  std::string socket_name_;
  int listener_ = -1, signals_ = -1, noise_ = -1;
  pid_t mpirun_ = 0;
  bool mpirun_ended_ = false;
  std::vector<Peer> peers_;
  std::string noise_text_;
  std::optional<int> status_;
  bool is_drained_ = false;
  bool has_rank0_joined_ = false;
  std::optional<Deadline> kill_ranks_at_, term_mpirun_at_, kill_all_at_;
  sigset_t old_mask_;
};

Job::Job(int num_ranks, const LaunchOptions& options) : num_ranks_(num_ranks), options_(options) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1}) sigaddset(&mask, number);
  sigprocmask(SIG_BLOCK, &mask, &old_mask_);
  signals_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  adopt_orphans();
  open_socket();
}

Job::~Job() {
  kill_descendants(kKillMs);
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) close(peer.fd);
  }
  for (const int fd : {listener_, signals_, noise_}) {
    if (fd >= 0) close(fd);
  }
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

void Job::open_socket() {
  std::random_device random;
  socket_name_ = "colibri-" + std::to_string(getpid()) + "-" + std::to_string(random());
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, socket_name_.data(), socket_name_.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socket_name_.size());
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener_, 128) != 0) {
    fail(ErrorKind::kEnvironment, "cannot open a local socket for ranks: ", std::strerror(errno));
  }
}

void Job::start(const std::vector<std::string>& command) {
  std::fprintf(stderr, "colibri: starting %d rank%s\n", num_ranks_, num_ranks_ == 1 ? "" : "s");
  std::array<int, 2> noise{};
  if (pipe2(noise.data(), O_CLOEXEC) != 0) {
    fail(ErrorKind::kEnvironment, "cannot open a pipe: ", std::strerror(errno));
  }
  noise_ = noise[0];
  fcntl(noise_, F_SETFL, O_NONBLOCK);
  const pid_t launcher = getpid();
  mpirun_ = fork();
  if (mpirun_ < 0) fail(ErrorKind::kEnvironment, "cannot fork: ", std::strerror(errno));
  if (mpirun_ == 0) exec_mpirun(command, noise[1], launcher);
  close(noise[1]);
}

// In the child. Its own process group: a terminal's INT must reach the ranks as a drain, not
// mpirun.
void Job::exec_mpirun(const std::vector<std::string>& command, int noise_write_fd, pid_t launcher) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != launcher) _exit(127);  // it died before the line above
  sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // All ranks are on this machine: nothing else is tried out at start, unless the user says so.
  setenv("OMPI_MCA_btl", "self,vader", 0);
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv(kRanksSocketVariable, socket_name_.c_str(), 1);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(noise_write_fd, STDOUT_FILENO);
  dup2(noise_write_fd, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  std::fprintf(stderr, "cannot run %s: %s\n", arguments[0], std::strerror(errno));
  _exit(127);
}

void Job::accept_rank() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  ucred who = {};
  socklen_t length = sizeof who;
  getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length);
  if (who.uid != geteuid() || peers_.size() >= 4096) {
    close(fd);  // somebody else's process: an abstract socket is open to all
    return;
  }
  peers_.push_back({fd, -1, who.pid});
}

void Job::hear(Peer& peer) {
  for (;;) {
    LinkMessage message;
    const ssize_t bytes = recv(peer.fd, &message, sizeof message, 0);
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes != sizeof message || message.rank < 0 || message.rank >= num_ranks_) {
      return end_peer(peer);
    }
    switch (message.kind) {
      case LinkMessage::Kind::kJoin:
        peer.rank = message.rank;
        welcome(peer);
        break;
      case LinkMessage::Kind::kStatus:
        if (peer.rank == 0) status_ = message.value & 0xff;
        break;
      case LinkMessage::Kind::kWelcome:
        return end_peer(peer);
    }
  }
}

void Job::welcome(Peer& peer) {
  LinkMessage message{LinkMessage::Kind::kWelcome, peer.rank, getpgrp()};
  iovec part = {.iov_base = &message, .iov_len = sizeof message};
  const std::array<int, 3> streams = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof streams)> control{};
  msghdr packet = {};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control.data();
  packet.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&packet);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof streams);
  std::memcpy(CMSG_DATA(header), streams.data(), sizeof streams);
  sendmsg(peer.fd, &packet, MSG_NOSIGNAL);
  if (peer.rank == 0) has_rank0_joined_ = true;
  // A drain that came before rank 0 could hear of it.
  if (peer.rank == 0 && is_drained_) kill(peer.pid, SIGUSR1);
}

// The connection closes when the process ends, or just before.
void Job::end_peer(Peer& peer) {
  close(peer.fd);
  peer.fd = -1;
  if (peer.rank == 0 && !kill_ranks_at_) kill_ranks_at_ = Deadline::after_ms(options_.linger_ms);
}

void Job::keep_noise() {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t bytes = read(noise_, buffer.data(), buffer.size());
    if (bytes <= 0) {
      if (bytes == 0) {
        close(noise_);
        noise_ = -1;
      }
      return;
    }
    if (noise_text_.size() < kMaxKeptNoise) {
      noise_text_.append(buffer.data(), static_cast<size_t>(bytes));
    }
  }
}

void Job::take_signal() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) {
      reap();
    } else if (info.ssi_signo == SIGINT && options_.passes_interrupts) {
      signal_rank0(SIGINT);  // from a terminal it has it already, and takes the two as one
    } else {
      drain();
    }
  }
}

void Job::drain() {
  if (is_drained_) {  // asked twice: at once
    kill_ranks_at_ = Deadline::after_ms(0);
    return;
  }
  is_drained_ = true;
  if (!kill_ranks_at_) kill_ranks_at_ = Deadline::after_ms(options_.drain_ms);
  signal_rank0(SIGUSR1);
}

void Job::signal_rank0(int number) {
  for (const Peer& peer : peers_) {
    if (peer.rank == 0 && peer.fd >= 0) kill(peer.pid, number);
  }
}

void Job::reap() {
  for (;;) {
    const pid_t pid = waitpid(-1, nullptr, WNOHANG);
    if (pid <= 0) return;
    if (pid == mpirun_) mpirun_ended_ = true;
  }
}

void Job::kill_ranks() {
  for (const Peer& peer : peers_) {
    if (peer.fd >= 0) kill(peer.pid, SIGKILL);
  }
}

// Each step only if the one before did not end the job: ranks, mpirun by TERM so that it cleans up
// after itself, everything.
void Job::enforce_limits() {
  if (kill_all_at_) {
    if (kill_all_at_->expired()) kill_descendants(kKillMs);
  } else if (term_mpirun_at_) {
    if (!term_mpirun_at_->expired()) return;
    kill(mpirun_, SIGTERM);
    kill_all_at_ = Deadline::after_ms(kMpirunTermMs);
  } else if (kill_ranks_at_ && kill_ranks_at_->expired()) {
    kill_ranks();
    term_mpirun_at_ = Deadline::after_ms(has_rank0_joined_ ? 1000 : 0);
  }
}

void Job::wait_once() {
  std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {signals_, POLLIN, 0}, {noise_, POLLIN, 0}};
  for (const Peer& peer : peers_) polls.push_back({peer.fd, POLLIN, 0});
  const bool is_ending = kill_ranks_at_.has_value();
  poll(polls.data(), polls.size(), is_ending ? 50 : 1000);
  const size_t num_peers = peers_.size();
  for (size_t i = 0; i < num_peers; ++i) {
    if (peers_[i].fd >= 0 && polls[3 + i].revents != 0) hear(peers_[i]);
  }
  if (noise_ >= 0 && polls[2].revents != 0) keep_noise();
  if (polls[0].revents != 0) accept_rank();
  take_signal();
}

int Job::run_to_end() {
  while (!mpirun_ended_) {
    wait_once();
    enforce_limits();
    reap();
  }
  for (Peer& peer : peers_) {
    if (peer.fd >= 0) hear(peer);  // a status may lie unread
  }
  if (noise_ >= 0) keep_noise();
  kill_descendants(kKillMs);
  return result();
}

int Job::result() const {
  if (status_) return *status_;
  std::fprintf(stderr, "colibri: the run ended before rank 0 had a result%s\n",
               is_drained_ ? ": it was told to stop" : "");
  if (!is_drained_ && !noise_text_.empty()) {
    std::fprintf(stderr, "colibri: mpirun says:\n%s", noise_text_.c_str());
  }
  return exit_code(ErrorKind::kRankLost);
}

}  // namespace

int run_under_mpirun(int argc, char** argv, int num_ranks, const LaunchOptions& options) {
  check(num_ranks > 0, "launch of ", num_ranks, " ranks");
  const std::vector<std::string> command = mpirun_command(argc, argv, num_ranks);
  Job job(num_ranks, options);
  job.start(command);
  return job.run_to_end();
}

}  // namespace colibri
