// Chat templates, one fact a test; what jinja2 says to many more is in
// chat_template_oracle_test.cc.
#include "model/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "model/tokenizer.h"

namespace colibri {
namespace {

std::string render(std::string_view source, std::string_view kwargs = {}) {
  ChatInput input;
  input.messages_json = R"([{"role": "user", "content": "Hi"}])";
  input.kwargs_json = kwargs;
  return ChatTemplate(source).render(input);
}

// Kind and message of what `render` throws.
std::string failure(std::string_view source, std::string_view kwargs = {}) {
  try {
    return "rendered: " + render(source, kwargs);
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
}

TEST(ChatTemplateTest, MessagesAreVariables) {
  EXPECT_EQ(render("{% for m in messages %}{{ m.role }}: {{ m['content'] }}{% endfor %}"),
            "user: Hi");
}

TEST(ChatTemplateTest, OneTemplateRendersManyConversations) {
  const ChatTemplate chat_template("{{ messages | length }}");
  ChatInput input;
  input.messages_json = "[]";
  EXPECT_EQ(chat_template.render(input), "0");
  input.messages_json = R"([{"role": "user"}, {"role": "tool"}])";
  EXPECT_EQ(chat_template.render(input), "2");
}

TEST(ChatTemplateTest, WithoutToolsTheyAreNone) {
  EXPECT_EQ(render("{{ tools is none }}{{ documents is none }}"), "TrueTrue");
}

TEST(ChatTemplateTest, ToolsKeepTheirOrderOfKeys) {
  ChatInput input;
  input.messages_json = "[]";
  input.tools_json = R"([{"z": 1, "a": "<ü>"}])";
  EXPECT_EQ(ChatTemplate("{{ tools[0] | tojson }}").render(input), R"({"z": 1, "a": "<ü>"})");
}

TEST(ChatTemplateTest, SpecialTokensAreVariables) {
  ChatInput input;
  input.messages_json = "[]";
  input.special_tokens = {{"bos_token", "<s>"}};
  EXPECT_EQ(ChatTemplate("{{ bos_token }}{{ eos_token }}|").render(input), "<s>|");
}

TEST(ChatTemplateTest, KwargsAreVariables) {
  EXPECT_EQ(render("{{ enable_thinking }}", R"({"enable_thinking": false})"), "False");
}

TEST(ChatTemplateTest, KwargsWinOverTheGenerationPromptFlag) {
  EXPECT_EQ(render("{{ add_generation_prompt }}", R"({"add_generation_prompt": "x"})"), "x");
}

TEST(ChatTemplateTest, KwargsDoNotReplaceMessages) {
  EXPECT_EQ(render("{{ messages[0].content }}", R"({"messages": []})"), "Hi");
}

TEST(ChatTemplateTest, TheLastOfEqualKeysCounts) {
  EXPECT_EQ(render("{{ x }}", R"({"x": 1, "x": 2})"), "2");
}

TEST(ChatTemplateTest, TheTimeIsTheOneGiven) {
  ChatInput input;
  input.messages_json = "[]";
  input.now = std::tm{};
  input.now->tm_year = 124;
  input.now->tm_mon = 6;
  input.now->tm_mday = 26;
  EXPECT_EQ(ChatTemplate("{{ strftime_now('%d %Y-%m') }}").render(input), "26 2024-07");
}

TEST(ChatTemplateTest, ChatMessagesBecomeJson) {
  const ChatMessage messages[] = {{"user", "a \"b\"\n"}};
  EXPECT_EQ(chat_messages_json(messages), R"([{"role":"user","content":"a \"b\"\n"}])");
}

TEST(ChatTemplateTest, TextThatIsNotUtf8GetsReplacementCharacters) {
  const ChatMessage messages[] = {{"user", "a\xff"}};
  ChatInput input;
  const std::string json = chat_messages_json(messages);
  input.messages_json = json;
  EXPECT_EQ(ChatTemplate("{{ messages[0].content }}").render(input), "a\uFFFD");
}

TEST(ChatTemplateTest, MessagesMustBeAnArrayOfObjects) {
  ChatInput input;
  input.messages_json = R"(["Hi"])";
  EXPECT_THROW(ChatTemplate("x").render(input), Error);
  input.messages_json = "{}";
  EXPECT_THROW(ChatTemplate("x").render(input), Error);
  input.messages_json = "";
  EXPECT_THROW(ChatTemplate("x").render(input), Error);
}

TEST(ChatTemplateTest, TheTokenizersSpecialTokensAreFound) {
  const Tokenizer tokenizer = Tokenizer::from_json(
      R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
          "post_processor": null, "decoder": null,
          "model": {"type": "BPE", "vocab": {"a": 0, "<s>": 1}, "merges": []}})",
      R"({"bos_token": "<s>", "eos_token": null})");
  const std::vector<std::pair<std::string, std::string>> want = {{"bos_token", "<s>"}};
  EXPECT_EQ(chat_special_tokens(tokenizer), want);
}

