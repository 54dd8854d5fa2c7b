// Runs a program as a user would: arguments, a time limit, what it printed and how it ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace colibri {

struct CommandResult {
  int exit_code = -1;  // 128 + signal when a signal ended it; -1 when the limit passed
  std::string out, err;
  double seconds = 0;
};

// A started program, its stdout and stderr going to files.
class Command {
 public:
  // `environment` holds NAME=value, added to the own one.
  explicit Command(std::vector<std::string> arguments,
                   const std::vector<std::string>& environment = {});
  ~Command();  // kills what is left
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  std::string out_so_far() const;
  std::string err_so_far() const;
  // Waits; after `limit_s` kills it and returns exit code -1.
  CommandResult wait(double limit_s);

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  double start_s_ = 0;
  std::string out_path_, err_path_;
};

// Whether it came true within the limit.
bool wait_until(const std::function<bool()>& condition, double limit_s);

CommandResult run_command(const std::vector<std::string>& arguments, double limit_s,
                          const std::vector<std::string>& environment = {});

// Processes whose command line holds `marker`, this one left out.
std::vector<pid_t> processes_with(const std::string& marker);
// Of these, the one that Open MPI started as `rank`; -1 if there is none yet.
pid_t process_of_rank(const std::string& marker, int rank);

}  // namespace colibri
