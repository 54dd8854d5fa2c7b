// Hostile templates and conversations: each ends in an error that names the limit.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "model/chat_template.h"

namespace colibri {
namespace {

std::string failure(const std::string& source, const ChatTemplateLimits& limits = {}) {
  ChatInput input;
  input.messages_json = "[]";
  try {
    return "rendered " + std::to_string(ChatTemplate(source, limits).render(input).size());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
}

#define EXPECT_NAMES(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(ChatTemplateLimitsTest, StepsAreCounted) {
  ChatTemplateLimits limits;
  limits.max_steps = 1000;
  EXPECT_NAMES(failure("{% for i in range(2000) %}{% endfor %}", limits), "more than 1000 steps");
}

TEST(ChatTemplateLimitsTest, NestedLoopsRunOutOfSteps) {
  ChatTemplateLimits limits;
  limits.max_steps = 100'000;
  const std::string loop = "{% for i in range(1000) %}";
  EXPECT_NAMES(failure(loop + loop + loop + repeated("{% endfor %}", 3), limits),
               "more than 100000 steps");
}

TEST(ChatTemplateLimitsTest, OutputIsCounted) {
  ChatTemplateLimits limits;
  limits.max_output_bytes = 10;
  EXPECT_EQ(failure("0123456789", limits), "rendered 10");
  EXPECT_NAMES(failure("0123456789a", limits), "a text of more than 10 bytes");
}

TEST(ChatTemplateLimitsTest, DoubledStringsAreStopped) {
  EXPECT_NAMES(failure("{% set ns = namespace(s='x') %}{% for i in range(100) %}"
                       "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
               "bytes");
}

TEST(ChatTemplateLimitsTest, DoubledListsAreStopped) {
  EXPECT_NAMES(failure("{% set ns = namespace(s=[1]) %}{% for i in range(100) %}"
                       "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
               "bytes");
}

// Each list holds the one before twice: few values, but 2^90 when printed.
TEST(ChatTemplateLimitsTest, SharedListsCountEachTime) {
  EXPECT_NAMES(failure("{% set ns = namespace(s=[1]) %}{% for i in range(90) %}"
                       "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}"),
               "a list or mapping holds more than");
}

TEST(ChatTemplateLimitsTest, RepetitionIsStoppedBeforeItIsMade) {
  EXPECT_NAMES(failure("{{ 'abc' * 1000000000 }}"), "a repeated value of more than");
  EXPECT_NAMES(failure("{{ [[]] * 9000000000000000000 }}"), "a repeated value of more than");
}

TEST(ChatTemplateLimitsTest, ReplacementIsStoppedBeforeItIsMade) {
  EXPECT_NAMES(failure("{% set a = 'a' * 1000000 %}{{ a | replace('a', a) }}"),
               "a replaced string of more than");
}

TEST(ChatTemplateLimitsTest, JoiningIsCounted) {
  EXPECT_NAMES(failure("{% set a = 'a' * 1000000 %}{{ range(1000) | join(a) }}"), "were made");
}

TEST(ChatTemplateLimitsTest, ValuesNestToADepth) {
  EXPECT_NAMES(failure("{% set ns = namespace(s=[]) %}{% for i in range(1000) %}"
                       "{% set ns.s = [ns.s] %}{% endfor %}"),
               "values nest deeper than 100");
}

TEST(ChatTemplateLimitsTest, ANamespaceMayHoldItself) {
  EXPECT_EQ(failure("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a == ns.a }}"),
            "rendered 4");
}

TEST(ChatTemplateLimitsTest, MacrosCallThemselvesToADepth) {
  EXPECT_NAMES(failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "nest deeper than 600");
}

TEST(ChatTemplateLimitsTest, AMacroDoesNotOutliveItsScope) {
  EXPECT_NAMES(failure("{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}"
                       "{% endmacro %}{% set ns.m = m %}{% endfor %}{% set f = ns.m %}{{ f() }}"),
               "is called after its scope ended");
}

TEST(ChatTemplateLimitsTest, ALoopVariableDoesNotOutliveItsLoop) {
  EXPECT_NAMES(failure("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}"
                       "{% endfor %}{{ ns.l.index }}"),
               "after its loop ended");
}

TEST(ChatTemplateLimitsTest, BracketsNestToADepth) {
  EXPECT_NAMES(failure("{{ " + repeated("(", 100'000) + "1" + repeated(")", 100'000) + " }}"),
               "nest deeper than 64");
  EXPECT_NAMES(failure("{{ " + repeated("[", 1000) + repeated("]", 1000) + " }}"),
               "nest deeper than 64");
  EXPECT_NAMES(failure("{{ " + repeated("not ", 1000) + "x }}"), "nest deeper than 64");
  EXPECT_NAMES(failure("{{ " + repeated("-", 1000) + "1 }}"), "nest deeper than 64");
  EXPECT_NAMES(failure("{{ " + repeated("1 if x else ", 1000) + "1 }}"), "nest deeper than 64");
}

TEST(ChatTemplateLimitsTest, TagsNestToADepth) {
  EXPECT_NAMES(failure(repeated("{% if x %}", 1000) + repeated("{% endif %}", 1000)),
               "nest deeper than 64");
}

TEST(ChatTemplateLimitsTest, LongChainsAreHeldToAHeight) {
  EXPECT_NAMES(failure("{{ 1" + repeated(" + 1", 10'000) + " }}"), "nest deeper than 400");
  EXPECT_NAMES(failure("{{ x" + repeated(".a", 10'000) + " }}"), "nest deeper than 400");
  EXPECT_NAMES(failure("{{ x" + repeated(" | trim", 10'000) + " }}"), "nest deeper than 400");
  EXPECT_NAMES(failure("{{ x" + repeated(" or x", 10'000) + " }}"), "nest deeper than 400");
}

TEST(ChatTemplateLimitsTest, LongFlatTemplatesAreFine) {
  EXPECT_EQ(failure(repeated("{{ 1 ~ 2 ~ 3 }}", 10'000)), "rendered 30000");
  EXPECT_EQ(failure("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% endif %}"), "rendered 0");
}

TEST(ChatTemplateLimitsTest, TemplatesHaveASize) {
  EXPECT_NAMES(failure(std::string(300'000, 'x')), "300000 bytes, want at most 262144");
}

TEST(ChatTemplateLimitsTest, TemplatesAreUtf8) { EXPECT_NAMES(failure("a\xff"), "not UTF-8"); }

TEST(ChatTemplateLimitsTest, IntegersHave64Bits) {
  EXPECT_NAMES(failure("{{ 9223372036854775807 + 1 }}"), "an integer of more than 64 bits");
  EXPECT_NAMES(failure("{{ -9223372036854775807 - 2 }}"), "an integer of more than 64 bits");
  EXPECT_NAMES(failure("{{ (-9223372036854775807 - 1) // -1 }}"), "an integer of more than 64");
  EXPECT_NAMES(failure("{{ (1e300) | int }}"), "an integer of more than 64 bits");
}

TEST(ChatTemplateLimitsTest, AnIntegerOfAConversationHas64Bits) {
  ChatInput input;
  input.messages_json = R"([{"role": "user", "content": 99999999999999999999}])";
  EXPECT_THROW(ChatTemplate("{{ messages }}").render(input), Error);
}

TEST(ChatTemplateLimitsTest, AConversationNestsToADepth) {
  const std::string json = repeated("[", 10'000) + repeated("]", 10'000);
  ChatInput input;
  input.messages_json = json;
  EXPECT_THROW(ChatTemplate("").render(input), Error);
}

}  // namespace
}  // namespace colibri