TEST(ChatTemplateTest, ABreakLeavesOneLoopOnly) {
  EXPECT_EQ(render("{% for a in 'xy' %}{% for b in 'pq' %}{{ b }}{% break %}{% endfor %}{{ a }}"
                   "{% endfor %}"),
            "pxpy");
}

TEST(ChatTemplateTest, AMacroDoesNotSeeItsCallersLoop) {
  EXPECT_EQ(render("{% macro m() %}{{ i is defined }}{% endmacro %}"
                   "{% for i in 'a' %}{{ m() }}{% endfor %}"),
            "False");
}

TEST(ChatTemplateTest, AnErrorNamesItsLine) {
  EXPECT_EQ(failure("a\nb\n{{ missing.x }}"),
            "input: chat template, line 3: 'missing' is undefined");
  EXPECT_EQ(failure("{% set x = 1 %}\n{{ x + 'a' }}"),
            "input: chat template, line 2: unsupported operand types for +: 'int' and 'str'");
}

TEST(ChatTemplateTest, AnErrorInAMacroNamesTheMacrosLine) {
  EXPECT_EQ(failure("{% macro m() %}\n\n{{ 1 / 0 }}{% endmacro %}\n\n{{ m() }}"),
            "input: chat template, line 3: division by zero");
}

TEST(ChatTemplateTest, RaiseExceptionGivesItsMessage) {
  EXPECT_EQ(failure("{{ raise_exception('roles must alternate') }}"),
            "input: chat template, line 1: the template refuses: roles must alternate");
}

TEST(ChatTemplateTest, AnUndefinedFunctionIsNamed) {
  EXPECT_EQ(failure("{{ foo() }}"), "input: chat template, line 1: 'foo' is undefined");
}

TEST(ChatTemplateTest, AMissingKeyIsNamed) {
  EXPECT_EQ(failure("{{ messages[0].name.first }}"),
            "input: chat template, line 1: 'dict object' has no attribute 'name'");
}

TEST(ChatTemplateTest, UnsupportedTagsAreRefusedByName) {
  EXPECT_EQ(failure("x\n{% include 'a' %}"),
            "unsupported: chat template, line 2: the tag 'include' is not supported; there are if, "
            "for, set, macro, generation, break, continue, raw");
}

// What is not there is refused when the template is compiled, before anything is rendered.
TEST(ChatTemplateTest, UnsupportedNamesAreRefusedAtCompileTime) {
  for (const char* source :
       {"{{ x | pprint }}", "{{ x is filter }}", "{{ x.format(1) }}", "{{ lipsum() }}",
        "{{ x | join(by=1) }}", "{{ x | replace('a') }}", "{{ x.strip(1, 2) }}", "{{ 2 ** 2 }}",
        "{{ f(*x) }}", "{% for a in b recursive %}{% endfor %}", "{{ x['a', 'b'] }}",
        "{% set x | upper %}a{% endset %}", "{{ 99999999999999999999 }}", "{{ 0x10 }}",
        "{% macro m() %}{{ varargs }}{% endmacro %}", "{% call m() %}{% endcall %}",
        "{{ '\\N{DASH}' }}"}) {
    try {
      const ChatTemplate chat_template(source);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << source << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find("line 1"), std::string::npos) << error.what();
    }
  }
}

TEST(ChatTemplateTest, AnUnknownFilterIsToldWhichThereAre) {
  const std::string message = failure("{{ x | pprint }}");
  EXPECT_NE(message.find("'pprint' is not supported; there are trim, upper"), std::string::npos)
      << message;
}

TEST(ChatTemplateTest, BrokenSyntaxIsWrongInput) {
  for (const char* source : {"{{ x",
                             "{% if x %}",
                             "{% endif %}",
                             "{{ x }",
                             "{# open",
                             "{% raw %}x",
                             "{{ (1 }}",
                             "{{ 1 + }}",
                             "{% for x %}{% endfor %}",
                             "{% set = 1 %}",
                             "{{ 'open }}",
                             "{% else %}",
                             "{% break %}",
                             "{{ a b }}",
                             "{% macro %}{% endmacro %}",
                             "{{ }}",
                             "{% %}",
                             "{{ [1, }}",
                             "{{ {1} }}",
                             "{% set true = 1 %}",
                             "{{ x is }}",
                             "{{ x | }}",
                             "{{ ] }}",
                             "{{ 012 }}",
                             "{% macro m(a=1, b) %}{% endmacro %}",
                             "{{ '\\ud800' }}",
                             "{{ 'a' is string is string }}",
                             "{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
                             "{{ $ }}"}) {
    try {
      const ChatTemplate chat_template(source);
      ADD_FAILURE() << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << source << ": " << error.what();
    }
  }
}

TEST(ChatTemplateTest, ASyntaxErrorSaysWhatCameAndWhatIsWanted) {
  EXPECT_EQ(failure("\n{% for x on y %}"), "input: chat template, line 2: got 'on', want 'in'");
  EXPECT_EQ(failure("{% if x %}\n"),
            "input: chat template, line 1: got the end of the template, want 'endif'");
}

}  // namespace
}  // namespace colibri
