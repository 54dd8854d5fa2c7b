// The page at / of a server in a real browser; in the long run (FULL_TESTS).

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/multi/browser.h"
#include "tests/multi/served.h"

namespace colibri {
namespace {

using nlohmann::json;

const Words kOneRank = {"--max-context", "1024"};

class PageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FULL_TESTS") == nullptr) GTEST_SKIP() << "set FULL_TESTS=1";
  }
  // Whatever else a test is about: the page asked nobody but its server, and nothing went wrong.
  void TearDown() override {
    if (!browser_) return;
    for (const std::string& url : browser_->requests()) {
      EXPECT_TRUE(url.starts_with(server_->url() + "/")) << url;
    }
    EXPECT_EQ(browser_->errors(), std::vector<std::string>());
  }

  void open(const Words& words) {
    server_.emplace(words);
    browser_.emplace(server_->url() + "/");
  }
  void ask(const std::string& text) {
    browser_->value_of("document.getElementById('temperature').value = '0'");
    browser_->type("text", text);
    browser_->press("Enter", 13, "\r");
  }
  bool becomes(const std::string& expression) { return browser_->becomes(expression); }
  bool says(const std::string& selector, const std::string& text) {
    return becomes("(document.querySelector('" + selector + "')?.textContent ?? '').includes(" +
                   json(text).dump() + ")");
  }
  // What the server says without the page.
  json answer(const std::string& path, const json& request) {
    HttpClient client(server_->port());
    client.send(http_post(path, request.dump()));
    const std::string head = client.read_until("\r\n\r\n");
    return json::parse(client.read_bytes(std::stoul(head.substr(head.find("-Length: ") + 9))));
  }

  std::optional<Served> server_;
  std::optional<Browser> browser_;
};

const std::string kAnswer = ".assistant div", kNote = ".assistant .note";

TEST_F(PageTest, MessageIsAnsweredPieceByPieceWithTheServersText) {
  open(kOneRank);
  browser_->value_of(
      "num = 0; new MutationObserver(() => num++)"
      ".observe($('log'), {subtree: true, childList: true, characterData: true})");
  const std::string hostile = "<img src=x onerror=alert(1)> ROMEO:";
  ask(hostile);
  ASSERT_TRUE(says(kNote, " tokens")) << browser_->text_of("body");
  const json messages = json::array({{{"role", "user"}, {"content", hostile}}});
  const json want = answer("/v1/chat/completions",
                           {{"messages", messages}, {"temperature", 0}, {"max_tokens", 512}});
  EXPECT_EQ(browser_->text_of(kAnswer), want["choices"][0]["message"]["content"]);
  EXPECT_GT(browser_->value_of("num"), 5);
  EXPECT_EQ(browser_->text_of(".user div"), hostile);
  EXPECT_EQ(browser_->value_of("document.querySelectorAll('#log img').length"), 0);
  browser_->call("Page.reload");
  EXPECT_TRUE(says(kAnswer, want["choices"][0]["message"]["content"]));  // the conversation is kept
}

TEST_F(PageTest, StopEndsTheAnswerAtTheServerToo) {
  open(kOneRank);
  browser_->value_of(
      "new MutationObserver(() => $('log').querySelector('.assistant div')?.textContent"
      " && $('stop').click()).observe($('log'), {subtree: true, childList: true})");
  ask("ROMEO:");
  EXPECT_TRUE(says(kNote, "stopped"));
  EXPECT_NE(browser_->text_of(kAnswer), "");
  EXPECT_TRUE(wait_until(
      [&] {
        HttpClient client(server_->port());
        client.send("GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        return client.read_all().find("finished_reason=\"abort\"} 1") != std::string::npos;
      },
      10));
}

