#include "launch/recorded_loads.h"

#include <filesystem>

#include "topology/load_file.h"

namespace colibri {

ExpertLoads read_earlier_loads(const CommonOptions& options, const ModelShape& shape) {
  ExpertLoads loads = empty_loads(shape, /*with_pairs=*/true);
  std::error_code code;
  if (options.loads_decay <= 0 || !std::filesystem::exists(options.record_loads, code)) {
    return loads;
  }
  ExpertLoads earlier = read_loads(options.record_loads, shape);
  merge_loads(earlier, loads, options.loads_decay);
  return earlier;
}

void write_recorded_loads(const CommonOptions& options, const ModelShape& shape,
                          const ExpertLoads& loads) {
  ExpertLoads all = read_earlier_loads(options, shape);
  merge_loads(all, loads, 1);
  write_loads(options.record_loads, all);
}

}  // namespace colibri
