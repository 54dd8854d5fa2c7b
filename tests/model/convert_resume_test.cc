#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "model/container.h"
#include "model/convert.h"
#include "model/convert_journal.h"
#include "model/convert_space.h"
#include "tests/model/convert_rig.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

// Ends a conversion after `num_pieces` pieces were written.
ConversionHooks stop_after(int num_pieces) {
  const auto left = std::make_shared<std::atomic<int>>(num_pieces);
  ConversionHooks hooks;
  hooks.on_bytes = [left](uint64_t) { --*left; };
  hooks.wants_stop = [left] { return *left <= 0; };
  return hooks;
}

// A sharded tiny model and where it is converted to.
class ConvertTest : public testing::Test {
 protected:
  ConvertTest() : model_(dir_ / "model"), target_(dir_ / "F.colibri") {
    fs::create_directory(model_);
    write_sharded_tiny(model_);
  }

  ConversionOptions options(WeightFormat experts = WeightFormat::kBF16) const {
    return conversion(model_, target_, experts);
  }
  // The bytes of an uninterrupted run.
  std::string whole() const {
    ConversionOptions other = options();
    other.target = dir_ / "whole.colibri";
    convert_now(other);
    return read_file(other.target);
  }
  void stop_one(int num_pieces, bool consume = false) const {
    ConversionOptions stopped = options();
    stopped.consume = consume;
    EXPECT_ERROR(convert_now(stopped, stop_after(num_pieces)), kEnvironment, "to go on");
    EXPECT_FALSE(fs::exists(target_));
  }
  fs::path beside(const char* ending) const { return target_.string() + ending; }

  TempDir dir_;
  fs::path model_, target_;
};

TEST_F(ConvertTest, SameBytesEveryTimeAndNothingElseIsLeft) {
  const std::string once = whole();
  const ConversionResult result = convert_now(options());
  EXPECT_EQ(read_file(target_), once);
  EXPECT_EQ(result.file_bytes, once.size());
  EXPECT_TRUE(is_alone(target_));
  EXPECT_EQ(count_files(model_), 5);
}

// An embedding of 9.6 MB is made in two pieces.
TEST_F(ConvertTest, MatrixOfSeveralPiecesIsWhole) {
  std::string config = tiny_config_json();
  const std::string vocabulary = "\"vocab_size\": 10,";
  config.replace(config.find(vocabulary), vocabulary.size(), "\"vocab_size\": 300000,");
  const TempDir dir;
  const fs::path model = dir.path();
  write_file(model / "config.json", config);
  auto tensors = test_tensors(parse_model_config(config, "wide"));
  const auto embedding = std::find_if(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.name == "model.embed_tokens.weight";
  });
  for (size_t i = 0; i < embedding->bytes.size(); i += 4) {
    embedding->bytes[i] = static_cast<char>(i / 1024);  // no two places alike
  }
  write_file(model / "model.safetensors", safetensors_image(tensors));
  convert_now(conversion(model, target_, WeightFormat::kF32, WeightFormat::kF32));
  const Checkpoint made = Checkpoint::open(target_);
  const TensorRange range = made.range({TensorRole::kEmbedding, -1, -1});
  std::string bytes(range.size_bytes, '\0');
  made.read(range, bytes.data());
  EXPECT_TRUE(bytes == embedding->bytes);
}

TEST_F(ConvertTest, StoppedAnywhereGoesOnToTheSameBytes) {
  const std::string want = whole();
  for (int num_pieces = 1; num_pieces < 40; num_pieces += 3) {
    stop_one(num_pieces);
    const ConversionResult result = convert_now(options());
    EXPECT_GT(result.resumed_bytes + 1, 0u);
    EXPECT_EQ(read_file(target_), want) << "stopped after " << num_pieces;
    EXPECT_TRUE(is_alone(target_));
    fs::remove(target_);
  }
}

TEST_F(ConvertTest, WhatIsDoneIsNotDoneAgain) {
  stop_one(20);
  uint64_t total = 0, resumed = 0, written = 0;
  std::mutex mutex;
  ConversionHooks hooks;
  hooks.on_start = [&](uint64_t all, uint64_t before) {
    total = all;
    resumed = before;
  };
  hooks.on_bytes = [&](uint64_t bytes) {
    const std::lock_guard lock(mutex);
    written += bytes;
  };
  convert_now(options(), hooks);
  EXPECT_GT(resumed, 0u);
  EXPECT_EQ(written, total - resumed);
}

