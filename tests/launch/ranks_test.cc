// --ranks N from outside: exit codes, words, signals, and that nothing stays behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool comes_true(const std::function<bool()>& condition, int seconds = 20) {
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return condition();
}

size_t num_shared_segments() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    count += entry.path().filename().string().starts_with("vader") ? 1 : 0;
  }
  return count;
}

class RanksTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "colibri-ranks-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    num_segments_before_ = num_shared_segments();
  }

  void TearDown() override {
    EXPECT_TRUE(comes_true([this] { return living_pids().empty(); })) << "processes left";
    EXPECT_TRUE(comes_true([this] { return num_shared_segments() <= num_segments_before_; }))
        << "shared memory left";
    if (launcher_ > 0) kill(launcher_, SIGKILL);
    std::filesystem::remove_all(directory_);
  }

  void start(std::vector<std::string> arguments, const std::string& num_ranks = "3") {
    arguments.insert(arguments.begin(), COLIBRI_BINARY_DIR "/ranks_program");
    arguments.insert(arguments.end(), {"--ranks", num_ranks});
    launcher_ = fork();
    if (launcher_ != 0) return;
    setenv("RANKS_TEST_PIDS", (directory_ / "pids").c_str(), 1);
    redirect("in", O_RDONLY | O_CREAT, STDIN_FILENO);
    redirect("out", O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
    redirect("err", O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  // The launcher's exit code; -1 - n if signal n ended it, -1 if nothing did within a minute.
  int finish() {
    int status = 0;
    const bool has_ended =
        comes_true([&] { return waitpid(launcher_, &status, WNOHANG) == launcher_; }, 60);
    if (!has_ended) return -1;
    launcher_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
  }

  int run(const std::vector<std::string>& arguments) {
    start(arguments);
    return finish();
  }

  bool is_ready() {
    return comes_true([this] { return out().find("ready") != std::string::npos; });
  }

  std::string out() const { return contents(directory_ / "out"); }
  std::string err() const { return contents(directory_ / "err"); }

  std::vector<pid_t> living_pids() const {
    std::ifstream file(directory_ / "pids");
    std::vector<pid_t> living;
    for (pid_t pid = 0; file >> pid;) {
      if (kill(pid, 0) == 0 || errno == EPERM) living.push_back(pid);
    }
    return living;
  }

  void redirect(const char* name, int flags, int fd) const {
    dup2(open((directory_ / name).c_str(), flags, 0600), fd);
  }

  std::filesystem::path directory_;
  size_t num_segments_before_ = 0;
  pid_t launcher_ = 0;
};

TEST_F(RanksTest, ThreeRanksMeetAndTheStatusIsZero) {
  EXPECT_EQ(run({"meet"}), 0) << err();
  EXPECT_EQ(out(), "3 ranks met\n");
  EXPECT_EQ(err(), "colibri: starting 3 ranks\n");
}

TEST_F(RanksTest, AgreedErrorIsPrintedOnceAndIsTheStatus) {
  EXPECT_EQ(run({"fail"}), 2);
  EXPECT_EQ(err(), "colibri: starting 3 ranks\ncolibri: rank 1 does not like its input\n");
}

TEST_F(RanksTest, KilledWorkerEndsTheRunWith4AndItsName) {
  EXPECT_EQ(run({"kill-last"}), 4);
  EXPECT_NE(err().find("rank 2 is lost"), std::string::npos) << err();
  EXPECT_EQ(err().find("mpirun"), std::string::npos) << err();
}

TEST_F(RanksTest, StoppedWorkerEndsTheRunWith4AndItsName) {
  EXPECT_EQ(run({"stop-last"}), 4);
  EXPECT_NE(err().find("still pending: rank 2"), std::string::npos) << err();
}

TEST_F(RanksTest, CrashOfRank0IsStatus4) {
  EXPECT_EQ(run({"crash-first"}), 4);
  EXPECT_NE(err().find("before rank 0 had a result"), std::string::npos) << err();
}

TEST_F(RanksTest, TermDrains) {
  start({"drain"});
  ASSERT_TRUE(is_ready()) << err();
  kill(launcher_, SIGTERM);
  EXPECT_EQ(finish(), 0) << err();
  EXPECT_EQ(out(), "ready\ndrained\n");
}

TEST_F(RanksTest, IntDrains) {
  start({"drain"});
  ASSERT_TRUE(is_ready()) << err();
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(), 0) << err();
}

TEST_F(RanksTest, SecondIntEndsAJobThatDoesNotDrain) {
  start({"stubborn"});
  ASSERT_TRUE(is_ready()) << err();
  kill(launcher_, SIGINT);
  std::this_thread::sleep_for(milliseconds(100));
  kill(launcher_, SIGINT);
  EXPECT_EQ(finish(), 4);
}

TEST_F(RanksTest, TermBeforeTheRanksAreThereEndsTheJob) {
  start({"drain"});
  std::this_thread::sleep_for(milliseconds(100));
  kill(launcher_, SIGTERM);
  const int status = finish();
  EXPECT_TRUE(status == 0 || status == 4 || status == -1 - SIGTERM) << status << err();
}

TEST_F(RanksTest, KilledLauncherLeavesNothing) {
  start({"stubborn"});
  ASSERT_TRUE(is_ready()) << err();
  kill(launcher_, SIGKILL);
  EXPECT_EQ(finish(), -1 - SIGKILL);
}

TEST_F(RanksTest, ArgumentsArriveAsTheyWere) {
  EXPECT_EQ(run({"arguments", ":", "", "::", "a b", "$HOME", "\n\"'", "--ranks-not"}), 0) << err();
  EXPECT_EQ(out(), "[arguments][:][][::][a b][$HOME][\n\"'][--ranks-not]");
}

TEST_F(RanksTest, OnlyRank0ReadsStdin) {
  std::ofstream(directory_ / "in") << "typed text\n";
  EXPECT_EQ(run({"input"}), 0) << err();
  EXPECT_EQ(out(), "typed text\n");
}

TEST_F(RanksTest, LongOutputArrivesWhole) {
  EXPECT_EQ(run({"much"}), 0) << err();
  const std::string text = out();
  EXPECT_EQ(text.substr(text.size() - 12), "line 199999\n");
  EXPECT_NE(err().find("rank 0 on stderr"), std::string::npos);
}

TEST_F(RanksTest, MissingMpirunNamesThePackage) {
  const std::string path = getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  const int status = run({"meet"});
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(status, 3);
  EXPECT_NE(err().find("openmpi-bin"), std::string::npos) << err();
}

}  // namespace
