#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "topology/route_file.h"
#include "topology/route_file_format.h"

namespace colibri {

template <class... Parts>
void RouteFileReader::wrong(const Parts&... parts) const {
  fail(ErrorKind::kInput, path_.string(), ": byte ", at_, ": ", parts...);
}

namespace {

// A pipe would block before it can be refused.
OwnedFile open_regular(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(ErrorKind::kInput, path.string(), " is not a file; want one that --record-routes wrote");
  }
  OwnedFile file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    fail(ErrorKind::kEnvironment, path.string(), ": cannot be read: ", std::strerror(errno),
         "; want a file that --record-routes wrote");
  }
  return file;
}

}  // namespace

RouteFileReader::RouteFileReader(const std::filesystem::path& path)
    : path_(path), file_(open_regular(path)), size_(std::filesystem::file_size(path)) {
  read_header();
}

void RouteFileReader::read(void* data, uint64_t bytes, const char* what) {
  if (bytes > size_ - at_ || std::fread(data, 1, bytes, file_.get()) != bytes) {
    wrong("the file ends after ", size_ - at_, " of ", bytes, " bytes of ", what,
          "; was the run that wrote it cut short, or the file copied in part?");
  }
  at_ += bytes;
}

uint32_t RouteFileReader::read_u32(const char* what) {
  uint32_t value = 0;
  read(&value, sizeof value, what);
  return value;
}

uint64_t RouteFileReader::read_u64(const char* what) {
  uint64_t value = 0;
  read(&value, sizeof value, what);
  return value;
}

std::string RouteFileReader::read_text(const char* what) {
  const uint32_t bytes = read_u32(what);
  if (bytes > route_format::kMaxTextBytes) {
    wrong(what, " of ", bytes, " bytes, want at most ", route_format::kMaxTextBytes);
  }
  std::string text(bytes, '\0');
  read(text.data(), bytes, what);
  for (const char c : text) {
    if (c < ' ' || c > '~') wrong(what, " holds a byte that is no printable ASCII");
  }
  return text;
}

void RouteFileReader::read_header() {
  char magic[sizeof route_format::kMagic] = {};
  if (size_ < sizeof magic || (read(magic, sizeof magic, "the magic"),
                               std::memcmp(magic, route_format::kMagic, sizeof magic) != 0)) {
    fail(ErrorKind::kInput, path_.string(),
         " is no route record: want a file that --record-routes wrote, which begins with CLBROUTE");
  }
  const uint32_t version = read_u32("the version");
  if (version != route_format::kVersion) {
    fail(ErrorKind::kUnsupported, path_.string(), " is a route record of version ", version,
         ", this build reads version ", route_format::kVersion);
  }
  const uint32_t layers = read_u32("the number of layers");
  const uint32_t experts = read_u32("the number of experts");
  const uint32_t top_k = read_u32("the experts per token");
  if (layers < 1 || layers > route_format::kMaxLayers || experts < 1 ||
      experts > route_format::kMaxExperts || top_k < 1 || top_k > experts) {
    wrong(layers, " layers, ", experts, " experts, ", top_k, " per token; want 1 to ",
          route_format::kMaxLayers, ", 1 to ", route_format::kMaxExperts, " and 1 to all of them");
  }
  header_.num_layers = static_cast<int>(layers);
  header_.num_experts = static_cast<int>(experts);
  header_.top_k = static_cast<int>(top_k);
  header_.family = read_text("the family");
  header_.fingerprint = read_text("the fingerprint");
  for (uint32_t layer = 0; layer < layers; ++layer) {
    unsigned char flag = 0;
    read(&flag, 1, "the layers' kinds");
    if (flag > 1) wrong("layer ", layer, " is of kind ", int{flag}, ", want 0 (dense) or 1");
    header_.layer_is_moe.push_back(flag == 1);
  }
}

