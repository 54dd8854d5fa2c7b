#include "model/container.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "model/checksum.h"
#include "model/fingerprint.h"
#include "model/input_file.h"
#include "model/tensor_match.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWant = "a .colibri file";
constexpr uint64_t kVerifyPieceBytes = 4 << 20;

std::string read_front(const InputFile& file, ContainerIndex& index) {
  std::string first(std::min(kContainerHeaderBytes, file.size_bytes()), '\0');
  file.read(0, first.size(), first.data());
  const ContainerHeader header = parse_container_header(first, file.size_bytes(), file.path());
  std::string records(header.index_bytes, '\0');
  file.read(header.index_offset_bytes, records.size(), records.data());
  index = parse_container_index(header, records, file.path());
  return first + records;
}

bool may_be_quantised(TensorRole role) {
  const WeightFormats all_q8{WeightFormat::kQ8, WeightFormat::kQ8};
  return kept_dtype(role, DType::kF32, all_q8) == DType::kQ8;
}

// Holds the tensors of an index against a configuration: each one there, of its shape, none too
// many.
class IndexCheck {
 public:
  IndexCheck(const ModelConfig& config, const ContainerIndex& index, const std::string& where)
      : config_(config), where_(where) {
    for (const ContainerTensor& tensor : index.tensors)
      by_key_.emplace(pack_key(tensor.key), &tensor);
  }

  void run() {
    for (const TensorKey& key : tensor_keys(config_)) require(key);
    if (num_found_ == by_key_.size()) return;
    fail(ErrorKind::kInput, where_, ": holds ", by_key_.size(), " tensors, its configuration asks ",
         "for ", num_found_, "; the file is damaged: convert again");
  }

 private:
  void require(const TensorKey& key) {
    const auto found = by_key_.find(pack_key(key));
    const WantedShape want = wanted_shape(config_, key.role);
    if (found == by_key_.end()) {
      fail(ErrorKind::kInput, where_, ": no ", to_string(key), " [", want.rows, ", ", want.cols,
           "], which its configuration asks for; the file is damaged: convert again");
    }
    const ContainerTensor& tensor = *found->second;
    if (tensor.rows != want.rows || tensor.cols != want.cols) {
      fail(ErrorKind::kInput, where_, ": ", to_string(key), " is [", tensor.rows, ", ", tensor.cols,
           "], its configuration asks for [", want.rows, ", ", want.cols,
           "]; the file is damaged: convert again");
    }
    check_type(tensor);
    ++num_found_;
  }

  void check_type(const ContainerTensor& tensor) {
    if (is_quantised(tensor.dtype) && !may_be_quantised(tensor.key.role)) {
      fail(ErrorKind::kInput, where_, ": ", to_string(tensor.key), " is ", to_string(tensor.dtype),
           ", want f32 or bf16; the file is damaged: convert again");
    }
    if (tensor.key.expert < 0) return;
    if (!expert_dtype_) expert_dtype_ = tensor.dtype;
    if (*expert_dtype_ == tensor.dtype) return;
    fail(ErrorKind::kInput, where_, ": ", to_string(tensor.key), " is ", to_string(tensor.dtype),
         ", other experts are ", to_string(*expert_dtype_), "; want one form for all");
  }

  const ModelConfig& config_;
  const std::string& where_;
  std::unordered_map<uint64_t, const ContainerTensor*> by_key_;
  std::optional<DType> expert_dtype_;
  size_t num_found_ = 0;
};

class ContainerSource : public TensorSource {
 public:
  explicit ContainerSource(const fs::path& path) : file_(InputFile::open(path, kWant)) {
    path_ = path;
    const std::string front = read_front(file_, index_);
    const auto config = text("config.json");
    if (!config) fail(ErrorKind::kInput, file_.path(), ": holds no config.json; convert again");
    config_ = parse_model_config(*config, file_.path() + " (config.json)");
    IndexCheck(config_, index_, file_.path()).run();
    for (size_t i = 0; i < index_.tensors.size(); ++i) {
      by_key_.emplace(pack_key(index_.tensors[i].key), i);
    }
    tie_head();
    Fingerprint hash;
    hash.add(front);
    fingerprint_ = hash.hex();
    summarise();
  }

  std::optional<std::string> text(const std::string& name) const override {
    for (const ContainerText& entry : index_.texts) {
      if (entry.name != name) continue;
      std::string bytes(entry.size_bytes, '\0');
      file_.read(entry.offset_bytes, entry.size_bytes, bytes.data());
      if (Checksum::of(bytes.data(), bytes.size()) == entry.checksum) return bytes;
      fail(ErrorKind::kInput, file_.path(), ": ", name,
           " does not match its checksum; the file is ", "damaged: copy or convert it again");
    }
    return std::nullopt;
  }

