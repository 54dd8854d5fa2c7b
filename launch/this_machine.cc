#include "launch/this_machine.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "launch/cuda_backend.h"
#include "topology/cluster_file.h"
#include "topology/probe_nvml.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

void add_links_that_cuda_sees(ProbedCluster& machine) {
  try {
    const GpuProbe probe = open_cuda_backend().probe_gpus();
    add_gpu_links(probe.gpus, machine);
    if (!probe.problem.empty()) machine.notes.push_back("NVLink is not seen: " + probe.problem);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    machine.notes.push_back("NVLink is not seen: " + std::string(error.what()));
  }
}

// Of adapters that tell no rate.
constexpr const char* kNetworkLink = "ib-400g";

// A host as one rank tells it to another.
std::string told(const ProbedCluster& machine) {
  const nlohmann::json host = {{"machine", cluster_text(machine.cluster, "the host itself")},
                               {"notes", machine.notes}};
  return host.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ProbedCluster heard(const std::vector<std::byte>& bytes, size_t rank) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto host = nlohmann::json::parse(text, text + bytes.size(), nullptr, false);
  check(host.is_object() && host.contains("machine") && host.contains("notes"), "rank ", rank,
        "'s machine is no JSON; are all ranks of one build?");
  return {parse_cluster(host.at("machine").get<std::string>(),
                        "the machine of rank " + std::to_string(rank)),
          host.at("notes").get<std::vector<std::string>>()};
}

bool has_silent_nic(const Cluster& cluster) {
  const auto is_told = [&](int nic) {
    return std::any_of(cluster.links.begin(), cluster.links.end(), [&](const ClusterLink& link) {
      return link.a == nic && cluster.parts[static_cast<size_t>(link.b)].kind == PartKind::kFabric;
    });
  };
  const std::vector<int> nics = cluster.parts_of(PartKind::kNic);
  return !std::all_of(nics.begin(), nics.end(), is_told);
}

ProbedCluster joined(const std::vector<std::vector<std::byte>>& gathered) {
  std::vector<Cluster> hosts;
  std::vector<std::string> notes;
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    if (gathered[rank].empty()) continue;  // not the first of its host
    ProbedCluster host = heard(gathered[rank], rank);
    for (const std::string& note : host.notes) {
      notes.push_back("node " + std::to_string(hosts.size()) + ": " + note);
    }
    hosts.push_back(std::move(host.cluster));
  }
  if (hosts.size() > 1 && std::any_of(hosts.begin(), hosts.end(), has_silent_nic)) {
    notes.push_back(std::string("adapters that tell no rate are taken for ") + kNetworkLink);
  }
  return {joined_nodes(hosts, kNetworkLink), std::move(notes)};
}

}  // namespace

ProbedCluster this_machine() {
  ProbedCluster machine = probe_cluster();
  const NvmlProbe nvml = probe_nvml();
  if (!nvml.problem.empty()) machine.notes.push_back(nvml.problem);
  if (!nvml.gpus.empty()) {
    add_gpus(nvml.gpus, machine);
  } else if (!machine.cluster.parts_of(PartKind::kGpu).empty()) {
    add_links_that_cuda_sees(machine);
  }
  return machine;
}

ProbedCluster machine_of_ranks(RankContext& context, int64_t timeout_ms,
                               const std::function<ProbedCluster()>& see) {
  const std::string what = "describing the machine";
  std::string mine;
  ProbedCluster alone;
  agreed(context, what, timeout_ms, [&] {
    if (context.transport == nullptr) {
      alone = see();
    } else if (context.local_rank == 0) {
      mine = told(see());
    }
  });
  if (context.transport == nullptr) return alone;
  ProbedCluster all;
  std::vector<std::vector<std::byte>> gathered;
  try {
    gathered = gather(*context.transport, std::as_bytes(std::span(mine.data(), mine.size())),
                      Deadline::after_ms(timeout_ms), what);
  } catch (const Error& error) {
    throw AgreedError(error.kind(), error.what());
  }
  agreed(context, what, timeout_ms, [&] {
    if (context.is_root()) all = joined(gathered);
  });
  return all;
}

}  // namespace colibri
