#include "base/trace_log.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace colibri {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

[[noreturn]] void refuse(const std::string& path) {
  fail(ErrorKind::kEnvironment, "cannot write the trace '", path, "': ", std::strerror(errno));
}

double us(TraceLog::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void write_name(std::FILE* out, const char* kind, int rank, int track, const std::string& name) {
  std::fprintf(out,
               "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}},\n",
               kind, rank, track, name.c_str());
}

void write_span(std::FILE* out, int rank, const TraceLog::Span& span,
                TraceLog::Clock::time_point origin) {
  std::fprintf(out,
               "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
               "\"args\":{",
               span.name, rank, static_cast<int>(span.track), us(span.start - origin),
               us(span.end - span.start));
  if (span.layer >= 0) std::fprintf(out, "\"layer\":%d", span.layer);
  if (span.rows >= 0) {
    std::fprintf(out, "%s\"rows\":%" PRId64, span.layer >= 0 ? "," : "", span.rows);
  }
  std::fputs("}},\n", out);
}

}  // namespace

void TraceLog::start(const TraceClock& clock) {
  clock_ = clock;
  layer_ = -1;
  spans_.clear();
  num_dropped_ = 0;
}

void TraceLog::add(const Span& span) {
  if (spans_.size() >= kMaxSpans) {
    ++num_dropped_;
    return;
  }
  spans_.push_back(span);
  if (span.layer < 0) spans_.back().layer = layer_;
}

void TraceLog::write(const std::string& path) {
  const std::string partial = path + ".partial";
  File file(std::fopen(partial.c_str(), "w"));
  if (!file) refuse(partial);
  std::FILE* const out = file.get();
  std::fprintf(out,
               "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"rank\":%d,\"clock_error_ns\":%" PRId64
               ",\"dropped_spans\":%" PRIu64 "},\n\"traceEvents\":[\n",
               rank_, clock_.error_ns, num_dropped_);
  const std::string role = rank_ == 0 ? " (coordinator)" : " (worker)";
  for (const Span& span : spans_) write_span(out, rank_, span, clock_.origin);
  write_name(out, "thread_name", rank_, static_cast<int>(TraceTrack::kMain), "main");
  write_name(out, "thread_name", rank_, static_cast<int>(TraceTrack::kExchange), "exchange");
  std::fprintf(out,
               "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank "
               "%d%s\"}}\n]}\n",
               rank_, rank_, role.c_str());
  if (std::ferror(out) != 0 || std::fflush(out) != 0) refuse(partial);
  file.reset();
  if (std::rename(partial.c_str(), path.c_str()) != 0) refuse(path);
  spans_ = {};
}

}  // namespace colibri
