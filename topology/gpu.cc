#include "topology/gpu.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/units.h"

namespace colibri {

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void require_gpu(const GpuProbe& probe) {
  if (!probe.problem.empty()) {
    fail(ErrorKind::kEnvironment, "--device cuda: ", probe.problem, "; --device cpu works without");
  }
  check(!probe.gpus.empty(), "a probe without GPUs and without a reason");
}

std::string describe(const GpuInfo& gpu) {
  return "GPU " + std::to_string(gpu.ordinal) + " (" + gpu.name + ", " + gpu.uuid + ")";
}

namespace {

struct Node {
  int num_ranks = 0;
  std::set<std::string> uuids;
};

std::map<std::string, Node> nodes_of(std::span<const RankGpus> ranks) {
  std::map<std::string, Node> nodes;
  for (const RankGpus& rank : ranks) {
    Node& node = nodes[rank.node];
    ++node.num_ranks;
    for (const GpuInfo& gpu : rank.gpus) node.uuids.insert(gpu.uuid);
  }
  return nodes;
}

const char* plural(size_t count) { return count == 1 ? "" : "s"; }

void check_enough(const std::map<std::string, Node>& nodes) {
  for (const auto& [name, node] : nodes) {
    if (static_cast<size_t>(node.num_ranks) <= node.uuids.size()) continue;
    fail(ErrorKind::kEnvironment, "--device cuda: ", node.num_ranks, " ranks on ", name, ", but ",
         node.uuids.size(), " GPU", plural(node.uuids.size()),
         "; want a GPU for each rank: start fewer ranks or use more machines");
  }
}

int choose_one(const RankGpus& rank) {
  const int count = static_cast<int>(rank.gpus.size());
  if (rank.wanted_ordinal >= 0) {
    if (rank.wanted_ordinal < count) return rank.wanted_ordinal;
    fail(ErrorKind::kEnvironment, "--device cuda:", rank.wanted_ordinal, ": rank ", rank.rank,
         " on ", rank.node, " sees ", count, " GPU", plural(rank.gpus.size()), ", counted from 0");
  }
  if (count == 1) return 0;  // a batch system that gives each task its own
  if (rank.local_rank < count) return rank.local_rank;
  fail(ErrorKind::kEnvironment, "--device cuda: rank ", rank.rank, " is number ", rank.local_rank,
       " on ", rank.node, " and sees ", count,
       " GPUs; want every rank to see one GPU or all of them (CUDA_VISIBLE_DEVICES)");
}

void check_different(std::span<const RankGpus> ranks, const std::vector<int>& chosen) {
  std::map<std::string, size_t> owner;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const GpuInfo& gpu = ranks[i].gpus[static_cast<size_t>(chosen[i])];
    const auto [first, is_new] = owner.emplace(gpu.uuid, i);
    if (is_new) continue;
    fail(ErrorKind::kEnvironment, "ranks ", ranks[first->second].rank, " and ", ranks[i].rank,
         " are both on ", describe(gpu), " of ", ranks[i].node,
         "; want one rank a GPU: --device cuda lets colibri choose");
  }
}

void check_equal(std::span<const RankGpus> ranks, const std::vector<int>& chosen) {
  const GpuInfo& first = ranks[0].gpus[static_cast<size_t>(chosen[0])];
  for (size_t i = 1; i < ranks.size(); ++i) {
    const GpuInfo& gpu = ranks[i].gpus[static_cast<size_t>(chosen[i])];
    if (gpu.major == first.major && gpu.minor == first.minor) continue;
    fail(ErrorKind::kEnvironment, "rank ", ranks[0].rank, " has an ", first.name,
         " (compute capability ", first.capability(), "), rank ", ranks[i].rank, " an ", gpu.name,
         " (", gpu.capability(),
         "): tokens could depend on the placement; use equal GPUs, or --allow-mixed-gpus");
  }
}

}  // namespace

std::vector<int> choose_gpus(std::span<const RankGpus> ranks, bool allow_mixed) {
  const bool all_chosen_by_user = std::all_of(
      ranks.begin(), ranks.end(), [](const RankGpus& rank) { return rank.wanted_ordinal >= 0; });
  if (!all_chosen_by_user) check_enough(nodes_of(ranks));
  std::vector<int> chosen;
  for (const RankGpus& rank : ranks) chosen.push_back(choose_one(rank));
  check_different(ranks, chosen);
  if (!allow_mixed && !ranks.empty()) check_equal(ranks, chosen);
  return chosen;
}

std::vector<int> share_near_cpus(std::span<const std::vector<int>> ranks_near, size_t which) {
  const std::vector<int>& near = ranks_near[which];
  size_t num_sharers = 0, position = 0;
  for (size_t i = 0; i < ranks_near.size(); ++i) {
    if (ranks_near[i] != near) continue;
    if (i < which) ++position;
    ++num_sharers;
  }
  if (near.empty()) return near;
  return cpus_of_local_rank(near, static_cast<int>(position), static_cast<int>(num_sharers));
}

namespace {

const char* link_name(PeerLink link) {
  switch (link) {
    case PeerLink::kNone:
      return "none";
    case PeerLink::kDirect:
      return "PCIe";
    case PeerLink::kAtomic:
      return "NVLink";
  }
  return "?";
}

// One line when all pairs are alike, else a line a GPU.
std::string peer_text(const std::vector<GpuInfo>& gpus) {
  if (gpus.size() < 2) return "";
  std::set<PeerLink> kinds;
  std::string lines;
  for (const GpuInfo& gpu : gpus) {
    std::string line = "peer links of GPU " + std::to_string(gpu.ordinal) + ":";
    for (size_t peer = 0; peer < gpu.peers.size(); ++peer) {
      if (static_cast<int>(peer) == gpu.ordinal) continue;
      kinds.insert(gpu.peers[peer]);
      line += " " + std::to_string(peer) + " " + link_name(gpu.peers[peer]);
    }
    lines += line + "\n";
  }
  if (kinds.size() != 1) return lines;
  const std::string all = "peer links: all " + std::to_string(gpus.size()) + " GPUs ";
  if (*kinds.begin() == PeerLink::kNone) return all + "reach each other through host memory only\n";
  return all + "reach each other directly (" + link_name(*kinds.begin()) + ")\n";
}

}  // namespace

std::string gpu_text(const GpuProbe& probe) {
  std::string text;
  for (const GpuInfo& gpu : probe.gpus) {
    text += "GPU " + std::to_string(gpu.ordinal) + ": " + gpu.name + ", compute capability " +
            gpu.capability() + ", " + std::to_string(gpu.num_multiprocessors) +
            " multiprocessors, " + format_bytes(gpu.memory_bytes) + ", PCI " + gpu.pci_bus_id +
            ", " + gpu.uuid + "\n";
  }
  return text + peer_text(probe.gpus);
}

}  // namespace colibri
