// Traces of all ranks with one clock: tells the workers, over the control channel, when to begin
// and where to write; each rank writes a file of its own, trace.rankN.json. docs/tracing.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/trace_log.h"
#include "coordinator/forward.h"
#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

// "trace.rank2.json"
std::string trace_file_name(int rank);

// Of the coordinator's thread, between steps, while every living worker waits for rows.
class RankTracer {
 public:
  // `transport` null: this rank alone. All outlive it.
  RankTracer(Transport* transport, TraceLog& log, Forward& forward)
      : transport_(transport), log_(log), forward_(forward) {}

  bool is_active() const { return is_active_; }
  // Makes `directory`, measures how far the workers' clocks are from this rank's, and begins.
  // Errors: kEnvironment for the directory, kInput where a file is in its way or a trace is under
  // way; those of a worker's answer; kTimeout and kRankLost as Transport::wait. After an error no
  // trace is under way.
  void start(const std::string& directory);
  // Ends it; returns once all files are written, with their names. Errors: as start; all ranks that
  // can write have then written.
  std::vector<std::string> stop();

 private:
  struct Question;

  std::vector<int> workers() const;
  std::shared_ptr<Question> ask(int rank, const TraceBody& body, const std::string& text) const;
  ControlView answer(const std::shared_ptr<Question>& question) const;
  void start_workers(TraceLog::Clock::time_point origin) const;
  void drop_workers() const;
  TraceClock clock_of(int rank, TraceLog::Clock::time_point origin) const;
  std::string path_of(int rank) const;

  Transport* transport_;
  TraceLog& log_;
  Forward& forward_;
  std::string directory_;
  bool is_active_ = false;
};

}  // namespace colibri
