// Which files of a Hugging Face directory hold the weights.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri {

struct WeightFiles {
  std::vector<std::filesystem::path> paths;  // sorted by file name
  // Of the index, sorted by tensor name: tensor, index into paths. Empty without an index.
  std::vector<std::pair<std::string, int>> weight_map;
};

// Whether `path` is a file that is named .colibri, or begins like one.
bool is_container_file(const std::filesystem::path& path);

// Fails unless `dir` is a directory: kEnvironment with the command that downloads it for an
// org/name, kInput for a file.
void require_model_directory(const std::filesystem::path& dir);

// The files that the text of a model.safetensors.index.json names, as paths in `dir`; touches no
// file. Errors: kInput for another form, and for a name that is no plain name of a file beside it.
WeightFiles parse_weight_index(std::string_view text, const std::filesystem::path& dir,
                               const std::string& where);

// From model.safetensors.index.json, else the single model.safetensors. Every named file exists.
// Errors: kInput naming the file, and what the directory holds if it has neither.
WeightFiles find_weight_files(const std::filesystem::path& dir);

}  // namespace colibri
