#include "base/progress.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace colibri {
namespace {

// A sink that remembers, with a clock that the test moves.
struct FakeSink {
  std::string text;
  double now_s = 100;
  int num_writes = 0;

  ProgressSink make(bool is_terminal) {
    return {.is_terminal = is_terminal,
            .write =
                [this](std::string_view part) {
                  text += part;
                  ++num_writes;
                },
            .now_s = [this] { return now_s; }};
  }
};

TEST(ProgressTextTest, HoldsBytesRateAndTimeLeft) {
  EXPECT_EQ(progress_text("loading", 3'000'000'000, 12'000'000'000, 2),
            "loading 3.00 GB of 12.0 GB, 1.50 GB/s, 6.0 s left");
}

TEST(ProgressTextTest, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(progress_text("loading", 0, 12'000, 2), "loading 0 B of 12.0 KB");
  EXPECT_EQ(progress_text("loading", 5000, 12'000, 0), "loading 5.00 KB of 12.0 KB");
  EXPECT_EQ(progress_text("loading", 2'000'000'000, 0, 4), "loading 2.00 GB, 0.50 GB/s");
  EXPECT_EQ(progress_text("loading", 5'000'000, 5'000'000, 1),
            "loading 5.00 MB of 5.00 MB, 0.01 GB/s");
}

TEST(ProgressTest, LogGetsALineEveryFiveSeconds) {
  FakeSink sink;
  Progress progress("loading", 4'000'000'000, sink.make(false));
  sink.now_s += 4.9;
  progress.add(1'000'000'000);
  EXPECT_EQ(sink.text, "");
  sink.now_s += 0.1;
  progress.add(1'000'000'000);
  progress.add(0);
  EXPECT_EQ(sink.text, "loading 2.00 GB of 4.00 GB, 0.40 GB/s, 5.0 s left\n");
  sink.now_s += 5;
  progress.set(4'000'000'000, 4'000'000'000);
  EXPECT_EQ(sink.num_writes, 2);
}

TEST(ProgressTest, TerminalLineIsDrawnOverTheOneBefore) {
  FakeSink sink;
  Progress progress("loading", 0, sink.make(true));
  sink.now_s += 1;
  progress.set(1'000'000'000, 20'000'000'000);
  sink.now_s += 1;
  progress.set(9'000'000'000, 0);
  EXPECT_EQ(sink.text,
            "\rloading 1.00 GB of 20.0 GB, 1.00 GB/s, 19 s left"
            "\rloading 9.00 GB, 4.50 GB/s                      ");
  progress.finish();
  EXPECT_EQ(sink.text.substr(sink.text.rfind('\r')), "\rloading 9.00 GB, 4.50 GB/s\n");
}

TEST(ProgressTest, TerminalIsDrawnAtMostTenTimesASecond) {
  FakeSink sink;
  Progress progress("loading", 0, sink.make(true));
  for (int i = 0; i < 64; ++i) {
    sink.now_s += 1.0 / 64;  // exact in binary
    progress.add(1);
  }
  EXPECT_LE(sink.num_writes, 10);
  EXPECT_GE(sink.num_writes, 8);
}

TEST(ProgressTest, FinishWithoutALineWritesNothing) {
  FakeSink sink;
  Progress progress("loading", 10, sink.make(false));
  progress.add(10);
  progress.finish();
  EXPECT_EQ(sink.text, "");
}

TEST(ProgressTest, UpdatesOfManyThreadsAllCount) {
  FakeSink sink;
  Progress progress("loading", 0, sink.make(false));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10000; ++k) progress.add(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  sink.now_s += 8;
  progress.add(0);
  EXPECT_EQ(sink.text, "loading 40.0 KB, 0.00 GB/s\n");
}

}  // namespace
}  // namespace colibri
