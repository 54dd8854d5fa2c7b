// Finds every tensor a configuration asks for among the entries of the files, and accounts for the
// rest.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/checkpoint.h"
#include "model/safetensors.h"

namespace colibri {

// Where one matrix or vector lies; a packed expert is a part of an entry.
struct TensorPlace {
  int file_idx = 0;
  int entry_idx = 0;
  uint64_t offset_bytes = 0, size_bytes = 0;
  int64_t rows = 0, cols = 0;
  BlockScales scales;  // F8_E4M3 only
};

struct TensorMatch {
  std::unordered_map<uint64_t, TensorPlace> places;  // by pack_key
  uint64_t used_bytes = 0, expert_bytes = 0;         // block scales included
  int num_used_entries = 0;
  std::set<DType> dtypes;             // of all used tensors but block scales
  std::optional<DType> expert_dtype;  // of the first expert found
  std::vector<std::string> ignored;   // name and reason
  // lm_head.weight beside a tied embedding: its bytes are still to be compared.
  std::optional<TensorPlace> tied_head;
};

uint64_t pack_key(const TensorKey& key);

// An F8_E4M3 weight takes its block scales from the tensor "<name>_scale_inv".
// Errors: kInput for a tensor that is missing (with the wanted shape and near names), has another
// shape, stands in two files, is not in the file that the index names (`weight_map`, empty without
// one), or is neither used nor ignored, and for FP8 weights that quantization_config does not
// announce (or the other way round); kUnsupported for other quantised and transposed forms. `where`
// names the checkpoint. Memory: a multiple of the number of entries, not of what the configuration
// claims.
TensorMatch match_tensors(const ModelConfig& config, const std::vector<SafetensorsFile>& files,
                          const std::vector<std::pair<std::string, int>>& weight_map,
                          const std::string& where);

}  // namespace colibri
