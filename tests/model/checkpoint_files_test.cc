#include "model/checkpoint_files.h"

#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
constexpr const char* kIndex = "model.safetensors.index.json";

// The tiny model in two shards.
std::vector<TestShard> two_shards() {
  std::vector<TestShard> shards{{"model-00001-of-00002.safetensors", {}},
                                {"model-00002-of-00002.safetensors", {}}};
  size_t count = 0;
  for (const TestTensor& tensor : test_tensors(parse_model_config(tiny_config_json(), "tiny"))) {
    shards[count++ % 2].tensors.push_back(tensor);
  }
  return shards;
}

void write_sharded(const TempDir& dir, const std::vector<TestShard>& shards) {
  write_file(dir / "config.json", tiny_config_json());
  write_shards(dir.path(), shards);
}

TEST(CheckpointFilesTest, ShardsOfAnIndexOpen) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint.summary().num_files, 2);
  EXPECT_EQ(checkpoint.config().checkpoint_dtype, DType::kF32);
}

TEST(CheckpointFilesTest, FilesTheIndexDoesNotNameAreIgnored) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  write_file(dir / "consolidated.00.safetensors", "garbage");
  write_file(dir / "model.safetensors", "garbage");
  EXPECT_EQ(Checkpoint::open(dir.path()).summary().num_files, 2);
}

TEST(CheckpointFilesTest, LinksOfTheHubCacheAreFollowed) {
  const TempDir blobs, dir;
  write_sharded(blobs, two_shards());
  for (const auto& file : fs::directory_iterator(blobs.path())) {
    fs::create_symlink(file.path(), dir / file.path().filename().string());
  }
  EXPECT_EQ(Checkpoint::open(dir.path()).summary().num_files, 2);
}

TEST(CheckpointFilesTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "",
                           "a\\\\b", "a\\u0000b"}) {
    const TempDir dir;
    write_file(dir / kIndex, std::string(R"({"weight_map": {"t": ")") + name + "\"}}");
    EXPECT_ERROR(find_weight_files(dir.path()), kInput, "want the plain name of a file");
  }
}

TEST(CheckpointFilesTest, MalformedIndexesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "want a JSON object"},
      {"3", "want a JSON object"},
      {"{}", "no weight_map"},
      {R"({"weight_map": {}})", "no weight_map, or an empty one"},
      {R"({"weight_map": []})", "weight_map must map"},
      {R"({"weight_map": "x"})", "weight_map must map"},
      {R"({"weight_map": {"t": 3}})", "weight_map must map"},
      {R"({"weight_map": {"t": {"a": "b"}}})", "weight_map must map"},
      {R"({"weight_map": {"t": "a", "t": "b"}})", "names \"t\" twice"},
      {R"({"weight_map": {"t": "a"}, "weight_map": {"u": "a"}})", "stands twice"},
      {"version https://git-lfs.github.com/spec/v1\n", "git-lfs pointer"}};
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const TempDir dir;
    write_file(dir / kIndex, text);
    EXPECT_ERROR(find_weight_files(dir.path()), kInput, message);
  }
}

TEST(CheckpointFilesTest, MissingShardIsNamed) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  fs::remove(dir / "model-00002-of-00002.safetensors");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               "model-00002-of-00002.safetensors: no such file, but");
}

TEST(CheckpointFilesTest, UnfinishedDownloadIsSaid) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  fs::remove(dir / "model-00002-of-00002.safetensors");
  const fs::path cache = dir / ".cache/huggingface/download";
  fs::create_directories(cache);
  write_file(cache / "abc.incomplete", "");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "the download is not finished");
}

TEST(CheckpointFilesTest, LinkThatLeadsNowhereIsSaid) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  fs::remove(dir / "model-00002-of-00002.safetensors");
  fs::create_symlink("/nonexistent/blob", dir / "model-00002-of-00002.safetensors");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "a link to a file that is not there");
}

TEST(CheckpointFilesTest, TensorTheIndexNamesMustBeInItsShard) {
  const TempDir dir;
  auto shards = two_shards();
  write_sharded(dir, shards);
  const std::string name = shards[0].tensors.back().name;
  shards[0].tensors.pop_back();
  write_file(dir / shards[0].file, safetensors_image(shards[0].tensors));
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "no tensor \"" + name + "\", but the index");
}

TEST(CheckpointFilesTest, TensorInTwoShardsIsRefused) {
  const TempDir dir;
  auto shards = two_shards();
  const std::string name = shards[0].tensors[0].name;
  shards[1].tensors.push_back(shards[0].tensors[0]);
  write_sharded(dir, shards);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "tensor \"" + name + "\" stands in ");
}

TEST(CheckpointFilesTest, TruncatedShardIsNamed) {
  const TempDir dir;
  write_sharded(dir, two_shards());
  fs::resize_file(dir / "model-00002-of-00002.safetensors", 3000);
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "model-00002-of-00002.safetensors: ");
}

TEST(CheckpointFilesTest, DirectoryWithoutWeightsSaysWhatItHolds) {
  const TempDir dir;
  write_file(dir / "config.json", tiny_config_json());
  write_file(dir / "pytorch_model.bin", "");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput,
               "the directory holds: config.json, pytorch_model.bin");
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, ".bin files are not read");
}

TEST(CheckpointFilesTest, DirectoryWithoutConfigIsNamed) {
  const TempDir dir;
  EXPECT_ERROR(Checkpoint::open(dir.path()), kInput, "config.json: no such file");
}

TEST(CheckpointFilesTest, HubNameThatIsNoPathGivesTheCommand) {
  EXPECT_ERROR(Checkpoint::open("Qwen/Qwen3-30B-A3B"), kEnvironment,
               "huggingface-cli download Qwen/Qwen3-30B-A3B --local-dir Qwen3-30B-A3B");
}

TEST(CheckpointFilesTest, OtherMissingPathsAreNamed) {
  EXPECT_ERROR(Checkpoint::open("/no/such/dir"), kEnvironment, "/no/such/dir: no such directory");
}

TEST(CheckpointFilesTest, FileInsteadOfADirectoryIsRefused) {
  const TempDir dir;
  write_file(dir / "x.colibri", "");
  write_file(dir / "x.gguf", "");
  EXPECT_ERROR(Checkpoint::open(dir / "x.colibri"), kInput, "no .colibri file");
  EXPECT_ERROR(Checkpoint::open(dir / "x.gguf"), kInput, "a file, want");
}

}  // namespace
}  // namespace colibri
