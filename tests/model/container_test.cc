#include "model/container.h"

#include <gtest/gtest.h>

#include "base/quantised.h"
#include "model/container_codes.h"
#include "model/tensor_names.h"
#include "model/weight_loader.h"
#include "tests/model/convert_rig.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

std::string loaded(const Checkpoint& checkpoint, const TensorKey& key,
                   const WeightFormats& formats) {
  const TensorRange range = checkpoint.range(key);
  const DType kept = kept_dtype(key.role, range.dtype, formats);
  std::string bytes(static_cast<size_t>(matrix_bytes(kept, range.rows, range.cols)), '\0');
  Buffer scratch;
  load_range(checkpoint, range, kept, bytes.data(), scratch);
  return bytes;
}

void expect_same_bytes(const WeightFormats& formats,
                       const std::filesystem::path& source = kDemoDir) {
  const TempDir dir;
  const auto target = dir / "demo.colibri";
  convert_now({.source = source, .target = target, .formats = formats});
  const Checkpoint from = Checkpoint::open(source), to = Checkpoint::open(target);
  for (const TensorKey& key : tensor_keys(from.config())) {
    ASSERT_EQ(loaded(to, key, {}), loaded(from, key, formats)) << to_string(key);
  }
  ThreadPool pool({.num_threads = 2, .spin = false});
  EXPECT_TRUE(damaged_parts(target, pool, [](uint64_t) {}).empty());
}

TEST(ContainerTest, LoadsTheBytesThatTheDirectoryLoadsAsQ4) {
  expect_same_bytes({WeightFormat::kQ4, WeightFormat::kAsStored});
}

TEST(ContainerTest, LoadsTheBytesThatTheDirectoryLoadsAsQ8WithQ4Projections) {
  expect_same_bytes({WeightFormat::kQ8, WeightFormat::kQ4});
}

TEST(ContainerTest, LoadsTheBytesThatTheDirectoryLoadsAsBf16) {
  expect_same_bytes({WeightFormat::kBF16, WeightFormat::kBF16});
}

TEST(ContainerTest, LoadsTheBytesThatAnFp8DirectoryLoads) {
  const auto source = test_data_dir() / "models" / "deepseek_v3_fp8";
  expect_same_bytes({WeightFormat::kBF16, WeightFormat::kBF16}, source);
  expect_same_bytes({WeightFormat::kQ8, WeightFormat::kAsStored}, source);
}

class ContainerFileTest : public testing::Test {
 protected:
  ContainerFileTest() : target_(dir_ / "tiny.colibri") {
    std::filesystem::create_directory(dir_ / "model");
    write_tiny_model(dir_ / "model");
    convert_now(conversion(dir_ / "model", target_, WeightFormat::kBF16));
    image_ = read_file(target_);
    index_ = read_container_index(target_);
  }

  ContainerTensor& tensor(TensorRole role, int layer, int expert = -1) {
    for (ContainerTensor& found : index_.tensors) {
      if (found.key.role == role && found.key.layer == layer && found.key.expert == expert) {
        return found;
      }
    }
    fail(ErrorKind::kInternal, "no such tensor");
  }

  // The file with index_ instead of its own, checksums in order.
  void write_with_index() {
    const std::string front = encode_container_front(index_);
    std::string image = image_;
    image.replace(0, front.size(), front);
    write_file(target_, image);
  }

  std::vector<std::string> damaged() {
    ThreadPool pool({.num_threads = 2, .spin = false});
    return damaged_parts(target_, pool, [](uint64_t) {});
  }

  TempDir dir_;
  std::filesystem::path target_;
  std::string image_;
  ContainerIndex index_;
};

TEST_F(ContainerFileTest, ConfigurationAndTextsComeAlong) {
  const Checkpoint checkpoint = Checkpoint::open(target_);
  EXPECT_EQ(checkpoint.config().hidden_size, 8);
  EXPECT_EQ(checkpoint.text("config.json"), tiny_config_json());
  EXPECT_EQ(checkpoint.text("tokenizer.json"), std::nullopt);
  EXPECT_EQ(checkpoint.config().checkpoint_dtype, DType::kBF16);
  EXPECT_EQ(checkpoint.summary().num_files, 1);
}

