#include "launch/plan_input.h"

#include <charconv>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "launch/session_setup.h"
#include "launch/this_machine.h"
#include "model/config.h"
#include "model/weight_format.h"
#include "topology/cluster_file.h"
#include "topology/load_file.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

constexpr uint64_t kZipfSeed = 1;

// A whole number from `low` to `high`.
int number_of(const std::string& option, const std::string& text, int low, int high) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high) {
    fail(ErrorKind::kInput, option, " is '", text, "', want ", low, " to ", high, ", or all");
  }
  return value;
}

}  // namespace

ModelShape shape_of(const CommonOptions& options, bool is_on_gpu) {
  const WeightFormats formats = parse_weight_formats(options.weights, options.dense_weights);
  const Checkpoint checkpoint = open_model(options, formats);
  return model_shape(checkpoint.config(), formats, parse_kv_dtype(options.kv_dtype, is_on_gpu));
}

Cluster machine_named(const std::string& name) {
  return name == "auto" ? this_machine().cluster : find_cluster(name);
}

bool runs_on_gpus(const Cluster& cluster, const CommonOptions& options) {
  return options.device != "cpu" && !cluster.parts_of(PartKind::kGpu).empty();
}

RankMap ranks_on(const Cluster& cluster, int num_ranks, bool on_gpus,
                 const std::string& coordinators) {
  int ranks = num_ranks;
  if (ranks == 0) ranks = on_gpus ? static_cast<int>(cluster.parts_of(PartKind::kGpu).size()) : 1;
  const int num_coordinators =
      coordinators == "all" ? ranks : number_of("--coordinators", coordinators, 1, ranks);
  // Spread, so that each has neighbours to send to.
  std::vector<int> list;
  for (int c = 0; c < num_coordinators; ++c) {
    list.push_back(static_cast<int>(int64_t{c} * ranks / num_coordinators));
  }
  return RankMap(cluster, default_rank_parts(cluster, ranks, !on_gpus), std::move(list));
}

std::vector<std::vector<double>> shares_named(const std::string& routing, const ModelShape& shape) {
  if (routing == "uniform") return uniform_shares(shape);
  constexpr std::string_view kZipf = "zipf:";
  if (routing.rfind(kZipf, 0) == 0) {
    double skew = 0;
    const char* const end = routing.data() + routing.size();
    const auto [stop, error] = std::from_chars(routing.data() + kZipf.size(), end, skew);
    if (error == std::errc() && stop == end && skew >= 0 && skew <= 20) {
      return zipf_shares(shape, skew, kZipfSeed);
    }
  }
  if (routing.rfind(kZipf, 0) == 0) {
    fail(ErrorKind::kInput, "'", routing, "' wants zipf:S with S from 0 to 20");
  }
  std::error_code code;
  if (!std::filesystem::is_regular_file(routing, code)) {
    fail(ErrorKind::kInput, "'", routing, "' is no file of --record-loads, uniform or zipf:S");
  }
  return loaded_shares(shape, read_loads(routing, shape));
}

}  // namespace colibri
