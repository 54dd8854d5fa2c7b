// A worker's part of a trace: it tells its clock, notes what it does from start to stop, and writes
// its own file.
#pragma once

#include "base/trace_log.h"
#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

class WorkerTrace {
 public:
  // `log` may be null: then a trace is refused. Both outlive this.
  WorkerTrace(Transport& transport, TraceLog* log) : transport_(transport), log_(log) {}

  // Where spans go; null while no trace is wanted.
  TraceLog* log() const { return is_on_ ? log_ : nullptr; }
  // Does what a kTrace message asks and answers `coordinator`; what goes wrong with the file goes
  // into the answer. Errors: as Transport::wait.
  void obey(const ControlView& command, int coordinator);

 private:
  std::vector<std::byte> start(const TraceBody& body);
  std::vector<std::byte> stop(std::string_view path);
  std::vector<std::byte> refused(const Error& error) const;
  void answer(std::vector<std::byte> message, int coordinator);

  Transport& transport_;
  TraceLog* log_;
  bool is_on_ = false;
};

}  // namespace colibri
