#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "topology/route_file.h"
#include "topology/route_file_format.h"

namespace colibri {

RouteFileHeader route_file_header(const ModelShape& shape) {
  return {.family = shape.family,
          .fingerprint = shape.fingerprint,
          .num_layers = shape.num_layers,
          .num_experts = shape.num_experts,
          .top_k = shape.top_k,
          .layer_is_moe = shape.layer_is_moe};
}

RouteFileWriter::RouteFileWriter(const std::filesystem::path& path, const RouteFileHeader& header)
    : path_(path),
      temporary_(path.string() + ".partial." + std::to_string(getpid())),
      header_(header),
      file_(std::fopen(temporary_.c_str(), "wb")) {
  if (!file_) {
    fail(ErrorKind::kInput, "cannot write ", path.string(), ": ", std::strerror(errno),
         "; want a file in a directory that exists and may be written to");
  }
  write(route_format::kMagic, sizeof route_format::kMagic);
  write_u32(route_format::kVersion);
  write_u32(static_cast<uint32_t>(header.num_layers));
  write_u32(static_cast<uint32_t>(header.num_experts));
  write_u32(static_cast<uint32_t>(header.top_k));
  write_text(header.family);
  write_text(header.fingerprint);
  for (const bool is_moe : header.layer_is_moe) {
    const unsigned char flag = is_moe ? 1 : 0;
    write(&flag, 1);
  }
}

RouteFileWriter::~RouteFileWriter() {
  if (!file_) return;
  file_.reset();
  std::remove(temporary_.c_str());
}

void RouteFileWriter::write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) != bytes) {
    fail(ErrorKind::kEnvironment, "cannot write ", bytes, " bytes to ", temporary_.string(), ": ",
         std::strerror(errno));
  }
}

void RouteFileWriter::write_u32(uint32_t value) { write(&value, sizeof value); }
void RouteFileWriter::write_u64(uint64_t value) { write(&value, sizeof value); }

void RouteFileWriter::write_text(const std::string& text) {
  check(text.size() <= route_format::kMaxTextBytes, "text of ", text.size(), " bytes");
  write_u32(static_cast<uint32_t>(text.size()));
  write(text.data(), text.size());
}

void RouteFileWriter::begin_step(std::span<const RouteToken> tokens) {
  check(!tokens.empty(), "a step without tokens");
  num_tokens_ = tokens.size();
  ++num_steps_;
  write_u32(route_format::kTokens);
  write_u32(static_cast<uint32_t>(tokens.size()));
  static_assert(sizeof(RouteToken) == 12);
  write(tokens.data(), tokens.size_bytes());
}

void RouteFileWriter::add_layer(int layer, std::span<const int32_t> expert_ids,
                                std::span<const float> weights) {
  const size_t count = num_tokens_ * static_cast<size_t>(header_.top_k);
  check(num_steps_ > 0 && expert_ids.size() == count && weights.size() == count, "layer ", layer,
        ": ", expert_ids.size(), " choices and ", weights.size(), " weights, want ", count);
  narrow_ids_.assign(expert_ids.begin(), expert_ids.end());
  write_u32(route_format::kLayer);
  write_u32(static_cast<uint32_t>(layer));
  write(narrow_ids_.data(), count * sizeof(uint16_t));
  write(weights.data(), weights.size_bytes());
  ++num_blocks_;
}

void RouteFileWriter::commit() {
  write_u32(route_format::kEnd);
  write_u64(num_steps_);
  write_u64(num_blocks_);
  const bool flushed = std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0;
  if (!flushed || std::fclose(file_.release()) != 0) {
    const int reason = errno;
    file_.reset();
    std::remove(temporary_.c_str());
    fail(ErrorKind::kEnvironment, "cannot finish ", temporary_.string(), ": ",
         std::strerror(reason));
  }
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (!error) return;
  std::remove(temporary_.c_str());
  fail(ErrorKind::kEnvironment, "cannot name ", path_.string(), ": ", error.message());
}

}  // namespace colibri
