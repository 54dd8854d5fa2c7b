// What jinja2 renders (tests/oracle/make_chat_templates.py), byte for byte.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "model/chat_template.h"

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;  // the templates show the order of keys

Json data(const std::string& name) {
  const std::string path = std::string(COLIBRI_SOURCE_DIR) + "/tests/data/chat_templates/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return Json::parse(file);
}

struct Texts {
  std::string messages, tools, kwargs;
};

ChatInput input_of(const Json& one, const Json& tokens, Texts& texts) {
  texts.messages = one.at("messages").dump();
  if (one.contains("tools")) texts.tools = one.at("tools").dump();
  if (one.contains("kwargs")) texts.kwargs = one.at("kwargs").dump();
  ChatInput input;
  input.messages_json = texts.messages;
  input.tools_json = texts.tools;
  input.kwargs_json = texts.kwargs;
  input.add_generation_prompt = one.at("add_generation_prompt").get<bool>();
  for (const auto& [name, text] : tokens.items()) {
    input.special_tokens.emplace_back(name, text.get<std::string>());
  }
  return input;
}

class ConversationsTest : public testing::TestWithParam<const char*> {};

TEST_P(ConversationsTest, RenderToJinjasBytes) {
  const Json file = data(std::string(GetParam()) + ".json");
  const ChatTemplate chat_template(file.at("template").get<std::string>());
  ASSERT_EQ(file.at("cases").size(), 50u);
  for (const Json& one : file.at("cases")) {
    Texts texts;
    const ChatInput input = input_of(one, file.at("special_tokens"), texts);
    if (one.contains("error")) {
      EXPECT_THROW(chat_template.render(input), Error) << texts.messages;
    } else {
      EXPECT_EQ(chat_template.render(input), one.at("expected").get<std::string>())
          << texts.messages;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ConversationsTest,
                         testing::Values("qwen3_kind", "deepseek_kind", "glm_kind", "mixtral_kind"),
                         [](const auto& kind) { return std::string(kind.param); });

// The first case holds the variables; `error` is what Python raises, `refused` what only we refuse.
TEST(ConstructsTest, RenderToJinjasBytes) {
  const Json file = data("constructs.json");
  const Json& cases = file.at("cases");
  const std::string kwargs = cases.at(0).at("variables").dump();
  for (size_t i = 1; i < cases.size(); ++i) {
    const std::string source = cases[i].at("template").get<std::string>();
    ChatInput input;
    input.messages_json = "[]";
    input.kwargs_json = kwargs;
    std::string got;
    try {
      got = ChatTemplate(source).render(input);
    } catch (const Error& error) {
      EXPECT_FALSE(cases[i].contains("expected"))
          << source << "\n"
          << error.what() << "\nwant: " << cases[i].at("expected");
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << source;
      continue;
    }
    ASSERT_TRUE(cases[i].contains("expected")) << source << "\ngot: " << got;
    EXPECT_EQ(got, cases[i].at("expected").get<std::string>()) << source;
  }
}

}  // namespace
}  // namespace colibri
