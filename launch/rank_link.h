// What a rank started by `--ranks N` does for its launcher: takes over the terminal's descriptors,
// tells its exit code, dies with mpirun. Without a launcher all of it does nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace colibri {

class RankLink {
 public:
  // The first thing a rank's main does: what is printed before goes to mpirun. Restores the
  // arguments, which the launcher had to disguise from mpirun, in place. Fails with kEnvironment if
  // the launcher named by COLIBRI_RANKS_SOCKET does not answer.
  static RankLink join(int argc, char** argv);

  RankLink(RankLink&& other) noexcept;
  RankLink& operator=(RankLink&&) = delete;
  ~RankLink();

  bool is_joined() const { return fd_ >= 0; }
  // Rank 0's exit code, told before it leaves; from other ranks it does not count.
  void write_status(int exit_code);

 private:
  RankLink(int fd, int rank) : fd_(fd), rank_(rank) {}
  int fd_ = -1;
  int rank_ = 0;
};

// The messages of the link; both sides are the same program.
struct LinkMessage {
  enum class Kind : int32_t { kJoin = 1, kStatus = 2, kWelcome = 3 };
  Kind kind = Kind::kJoin;
  int32_t rank = 0;
  int32_t value = 0;  // kStatus: exit code; kWelcome: the launcher's process group
};
static_assert(sizeof(LinkMessage) == 12);

inline constexpr char kRanksSocketVariable[] = "COLIBRI_RANKS_SOCKET";

// mpirun takes ":" for the start of another program: an argument of colons alone gets one more on
// the way, and loses it in join().
std::string disguise_argument(const std::string& argument);

}  // namespace colibri