TEST_F(ConvertTest, ExistingTargetIsRefusedAndUntouched) {
  write_file(target_, "mine");
  EXPECT_ERROR(convert_now(options()), kInput,
               "exists already; remove it, or choose another --out");
  EXPECT_EQ(read_file(target_), "mine");
  fs::remove(target_);
  fs::create_directory(target_);
  EXPECT_ERROR(convert_now(options()), kInput, "is a directory");
}

TEST_F(ConvertTest, TargetInNoDirectoryIsNamed) {
  ConversionOptions nowhere = options();
  nowhere.target = dir_ / "none" / "F.colibri";
  EXPECT_ERROR(convert_now(nowhere), kEnvironment, "cannot be opened for writing");
}

TEST_F(ConvertTest, SecondConversionToTheSameTargetIsRefused) {
  const ConvertJournal running(beside(".journal"));
  EXPECT_ERROR(convert_now(options()), kEnvironment, "another conversion is writing this file");
}

TEST_F(ConvertTest, WrongSourceLeavesNoTrace) {
  write_file(model_ / "layer0.safetensors", "nonsense");
  EXPECT_THROW(convert_now(options()), Error);
  EXPECT_EQ(count_files(dir_.path()), 1);
}

TEST_F(ConvertTest, WidthsThatFormNoGroupsAreRefusedBeforeWriting) {
  EXPECT_ERROR(convert_now(options(WeightFormat::kQ4)), kInput, "wants a multiple of 32");
  EXPECT_EQ(count_files(dir_.path()), 1);
}

TEST_F(ConvertTest, ColibriFileIsNoSource) {
  convert_now(options());
  ConversionOptions again = options();
  again.source = target_;
  again.target = dir_ / "G.colibri";
  EXPECT_ERROR(convert_now(again), kUnsupported, "is a .colibri file already");
}

TEST_F(ConvertTest, UnfinishedConversionOfAnotherFormIsKept) {
  stop_one(10);
  const auto before = read_file(beside(".journal"));
  ConversionOptions other = options(WeightFormat::kF32);
  EXPECT_ERROR(convert_now(other), kInput, "--weights bf16");
  EXPECT_EQ(read_file(beside(".journal")), before);
}

TEST_F(ConvertTest, SourceThatChangedIsMet) {
  stop_one(10);
  std::string changed = tiny_config_json();
  changed.insert(changed.size() - 1, " ");
  write_file(model_ / "config.json", changed);
  EXPECT_ERROR(convert_now(options()), kInput, "the model has changed since");
}

TEST_F(ConvertTest, PartialFileWithoutItsJournalIsNotTouched) {
  write_file(beside(".partial"), "mine");
  EXPECT_ERROR(convert_now(options()), kInput, "is there without its journal");
  EXPECT_EQ(read_file(beside(".partial")), "mine");
}

TEST_F(ConvertTest, JournalWithoutItsPartialFileIsNamed) {
  stop_one(10);
  fs::remove(beside(".partial"));
  EXPECT_ERROR(convert_now(options()), kInput, ".partial is not there");
}

// As after a loss of power: the end of the journal is torn, and a region has not reached the disk.
TEST_F(ConvertTest, TornJournalAndLostBytesAreDoneAgain) {
  const std::string want = whole();
  stop_one(25);
  std::string journal = read_file(beside(".journal"));
  write_file(beside(".journal"), journal.substr(0, journal.size() - 7));
  std::string partial = read_file(beside(".partial"));
  std::fill(partial.begin() + 4096, partial.end(), '\0');
  write_file(beside(".partial"), partial);
  convert_now(options());
  EXPECT_EQ(read_file(target_), want);
}

TEST_F(ConvertTest, FinishedButNotYetRenamedIsFinished) {
  const std::string want = whole();
  // A target that appears at the last moment stops the renaming and nothing else.
  ConversionHooks hooks;
  hooks.on_start = [&](uint64_t, uint64_t) { write_file(target_, "mine"); };
  EXPECT_ERROR(convert_now(options(), hooks), kInput, "exists already");
  EXPECT_EQ(read_file(target_), "mine");
  fs::remove(target_);
  fs::remove_all(model_);
  convert_now(options());
  EXPECT_EQ(read_file(target_), want);
  EXPECT_TRUE(is_alone(target_));
}

