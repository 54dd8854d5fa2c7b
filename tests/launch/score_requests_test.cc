#include "launch/score_requests.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

std::vector<ScoreRequest> read(const ScoreOptions& options, int64_t max_context = 100) {
  static const Checkpoint demo = Checkpoint::open(COLIBRI_SOURCE_DIR "/configs/models/demo");
  return read_score_requests(options, demo, max_context);
}

std::vector<ScoreRequest> from_file(const std::string& lines) {
  const TempDir dir;
  write_file(dir / "r.jsonl", lines);
  ScoreOptions options;
  options.requests_file = (dir / "r.jsonl").string();
  return read(options);
}

TEST(ScoreRequestsTest, DocumentAndContinuationsAreEncodedEachAlone) {
  ScoreOptions options;
  options.document = "ROMEO:";
  options.continuations = {"ROMEO:", "RO"};
  const auto requests = read(options);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].document, (std::vector<int32_t>{49, 1038, 36, 46, 25}));
  ASSERT_EQ(requests[0].continuations.size(), 2u);
  EXPECT_EQ(requests[0].continuations[0].ids, requests[0].document);
  EXPECT_EQ(requests[0].continuations[1].text, "RO");
  EXPECT_EQ(requests[0].longest(), 10);
}

TEST(ScoreRequestsTest, EachLineIsARequestAndBlankLinesAreNothing) {
  const auto requests = from_file(
      "{\"document\": \"a\", \"continuations\": [\"b\"]}\n\n"
      "{\"continuations\": [\"b\", \"c\"], \"document\": \"a\"}\n");
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].continuations.size(), 2u);
}

TEST(ScoreRequestsTest, WrongLinesAreNamed) {
  const std::string good = "{\"document\": \"a\", \"continuations\": [\"b\"]}\n";
  EXPECT_ERROR(from_file(good + "{"), kInput, "r.jsonl line 2: no JSON object");
  EXPECT_ERROR(from_file(good + "\"text\""), kInput, "line 2: no JSON object");
  EXPECT_ERROR(from_file("{\"continuations\": [\"b\"]}"), kInput, "line 1: \"document\"");
  EXPECT_ERROR(from_file("{\"document\": 1, \"continuations\": [\"b\"]}"), kInput, "\"document\"");
  EXPECT_ERROR(from_file("{\"document\": \"a\"}"), kInput, "line 1: \"continuations\"");
  EXPECT_ERROR(from_file("{\"document\": \"a\", \"continuations\": []}"), kInput,
               "\"continuations\" is missing or no list");
  EXPECT_ERROR(from_file("{\"document\": \"a\", \"continuations\": [\"b\", 2]}"), kInput,
               "continuation 2 is no text");
  EXPECT_ERROR(from_file("{\"document\": \"a\", \"continuation\": [\"b\"]}"), kInput,
               "key \"continuation\"");
  EXPECT_ERROR(from_file("\n \n"), kInput, "holds no request");
}

TEST(ScoreRequestsTest, TextsWithoutATokenAndTooLongOnesAreNamed) {
  EXPECT_ERROR(from_file("{\"document\": \"\", \"continuations\": [\"b\"]}"), kInput,
               "line 1: the document is empty");
  EXPECT_ERROR(from_file("{\"document\": \"a\", \"continuations\": [\"b\", \"\"]}"), kInput,
               "line 1: continuation 2 is empty");
  ScoreOptions options;
  options.document = "ROMEO:";
  options.continuations = {"R", "ROMEO:"};
  EXPECT_EQ(read(options, 10).size(), 1u);
  EXPECT_ERROR(read(options, 9), kInput,
               "the document is 5 tokens and continuation 2 is 5, want at most 9");
}

TEST(ScoreRequestsTest, FileThatCannotBeReadIsNamedWithItsOption) {
  ScoreOptions options;
  options.continuations = {"a"};
  options.document_file = "no/such.txt";
  EXPECT_ERROR(read(options), kInput, "--document-file no/such.txt: cannot be read");
  options.document_file = COLIBRI_SOURCE_DIR;
  EXPECT_ERROR(read(options), kInput, "cannot be read");
}

}  // namespace
}  // namespace colibri
