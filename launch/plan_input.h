// What `plan`, `simulate` and `bench --predict` have in common: the model's sizes, the machine, and
// where the ranks run on it.
#pragma once

#include <string>
#include <vector>

#include "base/model_shape.h"
#include "launch/run_config.h"
#include "topology/cluster.h"
#include "topology/rank_map.h"

namespace colibri {

// Sizes of --model or --shape in the forms asked for, without reading weights; keys and values as a
// CPU or a GPU keeps them. Errors as Checkpoint::open, and kInput for an unknown shape.
ModelShape shape_of(const CommonOptions& options, bool is_on_gpu);

// --machine: auto is this machine, else find_cluster().
Cluster machine_named(const std::string& name);

// Whether ranks run on its GPUs: it has some, and --device is not cpu.
bool runs_on_gpus(const Cluster& cluster, const CommonOptions& options);

// Ranks on the machine, 0: one for each GPU, or one on a CPU. `coordinators`: a number, or "all".
// kInput for numbers that do not go together.
RankMap ranks_on(const Cluster& cluster, int num_ranks, bool on_gpus,
                 const std::string& coordinators);

// --routing uniform, zipf:S or a file of --record-loads, as chances. kInput for other words.
std::vector<std::vector<double>> shares_named(const std::string& routing, const ModelShape& shape);

}  // namespace colibri
