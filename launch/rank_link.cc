#include "launch/rank_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "launch/rank_signals.h"
#include "transport/rendezvous.h"

namespace colibri {
namespace {

constexpr int kAnswerTimeoutMs = 10000;
constexpr size_t kNumStreams = 3;  // stdin, stdout, stderr

[[noreturn]] void fail_link(const char* step) {
  fail(ErrorKind::kEnvironment, "rank cannot ", step,
       " the launcher that started it: ", std::strerror(errno));
}

int connect_to(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) {
    fail(ErrorKind::kInput, kRanksSocketVariable, " is ", name.size(), " characters long");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: begins with a zero
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    fail_link("reach");
  }
  return fd;
}

// The welcome brings the launcher's three streams.
LinkMessage receive_welcome(int fd, std::array<int, kNumStreams>& streams) {
  pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
  errno = ETIMEDOUT;
  if (poll(&waiting, 1, kAnswerTimeoutMs) != 1) fail_link("hear");
  LinkMessage welcome;
  iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kNumStreams)> control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != sizeof welcome) fail_link("hear");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) fail_link("get the streams of");
  std::memcpy(streams.data(), CMSG_DATA(header), sizeof streams);
  return welcome;
}

void take_over(const LinkMessage& welcome, const std::array<int, kNumStreams>& streams, int rank) {
  for (size_t i = 0; i < kNumStreams; ++i) {
    // Only rank 0 reads; the others keep mpirun's empty input.
    if (i != 0 || rank == 0) dup2(streams[i], static_cast<int>(i));
    close(streams[i]);
  }
  // A terminal lets only its foreground group read. Elsewhere the call fails, and nothing needs it.
  if (rank == 0 && isatty(STDIN_FILENO) != 0) setpgid(0, welcome.value);
}

void restore_arguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.size() >= 2 && argument.find_first_not_of(':') == std::string::npos) ++argv[i];
  }
}

}  // namespace

std::string disguise_argument(const std::string& argument) {
  const bool is_colons = !argument.empty() && argument.find_first_not_of(':') == std::string::npos;
  return is_colons ? argument + ":" : argument;
}

RankLink RankLink::join(int argc, char** argv) {
  const char* name = std::getenv(kRanksSocketVariable);
  if (name == nullptr) return {-1, 0};
  const int rank = find_rank([](const char* variable) { return std::getenv(variable); }).rank;
  // Until the program decides: a TERM that mpirun sends to all must not end a rank that has weights
  // half loaded without a word.
  rank == 0 ? install_drain_signals() : ignore_drain_signals();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  restore_arguments(argc, argv);
  RankLink link(connect_to(name), rank);
  const LinkMessage hello{LinkMessage::Kind::kJoin, rank, 0};
  if (send(link.fd_, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) fail_link("tell");
  std::array<int, kNumStreams> streams{};
  const LinkMessage welcome = receive_welcome(link.fd_, streams);
  take_over(welcome, streams, rank);
  return link;
}

RankLink::RankLink(RankLink&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), rank_(other.rank_) {}

RankLink::~RankLink() {
  if (fd_ >= 0) close(fd_);
}

void RankLink::write_status(int exit_code) {
  if (fd_ < 0) return;
  const LinkMessage status{LinkMessage::Kind::kStatus, rank_, exit_code};
  send(fd_, &status, sizeof status, MSG_NOSIGNAL);
}

}  // namespace colibri
