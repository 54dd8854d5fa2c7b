#include "topology/route_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

// Two layers, of which the first is dense, four experts, two of them per token.
RouteFileHeader small_header() {
  return {.family = "mixtral",
          .fingerprint = "ab",
          .num_layers = 2,
          .num_experts = 4,
          .top_k = 2,
          .layer_is_moe = {false, true}};
}

std::string u32(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}
std::string u64(uint64_t value) {
  return u32(static_cast<uint32_t>(value)) + u32(static_cast<uint32_t>(value >> 32));
}
std::string u16(int value) {
  return {static_cast<char>(value & 255), static_cast<char>(value >> 8)};
}

std::string header_bytes() {
  return "CLBROUTE" + u32(1) + u32(2) + u32(4) + u32(2) + u32(7) + "mixtral" + u32(2) + "ab" +
         std::string{0, 1};
}
// One token, id 9 at position 5 of sequence 3.
std::string tokens_bytes() { return u32(1) + u32(1) + u32(3) + u32(5) + u32(9); }
// It chose experts 1 and 3 with weights 0.25 and 0.75.
std::string layer_bytes(uint32_t layer = 1, int first = 1, int second = 3) {
  return u32(2) + u32(layer) + u16(first) + u16(second) + u32(0x3e800000) + u32(0x3f400000);
}
std::string end_bytes(uint64_t steps = 1, uint64_t blocks = 1) {
  return u32(3) + u64(steps) + u64(blocks);
}
std::string whole() { return header_bytes() + tokens_bytes() + layer_bytes() + end_bytes(); }

class RouteFileTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return dir_ / "r.routes"; }
  void write_small() {
    RouteFileWriter writer(path(), small_header());
    const RouteToken token{3, 5, 9};
    writer.begin_step({&token, 1});
    writer.add_layer(1, std::vector<int32_t>{1, 3}, std::vector<float>{0.25f, 0.75f});
    writer.commit();
  }
  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }
  // Reads a file of these bytes to its end.
  int read_all(const std::string& content) {
    std::ofstream(path(), std::ios::binary) << content;
    RouteFileReader reader(path());
    RouteBlock block;
    int count = 0;
    while (reader.next(block)) ++count;
    return count;
  }

  TempDir dir_;
};

TEST_F(RouteFileTest, BytesAreThoseOfTheDocument) {
  write_small();
  EXPECT_EQ(bytes(), whole());
}

TEST_F(RouteFileTest, BlocksComeBackAsTheyWereWritten) {
  {
    RouteFileWriter writer(path(), small_header());
    const std::vector<RouteToken> prompt = {{0, 0, 7}, {0, 1, 8}};
    writer.begin_step(prompt);
    writer.add_layer(1, std::vector<int32_t>{0, 1, 2, 3}, std::vector<float>{1, 2, 3, 4});
    const RouteToken next{0, 2, 1};
    writer.begin_step({&next, 1});
    writer.add_layer(1, std::vector<int32_t>{0, 3}, std::vector<float>{5, 6});
    writer.commit();
  }
  RouteFileReader reader(path());
  EXPECT_EQ(reader.header(), small_header());
  RouteBlock block;
  ASSERT_TRUE(reader.next(block));
  EXPECT_EQ(block.step, 0);
  EXPECT_EQ(block.layer, 1);
  EXPECT_EQ(block.tokens, (std::vector<RouteToken>{{0, 0, 7}, {0, 1, 8}}));
  EXPECT_EQ(block.expert_ids, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(block.weights, (std::vector<float>{1, 2, 3, 4}));
  ASSERT_TRUE(reader.next(block));
  EXPECT_EQ(block.step, 1);
  EXPECT_EQ(block.tokens, (std::vector<RouteToken>{{0, 2, 1}}));
  EXPECT_EQ(block.weights, (std::vector<float>{5, 6}));
  EXPECT_FALSE(reader.next(block));
  EXPECT_FALSE(reader.next(block));
}

TEST_F(RouteFileTest, WeightsOfADamagedRouterAreKept) {
  {
    RouteFileWriter writer(path(), small_header());
    const RouteToken token{};
    writer.begin_step({&token, 1});
    writer.add_layer(1, std::vector<int32_t>{0, 1},
                     std::vector<float>{std::numeric_limits<float>::quiet_NaN(), INFINITY});
    writer.commit();
  }
  RouteFileReader reader(path());
  RouteBlock block;
  ASSERT_TRUE(reader.next(block));
  EXPECT_TRUE(std::isnan(block.weights[0]));
  EXPECT_TRUE(std::isinf(block.weights[1]));
}

TEST_F(RouteFileTest, NothingIsLeftOfARecordThatIsNotCommitted) {
  { RouteFileWriter writer(path(), small_header()); }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(RouteFileTest, FileThatCannotBeMadeOrReadIsNamed) {
  EXPECT_ERROR(RouteFileWriter(dir_ / "no/such.routes", small_header()), kInput, "no/such.routes");
  EXPECT_ERROR(RouteFileReader(dir_ / "absent"), kEnvironment, "absent: cannot be read");
  EXPECT_ERROR(RouteFileReader(dir_.path()), kInput, "is not a file");
}

TEST_F(RouteFileTest, CutAtAnyByteIsAnError) {
  ASSERT_EQ(read_all(whole()), 1);
  for (size_t length = 0; length < whole().size(); ++length) {
    EXPECT_THROW(read_all(whole().substr(0, length)), Error) << length;
  }
  EXPECT_ERROR(read_all(header_bytes() + tokens_bytes() + layer_bytes()), kInput, "the file ends");
  EXPECT_ERROR(read_all("CLBROU"), kInput, "no route record");
}

TEST_F(RouteFileTest, FlippedBitIsReadOrNamed) {
  for (size_t bit = 0; bit < whole().size() * 8; bit += 7) {
    std::string flipped = whole();
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      EXPECT_LE(read_all(flipped), 1) << bit;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path().string()), std::string::npos);
    }
  }
}