bool RouteFileReader::next(RouteBlock& block) {
  while (!ended_) {
    switch (const uint32_t kind = read_u32("a block's kind"); kind) {
      case route_format::kTokens:
        read_tokens(block);
        break;
      case route_format::kLayer:
        read_layer(block);
        return true;
      case route_format::kEnd:
        read_end();
        break;
      default:
        wrong("block of kind ", kind, ", want 1 (tokens), 2 (a layer) or 3 (the end)");
    }
  }
  return false;
}

void RouteFileReader::read_tokens(RouteBlock& block) {
  const uint64_t count = read_u32("a step's number of tokens");
  if (count == 0) wrong("a step without tokens");
  if (count > (size_ - at_) / sizeof(RouteToken)) {
    wrong("a step of ", count, " tokens, but only ", size_ - at_, " bytes are left");
  }
  block.tokens.resize(count);
  read(block.tokens.data(), count * sizeof(RouteToken), "a step's tokens");
  for (const RouteToken& token : block.tokens) {
    if (token.sequence >= 0 && token.position >= 0 && token.id >= 0) continue;
    wrong("token ", token.id, " of sequence ", token.sequence, " at position ", token.position,
          ", want numbers from 0");
  }
  block.step = static_cast<int64_t>(num_steps_++);
  last_layer_ = -1;
}

void RouteFileReader::read_layer(RouteBlock& block) {
  if (num_steps_ == 0) wrong("a layer before the first step's tokens");
  const uint32_t layer = read_u32("a layer's number");
  if (layer >= static_cast<uint32_t>(header_.num_layers)) {
    wrong("layer ", layer, ", want 0 to ", header_.num_layers - 1);
  }
  if (!header_.layer_is_moe[layer]) wrong("layer ", layer, " has choices but no experts");
  if (static_cast<int>(layer) <= last_layer_) {
    wrong("layer ", layer, " after layer ", last_layer_, " of one step, want ascending layers");
  }
  block.layer = last_layer_ = static_cast<int>(layer);
  const uint64_t count = block.tokens.size() * static_cast<uint64_t>(header_.top_k);
  if (count > (size_ - at_) / (sizeof(uint16_t) + sizeof(float))) {
    wrong("layer ", layer, " wants ", count, " choices, but only ", size_ - at_,
          " bytes are left: the file is cut");
  }
  narrow_ids_.resize(count);
  block.weights.resize(count);
  read(narrow_ids_.data(), count * sizeof(uint16_t), "a layer's experts");
  read(block.weights.data(), count * sizeof(float), "a layer's weights");
  block.expert_ids.assign(narrow_ids_.begin(), narrow_ids_.end());
  check_choices(block);
  ++num_blocks_;
}

void RouteFileReader::check_choices(const RouteBlock& block) const {
  const auto k = static_cast<size_t>(header_.top_k);
  for (size_t i = 0; i < block.expert_ids.size(); ++i) {
    const int32_t expert = block.expert_ids[i];
    const RouteToken& token = block.tokens[i / k];
    if (expert >= header_.num_experts) {
      wrong("layer ", block.layer, ", sequence ", token.sequence, ", position ", token.position,
            ": expert ", expert, ", want 0 to ", header_.num_experts - 1);
    }
    if (i % k > 0 && expert <= block.expert_ids[i - 1]) {
      wrong("layer ", block.layer, ", sequence ", token.sequence, ", position ", token.position,
            ": expert ", expert, " after ", block.expert_ids[i - 1], ", want ascending experts");
    }
  }
}

void RouteFileReader::read_end() {
  const uint64_t steps = read_u64("the number of steps");
  const uint64_t blocks = read_u64("the number of layers' blocks");
  if (steps != num_steps_ || blocks != num_blocks_) {
    wrong("the end tells of ", steps, " steps and ", blocks, " layers' blocks, but ", num_steps_,
          " and ", num_blocks_, " came: part of the file is missing");
  }
  if (at_ != size_) wrong(size_ - at_, " bytes after the end");
  ended_ = true;
}

}  // namespace colibri
