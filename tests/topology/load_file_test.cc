#include "topology/load_file.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "topology/placement_pictures.h"
#include "topology/simulator.h"

namespace colibri {
namespace {

ModelShape shape_of_three() {
  ModelShape shape;
  shape.family = "made_up";
  shape.fingerprint = "0123456789abcdef";
  shape.num_layers = 2;
  shape.num_experts = 3;
  shape.top_k = 2;
  shape.layer_is_moe = {false, true};
  return shape;
}

ExpertLoads some_loads() {
  ExpertLoads loads = empty_loads(shape_of_three(), true);
  LayerLoads& decode = loads.phases[static_cast<size_t>(LoadPhase::kDecode)][1];
  decode.num_tokens = 3;
  decode.tokens = {3, 1, 2};
  decode.pairs[pair_index(0, 1)] = 1;
  decode.pairs[pair_index(0, 2)] = 2;
  return loads;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = loads_text(some_loads());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LoadFile, WhatIsWrittenIsReadBack) {
  const ExpertLoads loads = parse_loads(loads_text(some_loads()), "l", shape_of_three());
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1), some_loads().of(LoadPhase::kDecode, 1));
  EXPECT_EQ(loads.of(LoadPhase::kPrefill, 1).num_tokens, 0);
}

TEST(LoadFile, LoadsOfAnotherModelAreRefusedWithBothNames) {
  ModelShape other = shape_of_three();
  other.fingerprint = "fedcba9876543210";
  EXPECT_ERROR(parse_loads(loads_text(some_loads()), "l", other), kInput,
               "0123456789abcdef), this model is made_up (fedcba9876543210)");
}

TEST(LoadFile, WrongNumbersAreNamed) {
  const ModelShape shape = shape_of_three();
  EXPECT_ERROR(parse_loads("[", "l", shape), kInput, "l: is no JSON");
  EXPECT_ERROR(parse_loads(changed("\"colibri_loads\": 1", "\"colibri_loads\": 2"), "l", shape),
               kUnsupported, "version 2");
  EXPECT_ERROR(parse_loads(changed("\"layer\":1", "\"layer\":0"), "l", shape), kInput,
               "layer 0 has no experts");
  EXPECT_ERROR(parse_loads(changed("[3.0,1.0,2.0]", "[3.0,1.0]"), "l", shape), kInput,
               "tokens of 2 experts, want 3");
  EXPECT_ERROR(parse_loads(changed("[3.0,1.0,2.0]", "[4.0,1.0,2.0]"), "l", shape), kInput,
               "want at most num_tokens");
  EXPECT_ERROR(parse_loads(changed("[0,2,2.0]", "[2,2,2.0]"), "l", shape), kInput,
               "want [lower expert, higher expert, count]");
}

TEST(LoadFile, PairsThatNoTokenCanHaveMadeAreRefused) {
  EXPECT_ERROR(parse_loads(changed("[0,2,2.0]", "[0,2,2.5]"), "l", shape_of_three()), kInput,
               "want at most the tokens of both experts");
}

TEST(LoadFile, NestingWithoutEndIsRefusedInFewWords) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_ERROR(parse_loads("{\"colibri_loads\": " + deep + "}", "l", shape_of_three()), kInput,
               "'colibri_loads' is of kind array, want a whole number");
}

TEST(LoadFile, IsReadWithoutItsModelToo) {
  const ExpertLoads loads = parse_loads(loads_text(some_loads()), "l");
  EXPECT_EQ(loads.family, "made_up");
  EXPECT_EQ(loads.num_layers, 2);
  EXPECT_EQ(loads.num_experts, 3);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1), some_loads().of(LoadPhase::kDecode, 1));
  EXPECT_TRUE(loads.of(LoadPhase::kDecode, 0).tokens.empty());
}

TEST(LoadFile, WithoutItsModelPairsOfMoreThanAGigabyteAreRefused) {
  std::string tokens = "0";
  for (int e = 1; e < 16384; ++e) tokens += ",0";  // one entry's pairs are 1.07 GB
  EXPECT_ERROR(parse_loads(changed("[3.0,1.0,2.0]", "[" + tokens + "]"), "l"), kInput,
               "read it with its model");
}

TEST(LoadFile, PairsOfAPhaseThatHadNoTokenYetAreMerged) {
  ExpertLoads loads = empty_loads(shape_of_three(), false);
  merge_loads(loads, some_loads(), 0.5);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1), some_loads().of(LoadPhase::kDecode, 1));
  merge_loads(loads, empty_loads(shape_of_three(), false), 0.5);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1).pairs[pair_index(0, 2)], 1);
}

TEST(LoadFile, EarlierLoadsCountLessByTheDecay) {
  ExpertLoads loads = some_loads();
  merge_loads(loads, some_loads(), 0.5);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1).num_tokens, 4.5);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1).tokens[0], 4.5);
  EXPECT_EQ(loads.of(LoadPhase::kDecode, 1).pairs[pair_index(0, 2)], 3);
}

TEST(LoadFile, SharesAreChancesOfOneToken) {
  const ExpertLoads loads = some_loads();
  EXPECT_DOUBLE_EQ(expert_shares(&loads, shape_of_three(), 1)[1], 1.0 / 3);
  EXPECT_DOUBLE_EQ(expert_shares(nullptr, shape_of_three(), 1)[1], 2.0 / 3);
}

TEST(LoadPicture, EachExpertHasACellWithItsNumber) {
  const std::string svg =
      loads_svg(shape_of_three(), loaded_shares(shape_of_three(), some_loads()));
  EXPECT_NE(svg.find("layer 1, expert 2: 66.67 % of tokens"), std::string::npos);
  EXPECT_EQ(svg.find("layer 0, expert"), std::string::npos);
}

}  // namespace
}  // namespace colibri
