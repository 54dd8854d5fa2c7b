// Control messages between coordinator and workers: a header that says what follows, one plain
// struct, and a text. docs/wire.md is the same in words.
//
//   control message   ControlHeader | body, sizeof(its struct) | text, text_bytes, UTF-8 unchecked
//
// All integers little endian. No message is longer than kMaxControlBytes, so a receiver posts one
// buffer of that size for whatever comes next. Exchanged on Channel::kControl; who is alive, who
// agrees and who waits for all is in collectives.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace colibri {

inline constexpr uint32_t kControlMagic = 0x43524c43;  // "CLRC"
inline constexpr uint16_t kControlVersion = 4;
inline constexpr size_t kMaxControlBytes = 16384;

enum class ControlKind : uint16_t {
  kHello = 1,
  kStatus = 2,
  kBegin = 3,
  kStop = 4,
  kPing = 5,
  kPong = 6,
  kLoadProgress = 7,
  kWorkerStats = 8,
  kLayerRows = 9,
  kFixedStep = 10,
  kWorkDone = 11,
  kNewEpoch = 12,
  kChangePlacement = 13,
  kEndChange = 14,
  kTrace = 20,
};

struct ControlHeader {
  uint32_t magic = kControlMagic;
  uint16_t version = kControlVersion;
  ControlKind kind = ControlKind::kHello;
  uint32_t epoch = 0;
  int32_t source_rank = 0;
  uint32_t body_bytes = 0;
  uint32_t text_bytes = 0;
};
static_assert(sizeof(ControlHeader) == 24 && alignof(ControlHeader) == 4);
static_assert(offsetof(ControlHeader, kind) == 6 && offsetof(ControlHeader, text_bytes) == 20);

// Every rank to rank 0 at start; text: the build id.
struct HelloBody {
  static constexpr ControlKind kKind = ControlKind::kHello;
  uint32_t row_wire_version = 0;
  uint32_t reserved = 0;
  int64_t pid = 0;
  uint64_t host_hash = 0;
  uint64_t weights_fingerprint = 0;
  char backend[16] = {};  // zero terminated: "cpu", "cuda"
};
static_assert(sizeof(HelloBody) == 48 && offsetof(HelloBody, backend) == 32);

// "All is well" or an error; text: its message.
struct StatusBody {
  static constexpr ControlKind kKind = ControlKind::kStatus;
  uint32_t is_error = 0;    // 0 or 1
  uint32_t error_kind = 0;  // ErrorKind, if is_error
};
static_assert(sizeof(StatusBody) == 8);

// Coordinator -> workers: rows of these bounds follow on Channel::kRows, under this epoch, until
// kStop. text: free, for a configuration.
struct BeginBody {
  static constexpr ControlKind kKind = ControlKind::kBegin;
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t top_k = 0;
  int32_t reserved = 0;
  int64_t max_tokens = 0;
};
static_assert(sizeof(BeginBody) == 24 && offsetof(BeginBody, max_tokens) == 16);

// Coordinator -> workers: leave with this exit code. text: why, may be empty.
struct StopBody {
  static constexpr ControlKind kKind = ControlKind::kStop;
  int32_t exit_code = 0;
};
static_assert(sizeof(StopBody) == 4);

// A pong repeats the numbers of its ping.
struct PingBody {
  static constexpr ControlKind kKind = ControlKind::kPing;
  uint64_t number = 0;
  uint64_t sent_ns = 0;  // the asker's steady clock
};
struct PongBody {
  static constexpr ControlKind kKind = ControlKind::kPong;
  uint64_t number = 0;
  uint64_t sent_ns = 0;
};
static_assert(sizeof(PingBody) == 16 && sizeof(PongBody) == 16);

// Worker -> coordinator while weights are read.
struct LoadProgressBody {
  static constexpr ControlKind kKind = ControlKind::kLoadProgress;
  uint64_t loaded_bytes = 0;
  uint64_t total_bytes = 0;
};
static_assert(sizeof(LoadProgressBody) == 16);

// Worker -> coordinator at the end: sums over its life, for the summary.
struct WorkerStatsBody {
  static constexpr ControlKind kKind = ControlKind::kWorkerStats;
  uint64_t num_messages = 0;
  uint64_t num_rows = 0;
  uint64_t num_pairs = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t compute_ns = 0;
  uint64_t wait_ns = 0;
  uint64_t weight_bytes = 0;
  uint64_t num_slots = 0;  // over all layers
};
static_assert(sizeof(WorkerStatsBody) == 72);

// Coordinator -> worker, where rows travel between devices: a row message of these counts follows
// (transport/row_batch.h), and as many results are awaited. 0 rows: an empty message both ways.
struct LayerRowsBody {
  static constexpr ControlKind kKind = ControlKind::kLayerRows;
  uint64_t step = 0;
  int32_t layer = 0;
  int32_t num_rows = 0;
  int32_t num_pairs = 0;
  int32_t reserved = 0;
};
static_assert(sizeof(LayerRowsBody) == 24 && offsetof(LayerRowsBody, layer) == 8);

