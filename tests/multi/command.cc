#include "tests/multi/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace colibri {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string temporary_path(const char* kind) {
  std::string path =
      (std::filesystem::temp_directory_path() / (std::string("colibri-") + kind + "-XXXXXX"))
          .string();
  ::close(::mkstemp(path.data()));
  return path;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void redirect(int descriptor, const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_TRUNC);
  ::dup2(file, descriptor);
  ::close(file);
}

// In the child: never returns.
[[noreturn]] void execute(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

bool has_variable(const std::filesystem::path& process, const std::string& variable) {
  std::ifstream file(process / "environ", std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry == variable) return true;
  }
  return false;
}

}  // namespace

Command::Command(std::vector<std::string> arguments, const std::vector<std::string>& environment)
    : start_s_(now_s()), out_path_(temporary_path("out")), err_path_(temporary_path("err")) {
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  redirect(1, out_path_);
  redirect(2, err_path_);
  execute(arguments, environment);
}

Command::~Command() {
  if (!reaped_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(out_path_);
  std::filesystem::remove(err_path_);
}

void Command::signal(int number) const { ::kill(pid_, number); }

std::string Command::out_so_far() const { return contents(out_path_); }
std::string Command::err_so_far() const { return contents(err_path_); }

CommandResult Command::wait(double limit_s) {
  CommandResult result;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && now_s() - start_s_ < limit_s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  result.seconds = now_s() - start_s_;
  reaped_ = ended == pid_;
  if (reaped_) result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = contents(out_path_);
  result.err = contents(err_path_);
  return result;
}

bool wait_until(const std::function<bool()>& condition, double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

CommandResult run_command(const std::vector<std::string>& arguments, double limit_s,
                          const std::vector<std::string>& environment) {
  return Command(arguments, environment).wait(limit_s);
}

std::vector<pid_t> processes_with(const std::string& marker) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    const pid_t pid = static_cast<pid_t>(std::atol(name.c_str()));
    if (pid != ::getpid() && contents(entry.path() / "cmdline").find(marker) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

pid_t process_of_rank(const std::string& marker, int rank) {
  for (const pid_t pid : processes_with(marker)) {
    if (has_variable("/proc/" + std::to_string(pid),
                     "OMPI_COMM_WORLD_RANK=" + std::to_string(rank))) {
      return pid;
    }
  }
  return -1;
}

}  // namespace colibri