TEST_F(ContainerFileTest, ContainerUnderAnotherNameOpens) {
  std::filesystem::rename(target_, dir_ / "model.bin");
  EXPECT_EQ(Checkpoint::open(dir_ / "model.bin").config().num_layers, 2);
}

TEST_F(ContainerFileTest, FingerprintCoversTheWeightsBytes) {
  const std::string before = Checkpoint::open(target_).fingerprint();
  tensor(TensorRole::kExpertUp, 1, 2).checksum ^= 1;
  write_with_index();
  EXPECT_NE(Checkpoint::open(target_).fingerprint(), before);
}

TEST_F(ContainerFileTest, ExpertsMatricesLieTogetherFromAPageOn) {
  const ContainerTensor gate = tensor(TensorRole::kExpertGate, 0, 1),
                        up = tensor(TensorRole::kExpertUp, 0, 1),
                        down = tensor(TensorRole::kExpertDown, 0, 1);
  EXPECT_EQ(gate.offset_bytes % 4096, 0u);
  EXPECT_EQ(up.offset_bytes, gate.offset_bytes + 64);  // [4, 8] bf16
  EXPECT_EQ(down.offset_bytes, up.offset_bytes + 64);
}

TEST_F(ContainerFileTest, FlippedBitIsNamedByItsTensor) {
  EXPECT_TRUE(damaged().empty());
  std::string flipped = image_;
  const ContainerTensor& up = tensor(TensorRole::kExpertUp, 1, 2);
  flipped[up.offset_bytes + up.size_bytes - 1] ^= 0x10;
  write_file(target_, flipped);
  EXPECT_EQ(damaged(), std::vector<std::string>{"expert up of layer 1, expert 2"});
}

TEST_F(ContainerFileTest, FlippedBitOfATextIsMetWhenItIsRead) {
  std::string flipped = image_;
  flipped[index_.texts[0].offset_bytes] ^= 1;
  write_file(target_, flipped);
  EXPECT_ERROR(Checkpoint::open(target_), kInput, "config.json does not match its checksum");
}

TEST_F(ContainerFileTest, TensorThatTheConfigurationAsksForIsMissing) {
  std::erase_if(index_.tensors, [](const ContainerTensor& t) {
    return t.key.role == TensorRole::kRouter && t.key.layer == 1;
  });
  write_with_index();
  EXPECT_ERROR(Checkpoint::open(target_), kInput, "no router of layer 1 [3, 8]");
}

TEST_F(ContainerFileTest, TensorThatNobodyAsksForIsCounted) {
  tensor(TensorRole::kExpertUp, 1, 2).key.expert = 3;
  write_with_index();
  EXPECT_ERROR(Checkpoint::open(target_), kInput, "no expert up of layer 1, expert 2");
  tensor(TensorRole::kExpertUp, 1, 3).key.expert = 2;
  ContainerTensor more = tensor(TensorRole::kFinalNorm, -1);
  more.key = {TensorRole::kQBias, 0, -1};
  more.offset_bytes = align_up(image_.size(), 64);
  index_.tensors.push_back(more);
  index_.file_bytes = more.offset_bytes + more.size_bytes;
  image_.resize(index_.file_bytes);
  write_with_index();
  EXPECT_ERROR(Checkpoint::open(target_), kInput, "tensors, its configuration asks for");
}

TEST_F(ContainerFileTest, ShapeThatTheConfigurationContradictsIsNamed) {
  std::swap(tensor(TensorRole::kExpertDown, 0, 0).rows, tensor(TensorRole::kExpertDown, 0, 0).cols);
  write_with_index();
  EXPECT_ERROR(Checkpoint::open(target_), kInput,
               "expert down of layer 0, expert 0 is [4, 8], its configuration asks for [8, 4]");
}

