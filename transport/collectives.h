// Calls that all ranks make together, built from single messages on Channel::kStartup, so that they
// never mix with commands. Rank 0 is the root. Every wait has a deadline and names who is pending;
// errors are those of Transport::wait.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

// Longest block that broadcast and gather accept from another rank.
inline constexpr size_t kMaxCollectiveBytes = size_t{64} << 20;

// Returns once every rank has called it.
void barrier(Transport& transport, const Deadline& deadline, const std::string& what);

// Rank 0's `bytes` on every rank; the others' argument is ignored.
std::vector<std::byte> broadcast(Transport& transport, std::span<const std::byte> bytes,
                                 const Deadline& deadline, const std::string& what);

// On rank 0 every rank's bytes, in order of rank; on the others an empty list. Returns on a worker
// as soon as its bytes are on their way.
std::vector<std::vector<std::byte>> gather(Transport& transport, std::span<const std::byte> bytes,
                                           const Deadline& deadline, const std::string& what);

// All ranks agree whether to go on. Returns when no rank has an error; else throws one and the same
// Error on every rank: the one of the lowest rank that reported, or, if none did, the loss or the
// silence of the lowest rank that did not answer. Rank 0 is the one to print it. Workers wait
// kAgreeGraceMs longer than rank 0 does, so that they hear of a rank that is late.
inline constexpr int64_t kAgreeGraceMs = 5000;
void agree(Transport& transport, const std::optional<ErrorInfo>& mine, const Deadline& deadline,
           const std::string& what);

// Fails on every rank with kInput naming the first rank whose `value` is not rank 0's, and both
// values. `name`: what the value is ("build", "backend", "weights fingerprint").
void agree_same(Transport& transport, const std::string& name, const std::string& value,
                const Deadline& deadline);

}  // namespace colibri
