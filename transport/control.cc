#include "transport/control.h"

#include <algorithm>

namespace colibri {
namespace {

template <class Got, class... Want>
[[noreturn]] void refuse(int from, const char* field, Got got, const Want&... want) {
  fail(ErrorKind::kInput, "control message from rank ", from, ": ", field, " is ", got, ", want ",
       want...);
}

// Size of the body of a kind; 0 for a kind that does not exist.
size_t body_bytes_of(ControlKind kind) {
  switch (kind) {
    case ControlKind::kHello:
      return sizeof(HelloBody);
    case ControlKind::kStatus:
      return sizeof(StatusBody);
    case ControlKind::kBegin:
      return sizeof(BeginBody);
    case ControlKind::kStop:
      return sizeof(StopBody);
    case ControlKind::kPing:
      return sizeof(PingBody);
    case ControlKind::kPong:
      return sizeof(PongBody);
    case ControlKind::kLoadProgress:
      return sizeof(LoadProgressBody);
    case ControlKind::kWorkerStats:
      return sizeof(WorkerStatsBody);
    case ControlKind::kLayerRows:
      return sizeof(LayerRowsBody);
    case ControlKind::kFixedStep:
      return sizeof(FixedStepBody);
    case ControlKind::kWorkDone:
      return sizeof(WorkDoneBody);
    case ControlKind::kNewEpoch:
      return sizeof(NewEpochBody);
    case ControlKind::kChangePlacement:
      return sizeof(ChangePlacementBody);
    case ControlKind::kEndChange:
      return sizeof(EndChangeBody);
    case ControlKind::kTrace:
      return sizeof(TraceBody);
  }
  return 0;
}

void check_status(const StatusBody& status, int from) {
  if (status.is_error > 1) refuse(from, "is_error", status.is_error, "0 or 1");
  constexpr auto kLastKind = static_cast<uint32_t>(ErrorKind::kInternal);
  if (status.error_kind > kLastKind) {
    refuse(from, "error_kind", status.error_kind, "[0, ", kLastKind, "]");
  }
}

void check_hello(const HelloBody& hello, int from) {
  const auto* end = std::find(std::begin(hello.backend), std::end(hello.backend), '\0');
  if (end == std::end(hello.backend)) {
    refuse(from, "backend", "not terminated", "at most 15 characters");
  }
  if (hello.pid <= 0) refuse(from, "pid", hello.pid, "above 0");
}

void check_begin(const BeginBody& begin, int from) {
  if (begin.hidden_size <= 0) refuse(from, "hidden_size", begin.hidden_size, "above 0");
  if (begin.num_layers <= 0) refuse(from, "num_layers", begin.num_layers, "above 0");
  if (begin.top_k <= 0) refuse(from, "top_k", begin.top_k, "above 0");
  if (begin.max_tokens <= 0) refuse(from, "max_tokens", begin.max_tokens, "above 0");
}

void check_progress(const LoadProgressBody& progress, int from) {
  if (progress.loaded_bytes > progress.total_bytes) {
    refuse(from, "loaded_bytes", progress.loaded_bytes, "at most total_bytes, ",
           progress.total_bytes);
  }
}

void check_layer_rows(const LayerRowsBody& rows, int from) {
  if (rows.layer < 0) refuse(from, "layer", rows.layer, "0 or above");
  if (rows.num_rows < 0) refuse(from, "num_rows", rows.num_rows, "0 or above");
  if (rows.num_pairs < rows.num_rows) {
    refuse(from, "num_pairs", rows.num_pairs, "at least num_rows, ", rows.num_rows);
  }
}

void check_fixed_step(const FixedStepBody& step, int from) {
  if (step.num_tokens <= 0) refuse(from, "num_tokens", step.num_tokens, "above 0");
  if (step.top_k <= 0) refuse(from, "top_k", step.top_k, "above 0");
  const int64_t most = int64_t{step.num_tokens} * step.top_k;
  for (const int32_t capacity : step.capacity) {
    if (capacity < 0 || capacity > most) refuse(from, "capacity", capacity, "[0, ", most, "]");
  }
}

void check_work_done(const WorkDoneBody& done, int from) {
  if (done.layer < 0) refuse(from, "layer", done.layer, "0 or above");
  const auto stage = static_cast<int32_t>(done.stage);
  if (stage < 0 || stage > 2) refuse(from, "stage", stage, "[0, 2]");
}

void check_new_epoch(const NewEpochBody& next, const ControlHeader& header, int from) {
  if (next.epoch <= header.epoch) refuse(from, "new epoch", next.epoch, "above ", header.epoch);
  if (next.num_members > kMaxLinkMembers) {
    refuse(from, "num_members", next.num_members, "at most ", kMaxLinkMembers);
  }
  for (uint32_t i = 0; i < next.num_members; ++i) {
    const int32_t least = i == 0 ? 0 : next.members[i - 1] + 1;
    if (next.members[i] < least || (i == 0 && next.members[i] > 0)) {
      refuse(from, "member", next.members[i], "0 first, then ascending ranks");
    }
  }
}

void check_change(const ChangePlacementBody& change, int from) {
  if (change.text_bytes == 0 || change.text_bytes > kMaxPlacementBytes) {
    refuse(from, "placement bytes", change.text_bytes, "[1, ", kMaxPlacementBytes, "]");
  }
  if (change.is_urgent > 1) refuse(from, "is_urgent", change.is_urgent, "0 or 1");
}

void check_end_change(const EndChangeBody& end, int from) {
  if (end.is_adopted > 1) refuse(from, "is_adopted", end.is_adopted, "0 or 1");
}

void check_trace(const TraceBody& trace, int from) {
  const auto command = static_cast<int32_t>(trace.command);
  if (command < 1 || command > 3) refuse(from, "command", command, "[1, 3]");
  if (trace.error_ns < 0) refuse(from, "error_ns", trace.error_ns, "0 or above");
}

void check_body(const ControlView& view, int from) {
  switch (view.kind()) {
    case ControlKind::kHello:
      return check_hello(view.as<HelloBody>(), from);
    case ControlKind::kStatus:
      return check_status(view.as<StatusBody>(), from);
    case ControlKind::kBegin:
      return check_begin(view.as<BeginBody>(), from);
    case ControlKind::kLoadProgress:
      return check_progress(view.as<LoadProgressBody>(), from);
    case ControlKind::kLayerRows:
      return check_layer_rows(view.as<LayerRowsBody>(), from);
    case ControlKind::kFixedStep:
      return check_fixed_step(view.as<FixedStepBody>(), from);
    case ControlKind::kWorkDone:
      return check_work_done(view.as<WorkDoneBody>(), from);
    case ControlKind::kNewEpoch:
      return check_new_epoch(view.as<NewEpochBody>(), view.header, from);
    case ControlKind::kChangePlacement:
      return check_change(view.as<ChangePlacementBody>(), from);
    case ControlKind::kEndChange:
      return check_end_change(view.as<EndChangeBody>(), from);
    case ControlKind::kTrace:
      return check_trace(view.as<TraceBody>(), from);
    case ControlKind::kStop:
    case ControlKind::kPing:
    case ControlKind::kPong:
    case ControlKind::kWorkerStats:
      return;
  }
}

}  // namespace

std::vector<std::byte> encode_control_bytes(const ControlHeader& header, const void* body,
                                            std::string_view text) {
  ControlHeader out = header;
  check(out.body_bytes == body_bytes_of(out.kind), "control body of ", out.body_bytes, " bytes");
  const size_t front = sizeof out + out.body_bytes;
  text = text.substr(0, kMaxControlBytes - front);
  out.text_bytes = static_cast<uint32_t>(text.size());
  std::vector<std::byte> message(front + text.size());
  std::memcpy(message.data(), &out, sizeof out);
  std::memcpy(message.data() + sizeof out, body, out.body_bytes);
  if (!text.empty()) std::memcpy(message.data() + front, text.data(), text.size());
  return message;
}

ControlView parse_control(std::span<const std::byte> message, int from, uint32_t epoch) {
  ControlView view;
  if (message.size() < sizeof view.header || message.size() > kMaxControlBytes) {
    refuse(from, "size", message.size(), "[", sizeof view.header, ", ", kMaxControlBytes, "]");
  }
  std::memcpy(&view.header, message.data(), sizeof view.header);
  const ControlHeader& header = view.header;
  if (header.magic != kControlMagic) refuse(from, "magic", header.magic, kControlMagic);
  if (header.version != kControlVersion) {
    refuse(from, "version", header.version, kControlVersion, "; run the same build on every rank");
  }
  const size_t body_bytes = body_bytes_of(header.kind);
  if (body_bytes == 0) refuse(from, "kind", static_cast<int>(header.kind), "[1, 14] or 20");
  if (header.epoch != epoch) refuse(from, "epoch", header.epoch, epoch);
  if (header.source_rank != from) refuse(from, "source_rank", header.source_rank, "the sender");
  if (header.body_bytes != body_bytes) refuse(from, "body_bytes", header.body_bytes, body_bytes);
  const size_t rest = message.size() - sizeof header;
  if (rest < body_bytes || header.text_bytes != rest - body_bytes) {
    refuse(from, "text_bytes", header.text_bytes, "what is left of ", message.size(), " bytes");
  }
  view.body = message.data() + sizeof header;
  view.text = {reinterpret_cast<const char*>(view.body + body_bytes), header.text_bytes};
  check_body(view, from);
  return view;
}

std::vector<std::byte> encode_error(int source_rank, uint32_t epoch, const ErrorInfo& error) {
  return encode_control(source_rank, epoch,
                        StatusBody{.is_error = 1, .error_kind = static_cast<uint32_t>(error.kind)},
                        error.message);
}

ErrorInfo error_of(const ControlView& status) {
  const auto body = status.as<StatusBody>();
  check(body.is_error == 1, "a status without an error has no error");
  return {static_cast<ErrorKind>(body.error_kind), std::string(status.text)};
}

}  // namespace colibri
