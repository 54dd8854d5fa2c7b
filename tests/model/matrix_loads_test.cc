#include "model/matrix_loads.h"

#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <numeric>

#include "base/buffer.h"
#include "model/tensor_source.h"

namespace colibri {
namespace {

// One file in memory that remembers what was read of it.
class MemorySource : public TensorSource {
 public:
  struct Read {
    uint64_t offset_bytes, size_bytes;
  };

  explicit MemorySource(size_t size_bytes) : bytes_(size_bytes, '\0') {
    for (size_t i = 0; i < size_bytes; ++i) bytes_[i] = static_cast<char>(i * 7 + i / 251);
  }

  std::optional<std::string> text(const std::string&) const override { return std::nullopt; }
  bool has(const TensorKey&) const override { return false; }
  TensorRange range(const TensorKey&) const override { return {}; }
  void read(int, uint64_t offset_bytes, uint64_t size_bytes, void* into) const override {
    std::memcpy(into, bytes_.data() + offset_bytes, size_bytes);
    const std::lock_guard lock(mutex_);
    reads_.push_back({offset_bytes, size_bytes});
  }

  const std::string& bytes() const { return bytes_; }
  const std::vector<Read>& reads() const { return reads_; }

 private:
  std::string bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<Read> reads_;
};

class MatrixLoadsTest : public testing::Test {
 protected:
  static TensorRange at(uint64_t offset_bytes, int64_t cols, DType dtype = DType::kF32) {
    return {.name = "m",
            .offset_bytes = offset_bytes,
            .size_bytes = static_cast<uint64_t>(cols) * size_of(dtype),
            .dtype = dtype,
            .rows = 1,
            .cols = cols,
            .scales = {}};
  }

  const MemorySource& load(size_t file_bytes, const std::vector<MatrixLoad>& loads) {
    const auto source = std::make_shared<MemorySource>(file_bytes);
    memory_ = Buffer(file_bytes);
    ThreadPool pool({.num_threads = 2, .spin = false});
    load_matrices(Checkpoint(source), loads, memory_.as<char>(), pool,
                  [this](uint64_t bytes) { counted_bytes_ += bytes; });
    source_ = source;
    return *source;
  }
  std::string in_memory(size_t offset, size_t size) {
    return std::string(memory_.as<char>() + offset, size);
  }

  Buffer memory_;
  std::shared_ptr<MemorySource> source_;
  uint64_t counted_bytes_ = 0;
};

// 48 bytes, then 16 of padding, as a .colibri file has an expert.
TEST_F(MatrixLoadsTest, NeighboursWithTheSameDistanceInTheFileAreOneRead) {
  const auto& source = load(4096, {{at(1024, 12), DType::kF32, 0},
                                   {at(1088, 12), DType::kF32, 64},
                                   {at(1152, 12), DType::kF32, 128}});
  ASSERT_EQ(source.reads().size(), 1u);
  EXPECT_EQ(source.reads()[0].offset_bytes, 1024u);
  EXPECT_EQ(source.reads()[0].size_bytes, 176u);
  EXPECT_EQ(in_memory(0, 176), source.bytes().substr(1024, 176));
  EXPECT_EQ(counted_bytes_, 144u);
}

TEST_F(MatrixLoadsTest, NeighboursThatLieElsewhereInTheFileAreReadAlone) {
  const auto& source = load(4096, {{at(1024, 16), DType::kF32, 0},
                                   {at(1100, 16), DType::kF32, 64},     // 12 bytes further
                                   {at(512, 16), DType::kF32, 128},     // before
                                   {at(2048, 16), DType::kF32, 192}});  // far behind
  EXPECT_EQ(source.reads().size(), 4u);
  EXPECT_EQ(in_memory(0, 64), source.bytes().substr(1024, 64));
  EXPECT_EQ(in_memory(64, 64), source.bytes().substr(1100, 64));
  EXPECT_EQ(in_memory(128, 64), source.bytes().substr(512, 64));
  EXPECT_EQ(in_memory(192, 64), source.bytes().substr(2048, 64));
}

TEST_F(MatrixLoadsTest, OtherFilesAreReadAlone) {
  TensorRange other = at(1088, 16);
  other.file_idx = 1;
  EXPECT_EQ(load(4096, {{at(1024, 16), DType::kF32, 0}, {other, DType::kF32, 64}}).reads().size(),
            2u);
}

TEST_F(MatrixLoadsTest, ConvertedMatricesBreakTheLineButNotTheBytes) {
  const auto& source = load(4096, {{at(1024, 16), DType::kF32, 0},
                                   {at(1088, 16, DType::kBF16), DType::kF32, 64},
                                   {at(1152, 16), DType::kF32, 128}});
  EXPECT_EQ(in_memory(0, 64), source.bytes().substr(1024, 64));
  EXPECT_EQ(in_memory(128, 64), source.bytes().substr(1152, 64));
  const std::string wide = in_memory(64, 64);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(wide.substr(4 * i, 2), std::string(2, '\0'));
    EXPECT_EQ(wide.substr(4 * i + 2, 2), source.bytes().substr(1088 + 2 * i, 2));
  }
  EXPECT_EQ(counted_bytes_, 64u + 32 + 64);
}

TEST_F(MatrixLoadsTest, LongStretchesAreSharedBetweenThreads) {
  constexpr int64_t kCols = 5 << 20;  // 20 MB
  const auto& source = load((20 << 20) + 4096, {{at(4096, kCols), DType::kF32, 0}});
  EXPECT_EQ(source.reads().size(), 3u);
  EXPECT_EQ(std::memcmp(memory_.data(), source.bytes().data() + 4096, 20 << 20), 0);
  EXPECT_EQ(counted_bytes_, uint64_t{20} << 20);
}

}  // namespace
}  // namespace colibri
