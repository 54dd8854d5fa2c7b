#include "model/convert_plan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/quantised.h"
#include "model/checksum.h"
#include "model/fingerprint.h"
#include "model/tensor_names.h"

namespace colibri {
namespace {

// The small files that belong to a model.
constexpr const char* kTexts[] = {"config.json", "generation_config.json", "tokenizer.json",
                                  "tokenizer_config.json", "chat_template.jinja"};

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const WeightFormats& formats)
      : checkpoint_(checkpoint), formats_(formats) {}

  ConvertPlan run() {
    std::vector<TensorKey> expert;
    for (const TensorKey& key : tensor_keys(checkpoint_.config())) {
      if (key.expert < 0) {
        add_blob({key});
        continue;
      }
      expert.push_back(key);
      if (expert.size() < std::size(kExpertRoles)) continue;
      add_blob(expert);
      expert.clear();
    }
    add_texts();
    place();
    order_by_source();
    plan_.identity = identity();
    return std::move(plan_);
  }

 private:
  void add_blob(const std::vector<TensorKey>& keys) {
    ConvertBlob blob;
    blob.first_tensor = plan_.index.tensors.size();
    blob.num_tensors = keys.size();
    std::set<int> files;
    for (const TensorKey& key : keys) {
      const TensorRange range = checkpoint_.range(key);
      const DType kept = kept_dtype(key.role, range.dtype, formats_);
      check_groups(range, kept);
      const auto bytes = static_cast<uint64_t>(matrix_bytes(kept, range.rows, range.cols));
      plan_.index.tensors.push_back(
          {.key = key, .dtype = kept, .rows = range.rows, .cols = range.cols, .size_bytes = bytes});
      files.insert(range.file_idx);
      if (!range.scales.empty()) files.insert(range.scales.file_idx);
      plan_.sources.push_back(range);
      blob.size_bytes += bytes;
    }
    blob.source_files.assign(files.begin(), files.end());
    plan_.weight_bytes += blob.size_bytes;
    plan_.blobs.push_back(std::move(blob));
  }

  static void check_groups(const TensorRange& range, DType kept) {
    if (!is_quantised(kept) || range.cols % kGroup == 0) return;
    fail(ErrorKind::kInput, "tensor \"", range.name, "\" is [", range.rows, ", ", range.cols,
         "]: its rows cannot be ", to_string(kept), ", which wants a multiple of ", kGroup,
         " values; convert with --weights bf16 and --dense-weights auto");
  }

  void add_texts() {
    for (const char* name : kTexts) {
      auto text = checkpoint_.text(name);
      if (!text) continue;
      plan_.index.texts.push_back({.name = name,
                                   .size_bytes = text->size(),
                                   .checksum = Checksum::of(text->data(), text->size())});
      plan_.texts.push_back(std::move(*text));
    }
  }

  // Index, texts, then blobs, each from a multiple of kContainerAlignment on.
  void place() {
    uint64_t at = plan_.index.front_bytes();
    for (ContainerText& text : plan_.index.texts) {
      text.offset_bytes = align_up(at, kContainerAlignment);
      at = text.offset_bytes + text.size_bytes;
    }
    for (const ConvertBlob& blob : plan_.blobs) {
      at = align_up(at, kContainerAlignment);
      for (size_t i = 0; i < blob.num_tensors; ++i) {
        ContainerTensor& tensor = plan_.index.tensors[blob.first_tensor + i];
        tensor.offset_bytes = align_up(at, kContainerTensorAlignment);
        at = tensor.offset_bytes + tensor.size_bytes;
      }
    }
    plan_.index.file_bytes = at;
  }

  // So that a source file is read from front to back and is done with early.
  void order_by_source() {
    const auto place_of = [this](const ConvertBlob& blob) {
      return std::tuple(blob.source_files.back(), plan_.sources[blob.first_tensor].offset_bytes);
    };
    std::stable_sort(
        plan_.blobs.begin(), plan_.blobs.end(),
        [&](const ConvertBlob& a, const ConvertBlob& b) { return place_of(a) < place_of(b); });
  }

  std::string identity() const {
    Fingerprint hash;
    hash.add(kEncoderVersion);
    hash.add(checkpoint_.fingerprint());
    hash.add(encode_container_front(plan_.index));
    return hash.hex();
  }

  const Checkpoint& checkpoint_;
  const WeightFormats& formats_;
  ConvertPlan plan_;
};

}  // namespace

ConvertPlan plan_conversion(const Checkpoint& checkpoint, const WeightFormats& formats) {
  return Planner(checkpoint, formats).run();
}

}  // namespace colibri
