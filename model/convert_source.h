// The directory that a conversion reads, some of whose files it may already have removed
// (`convert --consume`).
//
// Before a file is removed, a stand-in takes its place in a folder beside the target: the file's
// header and a hole where its data was. Opened from there, a checkpoint has the same tensors at the
// same places and the same fingerprint as before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/checkpoint.h"

namespace colibri {

class ConvertSource {
 public:
  // `stand_ins` is the folder, which need not exist. Errors: as Checkpoint::open; kUnsupported for
  // a .colibri file.
  ConvertSource(const std::filesystem::path& dir, const std::filesystem::path& stand_ins);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  int num_files() const { return static_cast<int>(files_.size()); }
  // Where file `file_idx` of the checkpoint's ranges is, or was.
  const std::filesystem::path& file(int file_idx) const {
    return files_[static_cast<size_t>(file_idx)];
  }
  // Its data may be gone.
  bool is_consumed(int file_idx) const;

  // Fails with kUnsupported when a file is a link: what it leads to is not ours to remove.
  void check_may_consume() const;
  // Removes the file for good. What was made of it is durable. May be called again.
  void consume(int file_idx) const;
  // Removes the folder of stand-ins.
  void forget_stand_ins() const;

 private:
  bool stays_readable(const std::string& tensor) const;
  void make_stand_in(const std::filesystem::path& path) const;

  std::filesystem::path dir_, stand_ins_;
  Checkpoint checkpoint_;
  std::vector<std::filesystem::path> files_;  // in dir_
};

}  // namespace colibri