// Coordinator -> worker: a whole step follows whose messages are as large as this many tokens could
// make them: for every layer with experts, in order, a row message with room for num_tokens rows
// and num_tokens * top_k pairs, and results for capacity[layer] pairs.
inline constexpr size_t kMaxFixedLayers = 256;
struct FixedStepBody {
  static constexpr ControlKind kKind = ControlKind::kFixedStep;
  uint64_t step = 0;
  int32_t num_tokens = 0;
  int32_t top_k = 0;
  int32_t capacity[kMaxFixedLayers] = {};
};
static_assert(sizeof(FixedStepBody) == 16 + 4 * kMaxFixedLayers);

// Worker -> coordinator, on Channel::kResults, which rows between devices leave free: so many of
// its announcements (layer rows and fixed steps) are done, and the next one is so far. Nobody waits
// for it; it tells who is late. Sent after each announcement, and from within one that takes long.
enum class WorkStage : int32_t { kNone = 0, kMade = 1, kSent = 2 };  // of a layer's results
struct WorkDoneBody {
  static constexpr ControlKind kKind = ControlKind::kWorkDone;
  uint64_t num_done = 0;
  int32_t layer = 0;
  WorkStage stage = WorkStage::kNone;  // of this layer; kNone: of no layer yet
};
static_assert(sizeof(WorkDoneBody) == 16);

// Coordinator -> workers, still under the old epoch, after a rank was lost: what is under way is
// void, go on under this epoch. Answered under the new one by a status. Where rows travel between
// devices the members also join a new link, known by this id.
inline constexpr size_t kMaxLinkMembers = 256;
struct NewEpochBody {
  static constexpr ControlKind kKind = ControlKind::kNewEpoch;
  uint32_t epoch = 0;        // above the header's
  uint32_t num_members = 0;  // 0: no link
  uint8_t link_id[128] = {};
  int32_t members[kMaxLinkMembers] = {};  // ranks, ascending, rank 0 the first
};
static_assert(sizeof(NewEpochBody) == 136 + 4 * kMaxLinkMembers);

// Coordinator -> workers: a placement of so many bytes follows on Channel::kStartup. Read what it
// gives you beside your work; answered by a status once that is done.
inline constexpr uint64_t kMaxPlacementBytes = uint64_t{64} << 20;
struct ChangePlacementBody {
  static constexpr ControlKind kKind = ControlKind::kChangePlacement;
  uint64_t text_bytes = 0;  // 1 .. kMaxPlacementBytes
  uint32_t is_urgent = 0;   // 0 or 1: no rows come until it is done
  uint32_t reserved = 0;
};
static_assert(sizeof(ChangePlacementBody) == 16);

// Coordinator -> workers, between two steps: rows that come from now on mean the slots of the
// change that was read, or that change is dropped. Answered by a status.
struct EndChangeBody {
  static constexpr ControlKind kKind = ControlKind::kEndChange;
  uint32_t is_adopted = 0;  // 0 or 1
};
static_assert(sizeof(EndChangeBody) == 4);

// Coordinator -> worker between steps, and the worker's answer to a look at its clock: spans of
// what it does (base/trace_log.h). Start and stop are answered by a status. text of stop: the file
// to write; "" writes none.
enum class TraceCommand : int32_t { kClock = 1, kStart = 2, kStop = 3 };
struct TraceBody {
  static constexpr ControlKind kKind = ControlKind::kTrace;
  TraceCommand command = TraceCommand::kClock;
  int32_t reserved = 0;
  int64_t clock_ns = 0;    // answer: the worker's steady clock; start: time 0 by that clock
  int64_t error_ns = 0;    // start: of that, at most
  uint64_t host_hash = 0;  // answer: ranks of one host share a clock
};
static_assert(sizeof(TraceBody) == 32 && offsetof(TraceBody, clock_ns) == 8);

// The message as bytes. A text that does not fit is cut. `body`: body_bytes of a ...Body.
std::vector<std::byte> encode_control_bytes(const ControlHeader& header, const void* body,
                                            std::string_view text);

template <class Body>
std::vector<std::byte> encode_control(int source_rank, uint32_t epoch, const Body& body,
                                      std::string_view text = {}) {
  static_assert(std::is_trivially_copyable_v<Body>);
  const ControlHeader header{
      .kind = Body::kKind, .epoch = epoch, .source_rank = source_rank, .body_bytes = sizeof(Body)};
  return encode_control_bytes(header, &body, text);
}

// A parsed message; body and text point into it, which need not be aligned.
struct ControlView {
  ControlHeader header;
  const std::byte* body = nullptr;
  std::string_view text;

  ControlKind kind() const { return header.kind; }
  // The body as a struct; fails with kInternal if the message is of another kind.
  template <class Body>
  Body as() const {
    check(header.kind == Body::kKind, "control message of kind ", static_cast<int>(header.kind),
          " read as ", static_cast<int>(Body::kKind));
    Body out;
    std::memcpy(&out, body, sizeof out);
    return out;
  }
};

// Checks everything before use: size, magic, version, kind, epoch, source, body and text sizes and
// the values of the body that have a range. Fails with kInput naming rank `from`, the field, what
// came and what was wanted.
ControlView parse_control(std::span<const std::byte> message, int from, uint32_t epoch);

// An error as it travels.
struct ErrorInfo {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};
std::vector<std::byte> encode_error(int source_rank, uint32_t epoch, const ErrorInfo& error);
// Of a kStatus message with is_error.
ErrorInfo error_of(const ControlView& status);

}  // namespace colibri
