// How fast one device computes: a few fitted numbers for each kind of operation. They come from
// data files (configs/machines, docs/placement.md), each with its source beside it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace colibri {

// The kinds of operation that a step is made of.
enum class OpKind : uint8_t {
  kExperts,          // the grouped feed-forward of one layer on one rank: gate, up, down
  kDense,            // projections, shared expert, dense layers
  kAttention,        // decoding: scores and values over a context that one token reads
  kPromptAttention,  // the same of a prompt, whose tokens share what is read
  kHead,             // logits
  kElementwise,      // norms, router, choice, adding: time is all `fixed_us`, plus bytes
};
inline constexpr size_t kNumOpKinds = 6;
const char* to_string(OpKind kind);

// What an operation has to do. What pieces and values are for each kind: topology/step_work.h.
struct OpWork {
  double bytes = 0;       // weights, keys, values
  double operations = 0;  // multiplications and additions
  double pieces = 0;      // that each start anew: experts, heads of a token
  double values = 0;      // numbers that go in and come out besides
};

// t = fixed_us + piece_us pieces + value_ns values / 1000
//   + ((bytes / rate)^p + (operations / gops)^p)^(1/p)
// p = sharpness: reading weights and computing overlap, the more the larger p is.
// 1 / rate = s / cached_gbps + (1 - s) / gbps, where the share s of the bytes comes out of caches.
struct OpCost {
  double fixed_us = 0;
  double gbps = 0;  // GB/s that the operation reaches out of memory, not the data sheet's
  double gops = 0;  // 1e9 multiplications and additions a second, likewise
  double sharpness = 1.5;
  double cached_gbps = 0;  // 0: as gbps
  double piece_us = 0, value_ns = 0;

  double us(const OpWork& work, double cached_share = 0) const;
  friend bool operator==(const OpCost&, const OpCost&) = default;
};

struct DeviceSpec {
  std::string name;  // in the catalogue: "h200"
  bool is_gpu = false;
  int64_t memory_bytes = 0;  // of a GPU; 0: a CPU, see ClusterPart
  double peak_gbps = 0;      // data sheet
  // An operation by the bytes of a weight: formats of one byte and less may compute faster.
  std::array<OpCost, kNumOpKinds> wide = {};    // bf16, f32
  std::array<OpCost, kNumOpKinds> narrow = {};  // one byte and below: fp8, q8, q4
  // What a step reads stays in caches until the next where it is much less than this; 0: nothing
  // stays. Of all ranks of a package together.
  double cache_bytes = 0;
  // One exchange between ranks (a dispatch, or a combine): what it takes without a byte, and more
  // for each peer.
  double exchange_us = 0, exchange_us_per_peer = 0;
  // How start and bytes of an exchange add up: t = (start^p + bytes^p)^(1/p). 1: one after the
  // other. Below 1: messages of middle size are slower than that, as NCCL's are.
  double exchange_sharpness = 1;
  // This share of the largest message passes the link once more, so that a single peer does not
  // fill the link: it reaches 1 / (1 + tail) of it, n peers n / (n + tail).
  double exchange_tail = 0;
  // Rows that come out of caches pass a link at its rate, others take this many times as long:
  // messages between CPUs are copies.
  double exchange_uncached = 1;

  // Of a GPU, before each dispatch where counts go over the host: until they are there and on their
  // way to the ranks.
  double counts_us = 0;

  // 1 / (1 + (step / cache)^3) for a step that reads `step_bytes`: half where it just fills them.
  double cached_share(double step_bytes) const;
  double exchange_start_us(int num_peers) const {
    return exchange_us + exchange_us_per_peer * num_peers;
  }
  // `start_us` and latencies, then what the busiest link takes.
  double exchange_total_us(double start_us, double link_us) const;

  const OpCost& cost(OpKind kind, bool is_narrow) const {
    return (is_narrow ? narrow : wide)[static_cast<size_t>(kind)];
  }
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

}  // namespace colibri
