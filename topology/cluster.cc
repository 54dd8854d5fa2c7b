#include "topology/cluster.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace colibri {
namespace {

bool runs_ranks(PartKind kind) { return kind == PartKind::kCpu || kind == PartKind::kGpu; }

void check_part(const Cluster& cluster, const ClusterPart& part, const std::string& where) {
  if (!runs_ranks(part.kind)) return;
  if (part.device < 0 || part.device >= static_cast<int>(cluster.devices.size())) {
    fail(ErrorKind::kInput, where, ": part ", part.name, " has device ", part.device, " of ",
         cluster.devices.size());
  }
}

void check_link(const Cluster& cluster, const ClusterLink& link, const std::string& where) {
  const auto num_parts = static_cast<int>(cluster.parts.size());
  for (const int end : {link.a, link.b}) {
    if (end < 0 || end >= num_parts) {
      fail(ErrorKind::kInput, where, ": link ", link.kind, " ends at part ", end, " of ",
           num_parts);
    }
  }
  const std::string ends = cluster.parts[static_cast<size_t>(link.a)].name + " - " +
                           cluster.parts[static_cast<size_t>(link.b)].name;
  if (link.a == link.b) {
    fail(ErrorKind::kInput, where, ": link ", ends, " joins a part to itself");
  }
  if (!std::isfinite(link.gbps) || link.gbps <= 0 || !std::isfinite(link.latency_us) ||
      link.latency_us < 0) {
    fail(ErrorKind::kInput, where, ": link ", ends, " has ", link.gbps, " GB/s and ",
         link.latency_us, " us, want a rate above 0 and a latency of 0 or more");
  }
}

// What can be reached from `start` without passing through a GPU.
std::vector<bool> reached_from(const Cluster& cluster, int start) {
  std::vector<std::vector<int>> neighbours(cluster.parts.size());
  for (const ClusterLink& link : cluster.links) {
    neighbours[static_cast<size_t>(link.a)].push_back(link.b);
    neighbours[static_cast<size_t>(link.b)].push_back(link.a);
  }
  std::vector<bool> is_reached(cluster.parts.size());
  std::vector<int> open{start};
  is_reached[static_cast<size_t>(start)] = true;
  while (!open.empty()) {
    const auto part = static_cast<size_t>(open.back());
    open.pop_back();
    if (cluster.parts[part].kind == PartKind::kGpu && static_cast<int>(part) != start) continue;
    for (const int next : neighbours[part]) {
      if (is_reached[static_cast<size_t>(next)]) continue;
      is_reached[static_cast<size_t>(next)] = true;
      open.push_back(next);
    }
  }
  return is_reached;
}

void check_reach(const Cluster& cluster, const std::string& where) {
  std::vector<int> ends;
  for (const PartKind kind : {PartKind::kGpu, PartKind::kCpu}) {
    const std::vector<int> parts = cluster.parts_of(kind);
    ends.insert(ends.end(), parts.begin(), parts.end());
  }
  if (ends.empty()) fail(ErrorKind::kInput, where, ": no part runs ranks, want a cpu or a gpu");
  const std::vector<bool> is_reached = reached_from(cluster, ends[0]);
  for (const int end : ends) {
    if (is_reached[static_cast<size_t>(end)]) continue;
    fail(ErrorKind::kInput, where, ": nothing leads from ",
         cluster.parts[static_cast<size_t>(ends[0])].name, " to ",
         cluster.parts[static_cast<size_t>(end)].name, "; add the link that joins them");
  }
}

}  // namespace

int Cluster::num_nodes() const {
  int most = -1;
  for (const ClusterPart& part : parts) most = std::max(most, part.node);
  return most + 1;
}

std::vector<int> Cluster::parts_of(PartKind kind) const {
  std::vector<int> found;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].kind == kind) found.push_back(static_cast<int>(i));
  }
  return found;
}

void check_cluster(const Cluster& cluster, const std::string& where) {
  std::set<std::string> names;
  for (const ClusterPart& part : cluster.parts) {
    if (!names.insert(part.name).second) {
      fail(ErrorKind::kInput, where, ": two parts are named ", part.name);
    }
    check_part(cluster, part, where);
  }
  for (const ClusterLink& link : cluster.links) check_link(cluster, link, where);
  check_reach(cluster, where);
}

std::vector<int> default_rank_parts(const Cluster& cluster, int num_ranks, bool on_cpu) {
  const std::vector<int> gpus = cluster.parts_of(PartKind::kGpu);
  if (!on_cpu && !gpus.empty()) {
    if (num_ranks > static_cast<int>(gpus.size())) {
      fail(ErrorKind::kInput, "machine ", cluster.name, " has ", gpus.size(), " GPUs, not the ",
           num_ranks, " that as many ranks need");
    }
    return {gpus.begin(), gpus.begin() + num_ranks};
  }
  const std::vector<int> cpus = cluster.parts_of(PartKind::kCpu);
  if (cpus.empty()) fail(ErrorKind::kInput, "machine ", cluster.name, " has no CPU part");
  std::vector<int64_t> cores_up_to;  // this part and those before it
  for (const int part : cpus) {
    const int cores = std::max(1, cluster.parts[static_cast<size_t>(part)].num_cores);
    cores_up_to.push_back((cores_up_to.empty() ? 0 : cores_up_to.back()) + cores);
  }
  std::vector<int> parts;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    const int64_t core = rank * cores_up_to.back() / num_ranks;
    const auto holder = std::upper_bound(cores_up_to.begin(), cores_up_to.end(), core);
    parts.push_back(cpus[static_cast<size_t>(holder - cores_up_to.begin())]);
  }
  return parts;
}

}  // namespace colibri
