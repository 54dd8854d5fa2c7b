// A record of which experts each token chose in each layer, with the weights they got: written
// while a model runs (--record-routes), read by inspect, bench and the planner. The bytes are
// docs/routes.md.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/model_shape.h"

namespace colibri {

struct RouteFileHeader {
  std::string family;              // of ModelShape
  std::string fingerprint;         // of ModelShape
  int num_layers = 0;              // L, dense layers included
  int num_experts = 0;             // E
  int top_k = 0;                   // K
  std::vector<bool> layer_is_moe;  // [L]

  bool operator==(const RouteFileHeader&) const = default;
};
RouteFileHeader route_file_header(const ModelShape& shape);

// Who a row of choices belongs to.
struct RouteToken {
  int32_t sequence = 0;  // the request's number, counted from 0
  int32_t position = 0;  // in that sequence
  int32_t id = 0;        // token id

  bool operator==(const RouteToken&) const = default;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OwnedFile = std::unique_ptr<std::FILE, CloseFile>;

// Writes under a temporary name; commit() ends the file and renames it. Without commit() nothing is
// left. Memory does not grow with the file. One thread at a time.
class RouteFileWriter {
 public:
  // Errors: kInput when the file cannot be made.
  RouteFileWriter(const std::filesystem::path& path, const RouteFileHeader& header);
  ~RouteFileWriter();
  RouteFileWriter(const RouteFileWriter&) = delete;
  RouteFileWriter& operator=(const RouteFileWriter&) = delete;

  // The tokens [T] of a step, at least one, then the choices of its layers in ascending order:
  // expert_ids [T, K] ascending in each row, weights [T, K]. kEnvironment when the disk is full.
  void begin_step(std::span<const RouteToken> tokens);
  void add_layer(int layer, std::span<const int32_t> expert_ids, std::span<const float> weights);

  void commit();

 private:
  void write(const void* data, size_t bytes);
  void write_u32(uint32_t value);
  void write_u64(uint64_t value);
  void write_text(const std::string& text);

  std::filesystem::path path_, temporary_;
  RouteFileHeader header_;
  OwnedFile file_;
  size_t num_tokens_ = 0;  // of the step
  uint64_t num_steps_ = 0, num_blocks_ = 0;
  std::vector<uint16_t> narrow_ids_;
};

// One layer's choices in one step.
struct RouteBlock {
  int64_t step = 0;  // counted from 0
  int layer = 0;
  std::vector<RouteToken> tokens;   // [T]
  std::vector<int32_t> expert_ids;  // [T, K] in [0, E), ascending in each row
  std::vector<float> weights;       // [T, K] as recorded: not finite when the router was damaged
};

// Reads a file from its beginning to its end, one block at a time. The file is untrusted: every
// number is checked, and sizes against what is left of the file before memory is taken.
class RouteFileReader {
 public:
  // Errors: kEnvironment when the file cannot be read; kInput, naming path and byte, for a file
  // that is no route record, is cut, or holds what no record holds; kUnsupported for another
  // version.
  explicit RouteFileReader(const std::filesystem::path& path);

  const RouteFileHeader& header() const { return header_; }

  // The next block into `block`; false after the last one. Errors as above.
  bool next(RouteBlock& block);

 private:
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const;
  void read(void* data, uint64_t bytes, const char* what);
  uint32_t read_u32(const char* what);
  uint64_t read_u64(const char* what);
  std::string read_text(const char* what);
  void read_header();
  void read_tokens(RouteBlock& block);
  void read_layer(RouteBlock& block);
  void read_end();
  void check_choices(const RouteBlock& block) const;

  std::filesystem::path path_;
  OwnedFile file_;
  uint64_t size_ = 0, at_ = 0;
  RouteFileHeader header_;
  uint64_t num_steps_ = 0, num_blocks_ = 0;
  int last_layer_ = -1;  // of the step
  bool ended_ = false;
  std::vector<uint16_t> narrow_ids_;
};

}  // namespace colibri