TEST_F(ContainerFileTest, ExpertsOfTwoFormsAreRefused) {
  ContainerTensor& down = tensor(TensorRole::kExpertDown, 1, 2);
  down.dtype = DType::kF32;
  down.size_bytes *= 2;
  down.offset_bytes = align_up(image_.size(), 64);
  index_.file_bytes = down.offset_bytes + down.size_bytes;
  image_.resize(index_.file_bytes);
  write_with_index();
  EXPECT_ERROR(Checkpoint::open(target_), kInput, "other experts are bf16");
}

TEST_F(ContainerFileTest, FileThatIsNotThereTellsOfAnUnfinishedConversion) {
  std::filesystem::rename(target_, target_.string() + ".partial");
  EXPECT_ERROR(Checkpoint::open(target_), kEnvironment, "its conversion is not finished");
}

// [3, 8] bf16 is 48 bytes.
TEST(ContainerFormTest, ExpertsMatricesStartAtMultiplesOf64) {
  const TempDir dir;
  const auto target = dir / "odd.colibri";
  std::string config = tiny_config_json();
  const std::string width = "\"moe_intermediate_size\": 4";
  config.replace(config.find(width), width.size(), "\"moe_intermediate_size\": 3");
  std::filesystem::create_directory(dir / "model");
  write_file(dir / "model" / "config.json", config);
  write_file(dir / "model" / "model.safetensors",
             safetensors_image(test_tensors(parse_model_config(config, "odd"))));
  convert_now(conversion(dir / "model", target, WeightFormat::kBF16));
  const Checkpoint checkpoint = Checkpoint::open(target);
  const auto offset = [&](TensorRole role) { return checkpoint.range({role, 1, 2}).offset_bytes; };
  EXPECT_EQ(offset(TensorRole::kExpertUp), offset(TensorRole::kExpertGate) + 64);
  EXPECT_EQ(offset(TensorRole::kExpertDown), offset(TensorRole::kExpertUp) + 64);
}

TEST(ContainerFormTest, EmbeddingIsNeverQuantised) {
  const TempDir dir;
  const auto target = dir / "demo.colibri";
  convert_now(conversion(kDemoDir, target, WeightFormat::kQ8));
  ContainerIndex index = read_container_index(target);
  std::string image = read_file(target);
  ContainerTensor& embedding = index.tensors[0];
  ASSERT_EQ(embedding.key.role, TensorRole::kEmbedding);
  embedding.dtype = DType::kQ8;
  embedding.size_bytes =
      static_cast<uint64_t>(matrix_bytes(DType::kQ8, embedding.rows, embedding.cols));
  const std::string front = encode_container_front(index);
  image.replace(0, front.size(), front);
  write_file(target, image);
  EXPECT_ERROR(Checkpoint::open(target), kInput, "embedding is q8, want f32 or bf16");
}

TEST(ContainerFormTest, AnotherFormThanTheStoredIsRefusedByName) {
  const TempDir dir;
  const auto target = dir / "demo.colibri";
  convert_now(conversion(kDemoDir, target, WeightFormat::kQ4));
  const ModelConfig config = Checkpoint::open(target).config();
  model_shape(config, {WeightFormat::kQ4, WeightFormat::kAsStored}, DType::kF32);
  EXPECT_ERROR(model_shape(config, {WeightFormat::kQ8, WeightFormat::kAsStored}, DType::kF32),
               kUnsupported, "is stored as q4 and --weights asks for q8");
}

TEST(ContainerFormTest, MemoryPlanKnowsWhatEachRoleIsStoredAs) {
  const TempDir dir;
  const auto target = dir / "demo.colibri";
  const WeightFormats q4{WeightFormat::kQ4, WeightFormat::kAsStored};
  convert_now({.source = kDemoDir, .target = target, .formats = q4});
  const ModelShape want = model_shape(Checkpoint::open(kDemoDir).config(), q4, DType::kF32);
  const ModelShape got = model_shape(Checkpoint::open(target).config(), {}, DType::kF32);
  EXPECT_EQ(got.expert_bytes, want.expert_bytes);
  EXPECT_EQ(got.coordinator_weight_bytes, want.coordinator_weight_bytes);
}

}  // namespace
}  // namespace colibri