TEST_F(RouteFileTest, NameThatIsADirectoryIsAnErrorAndNothingIsLeft) {
  std::filesystem::create_directories(path() / "x");
  EXPECT_ERROR(write_small(), kEnvironment, "cannot name");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST_F(RouteFileTest, OtherFilesAndVersionsAreNamed) {
  EXPECT_ERROR(read_all("GGUF0000" + std::string(60, '\0')), kInput, "no route record");
  std::string later = whole();
  later[8] = 2;
  EXPECT_ERROR(read_all(later), kUnsupported, "version 2, this build reads version 1");
}

TEST_F(RouteFileTest, HeadersOfNoModelAreRefused) {
  const auto header = [](uint32_t layers, uint32_t experts, uint32_t top_k) {
    return "CLBROUTE" + u32(1) + u32(layers) + u32(experts) + u32(top_k);
  };
  EXPECT_ERROR(read_all(header(0, 4, 2)), kInput, "0 layers");
  EXPECT_ERROR(read_all(header(4000000000u, 4, 2)), kInput, "4000000000 layers");
  EXPECT_ERROR(read_all(header(2, 4, 5)), kInput, "5 per token");
  EXPECT_ERROR(read_all(header(2, 4, 2) + u32(5000)), kInput, "the family of 5000 bytes");
  EXPECT_ERROR(read_all(header(2, 4, 2) + u32(1) + "\x1b"), kInput, "no printable ASCII");
  EXPECT_ERROR(read_all(header(2, 4, 2) + u32(0) + u32(0) + "\2\1"), kInput, "kind 2");
}

TEST_F(RouteFileTest, WrongBlocksAreNamed) {
  const std::string start = header_bytes() + tokens_bytes();
  EXPECT_ERROR(read_all(header_bytes() + u32(7)), kInput, "block of kind 7");
  EXPECT_ERROR(read_all(header_bytes() + layer_bytes()), kInput, "before the first step");
  EXPECT_ERROR(read_all(header_bytes() + u32(1) + u32(0)), kInput, "without tokens");
  EXPECT_ERROR(read_all(header_bytes() + u32(1) + u32(4000000000u)), kInput, "4000000000 tokens");
  EXPECT_ERROR(read_all(header_bytes() + u32(1) + u32(1) + u32(3) + u32(~0u) + u32(9)), kInput,
               "at position -1");
  EXPECT_ERROR(read_all(start + layer_bytes(2)), kInput, "layer 2, want 0 to 1");
  EXPECT_ERROR(read_all(start + layer_bytes(0)), kInput, "layer 0 has choices but no experts");
  EXPECT_ERROR(read_all(start + layer_bytes() + layer_bytes()), kInput, "layer 1 after layer 1");
  EXPECT_ERROR(read_all(start + layer_bytes(1, 1, 4)), kInput, "expert 4, want 0 to 3");
  EXPECT_ERROR(read_all(start + layer_bytes(1, 3, 1)), kInput, "expert 1 after 3");
  EXPECT_ERROR(read_all(start + layer_bytes(1, 3, 3)), kInput, "expert 3 after 3");
}

TEST_F(RouteFileTest, EndHoldsTheCountsAndIsTheEnd) {
  const std::string start = header_bytes() + tokens_bytes() + layer_bytes();
  EXPECT_ERROR(read_all(start + end_bytes(2, 1)), kInput, "tells of 2 steps");
  EXPECT_ERROR(read_all(start + end_bytes(1, 2)), kInput, "and 2 layers' blocks");
  EXPECT_ERROR(read_all(whole() + "x"), kInput, "1 bytes after the end");
}

}  // namespace
}  // namespace colibri
