// Random weights of a model's shape, made in memory: what benchmarks run when there is no
// checkpoint. They are read through the same calls as a file's.
#pragma once

#include <cstdint>
#include <memory>

#include "model/tensor_source.h"
#include "model/weight_format.h"

namespace colibri {

// Every matrix is stored in the form that `formats` keep it in (as stored: bf16), so reading it is
// a copy. Values have mean 0 and a spread of 1 / sqrt(columns), which keeps activations in range;
// norms are 1, biases 0. A matrix is a stretch of one table of its form and width, begun at a place
// that role, layer and expert decide: no two are alike, and a table is small. The same `seed` gives
// the same weights on every rank. Memory: a few MB. Errors: kInput as model_shape().
std::shared_ptr<const TensorSource> make_random_source(const ModelConfig& config,
                                                       const WeightFormats& formats, uint64_t seed);

// `config` with its first `num_layers` layers, of which dense ones keep their share and are no more
// than there were; with `scale_vocab` the vocabulary shrinks alike (to a multiple of 64), so that
// the head keeps its share of the work. Fails with kInput when num_layers is not in [1, L].
ModelConfig cut_layers(const ModelConfig& config, int num_layers, bool scale_vocab);

}  // namespace colibri
