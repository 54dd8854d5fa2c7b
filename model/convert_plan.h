// What a conversion will write, decided before a byte of the weights is read: which tensors in
// which form, where each lies in the new file, and in which order they are made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/container_format.h"
#include "model/weight_format.h"

namespace colibri {

// Tensors that are made together: one, or an expert's three.
struct ConvertBlob {
  size_t first_tensor = 0, num_tensors = 0;  // in ConvertPlan::index.tensors
  uint64_t size_bytes = 0;
  std::vector<int> source_files;  // indices of the files it reads, ascending
};

struct ConvertPlan {
  ContainerIndex index;              // checksums of the texts only
  std::vector<TensorRange> sources;  // of each tensor of the index
  std::vector<ConvertBlob> blobs;    // in the order of the source's files
  std::vector<std::string> texts;    // the bytes of index.texts
  uint64_t weight_bytes = 0;         // of all tensors
  // Hash of the source's fingerprint and of the index: a conversion that resumes must have it.
  std::string identity;
};

// Errors: kInput naming the tensor whose rows a quantised form cannot group.
ConvertPlan plan_conversion(const Checkpoint& checkpoint, const WeightFormats& formats);

}  // namespace colibri
