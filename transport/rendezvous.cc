#include "transport/rendezvous.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int kMaxRanks = 1 << 20;

struct Reader {
  const EnvironmentLookup& lookup;

  bool has(const char* name) const { return lookup(name) != nullptr; }

  int number(const char* name) const {
    const char* value = lookup(name);
    const std::string_view text = value == nullptr ? "" : value;
    int out = -1;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
    const bool is_whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
    if (!is_whole || out < 0 || out > kMaxRanks) {
      fail(ErrorKind::kInput, "environment variable ", name, " is '", text,
           "', want a number in [0, ", kMaxRanks, "]; it is set by the program that starts ranks");
    }
    return out;
  }
  int number_or(const char* name, int otherwise) const {
    return has(name) ? number(name) : otherwise;
  }
};

// Slurm's "2(x3),1": tasks on each node, in order.
int tasks_on_node(std::string_view list, int node_idx) {
  int node = 0;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(item.size() + (item.size() < list.size() ? 1 : 0));
    int tasks = 0, repeat = 1;
    const char* end = item.data() + item.size();
    const auto count = std::from_chars(item.data(), end, tasks);
    if (count.ec != std::errc()) return -1;
    if (std::string_view(count.ptr, static_cast<size_t>(end - count.ptr)).starts_with("(x")) {
      std::from_chars(count.ptr + 2, end, repeat);
    }
    if (repeat < 1 || tasks < 1) return -1;
    if (node_idx < node + repeat) return tasks;
    node += repeat;
  }
  return -1;
}

RankInfo from_mpirun(const Reader& read) {
  return {.rank = read.number("OMPI_COMM_WORLD_RANK"),
          .size = read.number("OMPI_COMM_WORLD_SIZE"),
          .local_rank = read.number_or("OMPI_COMM_WORLD_LOCAL_RANK", 0),
          .num_local_ranks = read.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 1),
          .launcher = "mpirun"};
}

RankInfo from_srun(const Reader& read) {
  RankInfo who{.rank = read.number("SLURM_PROCID"),
               .size = read.number("SLURM_STEP_NUM_TASKS"),
               .local_rank = read.number_or("SLURM_LOCALID", 0),
               .node_idx = read.number_or("SLURM_NODEID", -1),
               .launcher = "srun"};
  const char* list = read.lookup("SLURM_STEP_TASKS_PER_NODE");
  const int tasks = list == nullptr ? -1 : tasks_on_node(list, who.node_idx < 0 ? 0 : who.node_idx);
  who.num_local_ranks = tasks > 0 ? tasks : who.local_rank + 1;
  return who;
}

RankInfo from_pmi(const Reader& read) {
  RankInfo who{.rank = read.number("PMI_RANK"),
               .size = read.number("PMI_SIZE"),
               .local_rank = read.number_or("MPI_LOCALRANKID", 0),
               .launcher = "pmi"};
  who.num_local_ranks = read.number_or("MPI_LOCALNRANKS", who.local_rank + 1);
  return who;
}

void check_ranges(const RankInfo& who) {
  if (who.size < 1 || who.rank >= who.size) {
    fail(ErrorKind::kInput, who.launcher, " says rank ", who.rank, " of ", who.size,
         " ranks, want a rank below the number of ranks");
  }
  if (who.num_local_ranks < 1 || who.local_rank >= who.num_local_ranks ||
      who.num_local_ranks > who.size) {
    fail(ErrorKind::kInput, who.launcher, " says local rank ", who.local_rank, " of ",
         who.num_local_ranks, " on this machine, ", who.size, " in all");
  }
}

uint64_t fnv1a(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

RankInfo find_rank(const EnvironmentLookup& lookup) {
  const Reader read{lookup};
  RankInfo who;
  if (read.has("OMPI_COMM_WORLD_RANK")) {
    who = from_mpirun(read);
  } else if (read.has("SLURM_PROCID") && read.has("SLURM_STEP_NUM_TASKS") &&
             read.has("SLURM_STEP_ID")) {
    who = from_srun(read);
  } else if (read.has("PMI_RANK")) {
    who = from_pmi(read);
  }
  check_ranges(who);
  return who;
}

unsigned long long host_hash() {
  uint64_t hash = 0xcbf29ce484222325u;
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  hash = fnv1a(hash, boot_id);
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) == 0) hash = fnv1a(hash, buffer.data());
  const ssize_t length = readlink("/proc/self/ns/pid", buffer.data(), buffer.size());
  if (length > 0) hash = fnv1a(hash, {buffer.data(), static_cast<size_t>(length)});
  return hash;
}

}  // namespace colibri
