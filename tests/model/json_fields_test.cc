#include "model/json_fields.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

JsonValue parse(const std::string& text) { return parse_json(text, "x.json"); }

TEST(JsonTest, KeyThatStandsTwiceIsRefused) {
  EXPECT_ERROR(parse(R"({"a": 1, "b": {"c": 1, "c": 2}})"), kInput, "key \"c\" stands twice");
}

TEST(JsonTest, SameKeyInTwoObjectsIsFine) {
  const JsonValue value = parse(R"({"a": {"c": 1}, "b": {"c": 2}})");
  EXPECT_EQ(value.find("b")->find("c")->integer, 2);
}

TEST(JsonTest, DeepNestingIsRefused) {
  EXPECT_ERROR(parse(std::string(1000, '[')), kInput, "nested deeper than 32 levels");
}

TEST(JsonTest, ManyValuesAreRefused) {
  EXPECT_ERROR(parse_json("[1,2,3,4]", "x.json", 4), kInput, "more than 4 JSON values");
}

TEST(JsonTest, BytesThatAreNotUtf8AreNamedSo) {
  EXPECT_ERROR(parse("{\"a\": \"\xff\"}"), kInput, "x.json: not UTF-8");
}

TEST(JsonTest, TextAfterTheValueIsRefused) { EXPECT_ERROR(parse("{} x"), kInput, "not JSON"); }

TEST(JsonTest, NumberBeyondInt64IsNoInteger) {
  EXPECT_EQ(parse("9223372036854775807").kind, JsonKind::kInteger);
  EXPECT_EQ(parse("9223372036854775808").kind, JsonKind::kReal);
}

TEST(JsonFieldsTest, FractionIsNoInteger) {
  const JsonValue object = parse(R"({"n": 4.0})");
  JsonFields fields(object, "x.json");
  EXPECT_ERROR(fields.int_or("n", 1, {1, 8}), kInput, "n is 4.0, want an integer in [1, 8]");
}

TEST(JsonFieldsTest, RangeIsPartOfTheMessage) {
  const JsonValue object = parse(R"({"n": 9})");
  JsonFields fields(object, "x.json");
  EXPECT_ERROR(fields.int_or("n", 1, {1, 8}), kInput, "x.json: n is 9, want an integer in [1, 8]");
}

TEST(JsonFieldsTest, NullCountsAsAbsentOnlyWhereAllowed) {
  const JsonValue object = parse(R"({"n": null})");
  JsonFields fields(object, "x.json");
  EXPECT_FALSE(fields.optional_int("n", {1, 8}).has_value());
  EXPECT_ERROR(fields.int_or("n", 1, {1, 8}), kInput, "n is null");
}

TEST(JsonFieldsTest, KeysNobodyAskedForAreNamed) {
  const JsonValue object = parse(R"({"a": 1, "b": true, "c": "x"})");
  JsonFields fields(object, "x.json");
  fields.int_or("a", 0, {0, 9});
  fields.without_effect({"c"});
  EXPECT_ERROR(fields.refuse_unread(), kUnsupported, "unknown key b (true)");
}

TEST(JsonFieldsTest, ListWithATextIsNoListOfIntegers) {
  const JsonValue object = parse(R"({"ids": [1, "2"]})");
  JsonFields fields(object, "x.json");
  EXPECT_ERROR(fields.ints("ids", {0, 9}), kInput, "ids is \"2\", want an integer");
}

}  // namespace
}  // namespace colibri