TEST_F(ConvertTest, TracesOfARunKilledAfterRenamingAreRemoved) {
  ConversionHooks hooks;
  hooks.on_start = [&](uint64_t, uint64_t) { write_file(target_, "mine"); };
  EXPECT_ERROR(convert_now(options(), hooks), kInput, "exists already");
  fs::rename(beside(".partial"), target_);
  convert_now(options());
  EXPECT_TRUE(is_alone(target_));
}

TEST_F(ConvertTest, ConsumeRemovesEachShardAndEndsWithTheSameBytes) {
  const std::string want = whole();
  ConversionOptions consuming = options();
  consuming.consume = true;
  convert_now(consuming);
  EXPECT_EQ(read_file(target_), want);
  EXPECT_TRUE(is_alone(target_));
  EXPECT_EQ(count_files(model_), 2);  // config.json and the index
}

TEST_F(ConvertTest, ConsumeGoesOnWithoutTheRemovedShards) {
  const std::string want = whole();
  for (int num_pieces = 1; num_pieces < 40; num_pieces += 4) {
    fs::remove_all(model_);
    fs::create_directory(model_);
    write_sharded_tiny(model_);
    stop_one(num_pieces, true);
    ConversionOptions consuming = options();
    consuming.consume = true;
    convert_now(consuming);
    EXPECT_EQ(read_file(target_), want) << "stopped after " << num_pieces;
    EXPECT_EQ(count_files(model_), 2);
    fs::remove(target_);
  }
}

// The copy of a tied head is compared with the embedding whenever the model is opened.
TEST_F(ConvertTest, ConsumeGoesOnWhenATiedHeadsShardIsGone) {
  std::string config = tiny_config_json();
  config.insert(config.rfind('}'), R"(, "tie_word_embeddings": true)");
  std::vector<TestTensor> rest = test_tensors(parse_model_config(tiny_config_json(), "tiny"));
  const auto named = [&rest](const char* name) {
    return std::find_if(rest.begin(), rest.end(), [&](const auto& t) { return t.name == name; });
  };
  TestTensor head = *named("lm_head.weight");
  head.bytes = named("model.embed_tokens.weight")->bytes;
  rest.erase(named("lm_head.weight"));
  const auto write_tied = [&] {
    fs::remove_all(model_);
    fs::create_directory(model_);
    write_shards(model_, {{"head.safetensors", {head}}, {"rest.safetensors", rest}});
    write_file(model_ / "config.json", config);
  };
  write_tied();
  const std::string want = whole();
  stop_one(10, true);
  EXPECT_FALSE(fs::exists(model_ / "head.safetensors"));
  convert_now(options());
  EXPECT_EQ(read_file(target_), want);
}