TEST_F(PageTest, RanksAndExpertsAreShownAndALostRankIsTold) {
  const std::string name = "page-" + std::to_string(::getpid());  // finds its processes
  open({"--ranks", "3", "--served-model-name", name, "--max-context", "1024"});
  ask("ROMEO:");
  ASSERT_TRUE(says(kNote, " tokens"));
  EXPECT_TRUE(becomes("document.querySelectorAll('#ranks tr').length === 3"));
  EXPECT_TRUE(says("#ranks tr:nth-child(2)", "alive"));
  EXPECT_TRUE(says("#ranks tr:nth-child(2) td:nth-child(5)", "4.7 MB"));
  // Colours of many cells, and what one of them says.
  EXPECT_TRUE(becomes("map?.most > 1 && map.loads.length === 4 && map.loads[0].length === 16"));
  EXPECT_TRUE(
      becomes("new Set(new Uint32Array($('map').getContext('2d').getImageData(0, 0, $('map').width,"
              " $('map').height).data.buffer)).size > 10"));
  browser_->type("map", "");
  browser_->press("ArrowDown", 40);
  browser_->press("ArrowRight", 39);
  EXPECT_TRUE(says("#cell", "Layer 0, expert 1: "));
  EXPECT_TRUE(becomes("charts.every((chart) => chart.drawn[0].path.getAttribute('d'))"));
  EXPECT_TRUE(says("#model", name));
  ::kill(process_of_rank(name, 2), SIGKILL);
  EXPECT_TRUE(says("#health", "degraded: goes on without rank 2"));
  EXPECT_TRUE(says("#ranks tr:nth-child(3)", "lost"));
}

TEST_F(PageTest, KeyIsAskedForAndThenSent) {
  open(joined(kOneRank, {"--api-key", "sesame"}));
  EXPECT_TRUE(says("#health", "wants an API key"));
  EXPECT_EQ(browser_->text_of("#ranks"), "");
  browser_->type("key", "sesame");
  EXPECT_TRUE(says("#ranks", "alive"));
  EXPECT_TRUE(says("#health", "ready"));
  ask("ROMEO:");
  EXPECT_TRUE(says(kNote, " tokens"));
}

TEST_F(PageTest, ErrorIsShownByItsMessageAndTheTextGivenBack) {
  open(kOneRank);
  browser_->value_of("$('max_tokens').value = '-3'");
  ask("ROMEO:");
  EXPECT_TRUE(says("#problem", "'max_tokens'"));
  EXPECT_EQ(browser_->value_of("$('text').value"), "ROMEO:");
  EXPECT_EQ(browser_->text_of("#log"), "");
}

TEST_F(PageTest, ModelWithoutATemplateGoesOnWithTheText) {
  const TempDir dir;
  for (const auto& file : std::filesystem::directory_iterator(kDemo)) {
    std::filesystem::create_symlink(file.path(), dir / file.path().filename().string());
  }
  std::filesystem::remove(dir / "tokenizer_config.json");
  json config = json::parse(std::ifstream(kDemo + "/tokenizer_config.json"));
  config.erase("chat_template");
  std::ofstream(dir / "tokenizer_config.json") << config;
  open({"--model", dir.path().string(), "--max-context", "256"});
  ASSERT_TRUE(becomes("!$('hint').hidden"));
  ask("ROMEO:");
  ASSERT_TRUE(says(kNote, " tokens"));
  const json want =
      answer("/v1/completions", {{"prompt", "ROMEO:"}, {"temperature", 0}, {"max_tokens", 512}});
  EXPECT_EQ(browser_->text_of(kAnswer), want["choices"][0]["text"]);
}

TEST_F(PageTest, FitsAPhone) {
  open({"--ranks", "3", "--max-context", "1024"});
  browser_->call("Emulation.setDeviceMetricsOverride",
                 {{"width", 360}, {"height", 740}, {"deviceScaleFactor", 2}, {"mobile", true}});
  ask("ROMEO:");
  ASSERT_TRUE(says(kNote, " tokens"));
  ASSERT_TRUE(says("#ranks", "alive"));
  EXPECT_LE(browser_->value_of("document.documentElement.scrollWidth"), 360);
}

}  // namespace
}  // namespace colibri
