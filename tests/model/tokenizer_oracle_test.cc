// Small tokenizers of each family's kind against what the `tokenizers` package says
// (tests/oracle/make_tokenizer_fixtures.py), string by string.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/tokenizer.h"

namespace colibri {
namespace {

const std::filesystem::path kData = COLIBRI_SOURCE_DIR "/tests/data/tokenizers";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> read_fragments() {
  return nlohmann::json::parse(read_file(kData / "fragments.json"));
}

class Generator {
 public:
  explicit Generator(uint64_t idx) : state_((idx + 1) * 0x9e3779b97f4a7c15ull) {}
  size_t below(size_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state_ >> 33) % n;
  }

 private:
  uint64_t state_;
};

std::string make_string(size_t idx, const std::vector<std::string>& fragments) {
  Generator generator(idx);
  std::string text;
  for (size_t count = 1 + generator.below(12); count > 0; --count) {
    text += fragments[generator.below(fragments.size())];
  }
  return text;
}

uint32_t fnv(std::string_view data, uint32_t value = 0x811c9dc5u) {
  for (const char c : data) value = (value ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return value;
}

std::string record_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string id_bytes;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) id_bytes += static_cast<char>(id >> shift);
  }
  const uint32_t of_ids = fnv(id_bytes);
  uint32_t of_text = fnv(tokenizer.decode(ids, true), fnv(tokenizer.decode(ids, false)));
  of_text ^= of_text >> 16;
  const uint32_t folded = (of_ids >> 16) ^ of_ids;
  return {static_cast<char>(folded), static_cast<char>(folded >> 8),
          static_cast<char>(of_text ^ (of_text >> 8))};
}

class TokenizerOracleTest : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerOracleTest, IdsAndTextEqualTheTokenizersPackage) {
  const Tokenizer tokenizer = Tokenizer::load(kData / GetParam());
  const auto fragments = read_fragments();
  const std::string expected = read_file(kData / GetParam() / "hashes.bin");
  ASSERT_GT(expected.size(), 0u);
  size_t num_wrong = 0;
  for (size_t i = 0; 3 * i < expected.size() && num_wrong < 5; ++i) {
    const std::string text = make_string(i, fragments);
    const std::vector<int32_t> ids = tokenizer.encode(text);
    const std::string record = record_of(tokenizer, ids);
    if (record == expected.substr(3 * i, 3)) continue;
    ++num_wrong;
    const bool is_decode = record.substr(0, 2) == expected.substr(3 * i, 2);
    ADD_FAILURE() << "string " << i << (is_decode ? ": text " : ": ids ")
                  << nlohmann::json(text).dump() << " gave " << nlohmann::json(ids).dump()
                  << " and " << nlohmann::json(tokenizer.decode(ids, false)).dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerOracleTest,
                         testing::Values("qwen3", "deepseek_v3", "glm4", "olmoe", "mixtral",
                                         "mixed_a", "mixed_b", "mixed_c", "mixed_d"),
                         [](const auto& param) { return std::string(param.param); });

TEST(TokenizerDemoTest, MixedTextGivesTheIdsOfTheTokenizersPackage) {
  const Tokenizer tokenizer = Tokenizer::load(COLIBRI_SOURCE_DIR "/configs/models/demo");
  for (const auto& one : nlohmann::json::parse(read_file(kData / "demo_ids.json"))) {
    const std::string text = one["text"];
    EXPECT_EQ(tokenizer.encode(text), one["ids"].get<std::vector<int32_t>>()) << one["text"];
  }
}

}  // namespace
}  // namespace colibri