TEST_F(ConvertTest, LinksAreNotConsumed) {
  fs::rename(model_ / "rest.safetensors", dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", model_ / "rest.safetensors");
  ConversionOptions consuming = options();
  consuming.consume = true;
  EXPECT_ERROR(convert_now(consuming), kUnsupported, "--consume removes files, not what links");
  convert_now(options());
}

TEST_F(ConvertTest, DiskThatWillNotHoldItIsRefusedBeforeWriting) {
  ConversionHooks hooks;
  hooks.free_bytes = [] { return uint64_t{1000}; };
  EXPECT_ERROR(convert_now(options(), hooks), kEnvironment, "the disk has 1.00 KB free");
  EXPECT_EQ(count_files(dir_.path()), 1);
  ConversionOptions careful = options();
  careful.min_free_bytes = 1'000'000'000;
  hooks.free_bytes = [] { return uint64_t{1'000'000'000}; };
  EXPECT_ERROR(convert_now(careful, hooks), kEnvironment, "--min-free-gb leaves 1.00 GB");
}

TEST_F(ConvertTest, LowDiskIsWaitedForWhileItRuns) {
  const std::string want = whole();
  std::atomic<int> looks{0};
  std::atomic<int> said{0};
  ConversionHooks hooks;
  hooks.free_bytes = [&] { return ++looks == 4 || looks == 5 ? uint64_t{0} : uint64_t{1} << 40; };
  hooks.say = [&](const std::string& text) {
    EXPECT_NE(text.find("waiting: the disk of"), std::string::npos) << text;
    ++said;
  };
  convert_now(options(), hooks);
  EXPECT_GE(said, 1);
  EXPECT_EQ(read_file(target_), want);
}

TEST_F(ConvertTest, WaitingEndsWhenAsked) {
  std::atomic<int> looks{0};
  ConversionHooks hooks;
  hooks.free_bytes = [&] { return ++looks > 3 ? uint64_t{0} : uint64_t{1} << 40; };
  hooks.wants_stop = [&] { return looks > 6; };
  EXPECT_ERROR(convert_now(options(), hooks), kEnvironment, "stopped as asked");
}

// Two blobs of 100 bytes from two files, and one that reads both.
TEST(ConvertSpaceTest, RemovedFilesGiveBackWhatTheyHeld) {
  ConvertPlan plan;
  plan.index.file_bytes = 310;
  plan.weight_bytes = 300;
  plan.blobs = {{0, 1, 100, {0}}, {1, 1, 100, {0, 1}}, {2, 1, 100, {1}}};
  const std::vector<bool> none(3, false);
  EXPECT_EQ(needed_bytes(plan, none, {}), 310u);
  EXPECT_EQ(needed_bytes(plan, none, {150, 150}), 210u);
  EXPECT_EQ(needed_bytes(plan, {true, false, false}, {}), 210u);
  EXPECT_EQ(needed_bytes(plan, none, {0, 0}), 310u);
}

TEST(ConvertJournalTest, RecordsComeBack) {
  const TempDir dir;
  const std::string identity(32, 'a');
  {
    ConvertJournal journal(dir / "j");
    EXPECT_FALSE(journal.has_begun());
    journal.begin(identity, "what and how");
    journal.add_blob({7, {1, 2, 3}});
    journal.mark_durable(1);
    journal.add_blob({8, {4, 0, 0}});
  }
  const ConvertJournal journal(dir / "j");
  EXPECT_EQ(journal.identity(), identity);
  EXPECT_EQ(journal.description(), "what and how");
  ASSERT_EQ(journal.blobs().size(), 2u);
  EXPECT_EQ(journal.blobs()[0].blob_idx, 7u);
  EXPECT_EQ(journal.blobs()[0].checksums[2], 3u);
  EXPECT_EQ(journal.num_durable(), 1u);
  EXPECT_EQ(journal.complete(), std::nullopt);
}

TEST(ConvertJournalTest, NothingIsBelievedFromADamagedRecordOn) {
  const TempDir dir;
  {
    ConvertJournal journal(dir / "j");
    journal.begin(std::string(32, 'a'), "x");
    for (uint32_t i = 0; i < 3; ++i) journal.add_blob({i, {}});
  }
  std::string bytes = read_file(dir / "j");
  bytes[56 + 1 + 40 + 5] ^= 1;  // in the second record
  write_file(dir / "j", bytes);
  EXPECT_EQ(ConvertJournal(dir / "j").blobs().size(), 1u);
  bytes[20] ^= 1;  // in the header
  write_file(dir / "j", bytes);
  EXPECT_FALSE(ConvertJournal(dir / "j").has_begun());
}

// What stood behind a torn record belongs to a past that is forgotten.
TEST(ConvertJournalTest, RecordsBehindATornOneNeverComeBack) {
  const TempDir dir;
  {
    ConvertJournal journal(dir / "j");
    journal.begin(std::string(32, 'a'), "x");
    for (uint32_t i = 0; i < 3; ++i) journal.add_blob({i, {}});
  }
  std::string bytes = read_file(dir / "j");
  bytes[56 + 1 + 40 + 5] ^= 1;
  write_file(dir / "j", bytes);
  ConvertJournal(dir / "j").add_blob({9, {}});
  const ConvertJournal journal(dir / "j");
  ASSERT_EQ(journal.blobs().size(), 2u);
  EXPECT_EQ(journal.blobs()[1].blob_idx, 9u);
}

}  // namespace
}  // namespace colibri
