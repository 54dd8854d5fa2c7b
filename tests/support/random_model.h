// Whole models of any configuration with random weights, and models in other forms: decoded from
// a format of ours, or as one .colibri file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/weight_format.h"

namespace colibri {

// Writes config.json and model.safetensors: bf16, matrices scaled by their width so that values
// keep their size from layer to layer, norms near 1 and biases small. Same seed, same bytes.
void write_random_model(const std::filesystem::path& dir, const std::string& config_json,
                        uint32_t seed);

// Writes to `dir` the model of `source` as f32, each matrix with the values it has once it is kept
// as `formats` says: q8 and q4 are encoded and decoded again. No quantization_config is left.
void write_decoded_model(const std::filesystem::path& source, const WeightFormats& formats,
                         const std::filesystem::path& dir);

// Writes to `dir` the model of `source` as f32, each tensor's values as `change` leaves them.
using ChangeValues = std::function<void(const TensorKey& key, std::vector<float>& values)>;
void write_changed_model(const std::filesystem::path& source, const ChangeValues& change,
                         const std::filesystem::path& dir);

// Converts the directory `source` to the .colibri file `target`.
void write_container(const std::filesystem::path& source, const WeightFormats& formats,
                     const std::filesystem::path& target);

}  // namespace colibri