  bool has(const TensorKey& key) const override { return by_key_.count(pack_key(key)) != 0; }

  TensorRange range(const TensorKey& key) const override {
    const auto found = by_key_.find(pack_key(key));
    check(found != by_key_.end(), "no tensor for ", to_string(key), " in ", path_.string());
    const ContainerTensor& tensor = index_.tensors[found->second];
    return {.name = to_string(key),
            .file_idx = 0,
            .offset_bytes = tensor.offset_bytes,
            .size_bytes = tensor.size_bytes,
            .dtype = tensor.dtype,
            .rows = tensor.rows,
            .cols = tensor.cols,
            .scales = {}};
  }

  void read(int, uint64_t offset_bytes, uint64_t size_bytes, void* into) const override {
    file_.read(offset_bytes, size_bytes, into);
  }

  void forget(int, uint64_t offset_bytes, uint64_t size_bytes) const override {
    file_.forget(offset_bytes, size_bytes);
  }

 private:
  void tie_head() {
    if (!config_.tied_embeddings) return;
    const size_t embedding = by_key_.at(pack_key({TensorRole::kEmbedding, -1, -1}));
    by_key_.emplace(pack_key({TensorRole::kLmHead, -1, -1}), embedding);
  }

  // Also tells the configuration what is stored.
  void summarise() {
    std::set<std::string> dtypes;
    for (const ContainerTensor& tensor : index_.tensors) {
      dtypes.insert(to_string(tensor.dtype));
      summary_.total_bytes += tensor.size_bytes;
      if (tensor.key.expert >= 0) {
        summary_.expert_bytes += tensor.size_bytes;
        config_.checkpoint_dtype = tensor.dtype;
      } else if (tensor.key.role == TensorRole::kEmbedding) {
        config_.wide_dtype = tensor.dtype;
      } else if (may_be_quantised(tensor.key.role)) {
        config_.dense_dtype = tensor.dtype;
      }
    }
    summary_.num_files = 1;
    summary_.num_tensors = static_cast<int>(index_.tensors.size());
    summary_.dtypes.assign(dtypes.begin(), dtypes.end());
  }

  InputFile file_;
  ContainerIndex index_;
  std::unordered_map<uint64_t, size_t> by_key_;
};

// A range of the file with its checksum.
struct Part {
  std::string name;
  uint64_t offset_bytes, size_bytes, checksum;
};

std::vector<Part> parts_of(const ContainerIndex& index) {
  std::vector<Part> parts;
  for (const ContainerText& text : index.texts) {
    parts.push_back({text.name, text.offset_bytes, text.size_bytes, text.checksum});
  }
  for (const ContainerTensor& tensor : index.tensors) {
    parts.push_back(
        {to_string(tensor.key), tensor.offset_bytes, tensor.size_bytes, tensor.checksum});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.offset_bytes < b.offset_bytes; });
  return parts;
}

bool is_damaged(const InputFile& file, const Part& part,
                const std::function<void(uint64_t)>& on_bytes) {
  Checksum checksum;
  std::string piece(std::min(kVerifyPieceBytes, part.size_bytes), '\0');
  for (uint64_t at = 0; at < part.size_bytes; at += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), part.size_bytes - at);
    file.read(part.offset_bytes + at, bytes, piece.data());
    checksum.add(piece.data(), bytes);
    on_bytes(bytes);
  }
  return checksum.value() != part.checksum;
}

}  // namespace

ContainerIndex read_container_index(const fs::path& path) {
  const InputFile file = InputFile::open(path, kWant);
  ContainerIndex index;
  read_front(file, index);
  return index;
}

std::shared_ptr<const TensorSource> open_container(const fs::path& path) {
  return std::make_shared<ContainerSource>(path);
}

std::vector<std::string> damaged_parts(const fs::path& path, ThreadPool& pool,
                                       const std::function<void(uint64_t)>& on_bytes) {
  const InputFile file = InputFile::open(path, kWant);
  ContainerIndex index;
  read_front(file, index);
  const std::vector<Part> parts = parts_of(index);
  std::vector<char> damaged(parts.size(), 0);
  pool.run(static_cast<int64_t>(parts.size()), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    damaged[at] = is_damaged(file, parts[at], on_bytes) ? 1 : 0;
  });
  std::vector<std::string> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (damaged[i] != 0) names.push_back(parts[i].name);
  }
  return names;
}

}  // namespace colibri
