#include "launch/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "base/deadline.h"

namespace colibri {
namespace {

// The parent of a process, 0 for a zombie or one that has gone.
pid_t living_parent(pid_t pid) {
  char path[64], line[512];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  const size_t length = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  line[length] = '\0';
  const char* name_end = std::strrchr(line, ')');  // the name may hold anything
  char state = 'Z';
  int parent = 0;
  if (name_end == nullptr || std::sscanf(name_end + 1, " %c %d", &state, &parent) != 2) return 0;
  return state == 'Z' || state == 'X' ? 0 : parent;
}

std::map<pid_t, pid_t> living_parents() {
  std::map<pid_t, pid_t> parents;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return parents;
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) parents[pid] = living_parent(pid);
  }
  closedir(directory);
  return parents;
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::vector<pid_t> descendants() {
  const std::map<pid_t, pid_t> parents = living_parents();
  std::vector<pid_t> found = {getpid()};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [pid, parent] : parents) {
      if (parent == found[i]) found.push_back(pid);
    }
  }
  found.erase(found.begin());
  return found;
}

void kill_descendants(int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  for (;;) {
    const std::vector<pid_t> left = descendants();
    for (const pid_t pid : left) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (left.empty() || deadline.expired()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace colibri
