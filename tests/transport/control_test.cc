#include "transport/control.h"

#include <gtest/gtest.h>

#include <cstring>

namespace colibri {
namespace {

constexpr int kFrom = 2;
constexpr uint32_t kEpoch = 4;

std::vector<std::byte> hello() {
  HelloBody body;
  body.row_wire_version = 1;
  body.pid = 17;
  body.weights_fingerprint = 6;
  std::strcpy(body.backend, "cpu");
  return encode_control(kFrom, kEpoch, body, "build 12ab");
}

ControlHeader& header_of(std::vector<std::byte>& message) {
  return *reinterpret_cast<ControlHeader*>(message.data());
}

void expect_refused(const std::vector<std::byte>& message, const std::string& part) {
  try {
    parse_control(message, kFrom, kEpoch);
    FAIL() << "accepted; want a complaint about " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
  }
}

TEST(ControlTest, HelloComesBackAsItWas) {
  const auto message = hello();
  const ControlView view = parse_control(message, kFrom, kEpoch);
  EXPECT_EQ(view.kind(), ControlKind::kHello);
  EXPECT_EQ(view.as<HelloBody>().pid, 17);
  EXPECT_STREQ(view.as<HelloBody>().backend, "cpu");
  EXPECT_EQ(view.text, "build 12ab");
}

TEST(ControlTest, ErrorComesBackAsItWas) {
  const auto message = encode_error(kFrom, kEpoch, {ErrorKind::kRankLost, "rank 1 is lost"});
  const ErrorInfo error = error_of(parse_control(message, kFrom, kEpoch));
  EXPECT_EQ(error.kind, ErrorKind::kRankLost);
  EXPECT_EQ(error.message, "rank 1 is lost");
}

TEST(ControlTest, TooLongTextIsCutToTheLargestMessage) {
  const auto message = encode_control(kFrom, kEpoch, StopBody{}, std::string(20000, 'x'));
  EXPECT_EQ(message.size(), kMaxControlBytes);
  EXPECT_EQ(parse_control(message, kFrom, kEpoch).text.size(), kMaxControlBytes - 24 - 4);
}

TEST(ControlTest, BodyOfAnotherKindIsOurBug) {
  const auto message = hello();
  const ControlView view = parse_control(message, kFrom, kEpoch);
  EXPECT_THROW(view.as<StopBody>(), Error);
}

TEST(ControlTest, MessageNeedNotBeAligned) {
  const auto message = hello();
  std::vector<std::byte> shifted(message.size() + 1);
  std::memcpy(shifted.data() + 1, message.data(), message.size());
  const ControlView view = parse_control(std::span(shifted).subspan(1), kFrom, kEpoch);
  EXPECT_EQ(view.as<HelloBody>().weights_fingerprint, 6u);
}

TEST(ControlTest, EmptyMessageIsRefused) { expect_refused({}, "size is 0"); }

TEST(ControlTest, EveryTruncationIsRefused) {
  const auto message = hello();
  for (size_t bytes = 0; bytes < message.size(); ++bytes) {
    EXPECT_THROW(parse_control({message.data(), bytes}, kFrom, kEpoch), Error) << bytes;
  }
}

TEST(ControlTest, TrailingBytesAreRefused) {
  auto message = hello();
  message.push_back(std::byte{0});
  expect_refused(message, "text_bytes is 10");
}

TEST(ControlTest, OversizedMessageIsRefused) {
  expect_refused(std::vector<std::byte>(kMaxControlBytes + 1), "size is 16385");
}

TEST(ControlTest, WrongMagicIsRefused) {
  auto message = hello();
  header_of(message).magic = 0;
  expect_refused(message, "magic is 0");
}

TEST(ControlTest, OtherVersionIsRefused) {
  auto message = hello();
  header_of(message).version = 9;
  expect_refused(message, "version is 9, want 4");
}

TEST(ControlTest, FixedStepWithMoreResultsThanPairsIsRefused) {
  FixedStepBody step{.step = 1, .num_tokens = 2, .top_k = 2};
  step.capacity[3] = 5;
  expect_refused(encode_control(kFrom, kEpoch, step), "capacity is 5, want [0, 4]");
}

TEST(ControlTest, LayerRowsWithFewerPairsThanRowsAreRefused) {
  expect_refused(encode_control(kFrom, kEpoch, LayerRowsBody{.num_rows = 2, .num_pairs = 1}),
                 "num_pairs is 1, want at least num_rows, 2");
}

TEST(ControlTest, EpochThatDoesNotGrowIsRefused) {
  expect_refused(encode_control(kFrom, kEpoch, NewEpochBody{.epoch = kEpoch}),
                 "new epoch is 4, want above 4");
}

TEST(ControlTest, LinkOfMoreMembersThanFitOrOfRanksInDisorderIsRefused) {
  NewEpochBody next{.epoch = kEpoch + 1, .num_members = 257};
  expect_refused(encode_control(kFrom, kEpoch, next), "num_members is 257, want at most 256");
  next.num_members = 2;
  next.members[1] = 0;
  expect_refused(encode_control(kFrom, kEpoch, next), "member is 0");
}

TEST(ControlTest, PlacementLargerThanTheLimitIsRefused) {
  expect_refused(encode_control(kFrom, kEpoch, ChangePlacementBody{.text_bytes = 0}),
                 "placement bytes is 0");
  expect_refused(encode_control(kFrom, kEpoch, ChangePlacementBody{.text_bytes = 67108865}),
                 "placement bytes is 67108865, want [1, 67108864]");
}

TEST(ControlTest, UnknownKindIsRefused) {
  auto message = hello();
  header_of(message).kind = static_cast<ControlKind>(99);
  expect_refused(message, "kind is 99");
  header_of(message).kind = static_cast<ControlKind>(0);
  expect_refused(message, "kind is 0");
}

TEST(ControlTest, OtherEpochIsRefused) {
  auto message = hello();
  header_of(message).epoch = 3;
  expect_refused(message, "epoch is 3, want 4");
}

TEST(ControlTest, OtherSourceIsRefused) {
  auto message = hello();
  header_of(message).source_rank = 1;
  expect_refused(message, "source_rank is 1");
}

TEST(ControlTest, OtherBodySizeIsRefused) {
  auto message = hello();
  header_of(message).body_bytes = 40;
  expect_refused(message, "body_bytes is 40, want 48");
}

TEST(ControlTest, TextSizeThatWrapsIsRefused) {
  auto message = hello();
  header_of(message).text_bytes = 0xffffffffu;
  expect_refused(message, "text_bytes is 4294967295");
}

TEST(ControlTest, UnterminatedBackendIsRefused) {
  HelloBody body;
  body.pid = 1;
  std::memset(body.backend, 'x', sizeof body.backend);
  expect_refused(encode_control(kFrom, kEpoch, body), "backend");
}

TEST(ControlTest, PidZeroIsRefused) {
  expect_refused(encode_control(kFrom, kEpoch, HelloBody{}), "pid is 0");
}

TEST(ControlTest, UnknownErrorKindIsRefused) {
  expect_refused(encode_control(kFrom, kEpoch, StatusBody{.is_error = 1, .error_kind = 6}),
                 "error_kind is 6");
}

TEST(ControlTest, StatusNeitherGoodNorBadIsRefused) {
  expect_refused(encode_control(kFrom, kEpoch, StatusBody{.is_error = 2}), "is_error is 2");
}

TEST(ControlTest, BoundsOfZeroAreRefused) {
  BeginBody body;
  body.hidden_size = 8;
  body.num_layers = 2;
  expect_refused(encode_control(kFrom, kEpoch, body), "top_k is 0");
}

TEST(ControlTest, MoreLoadedThanThereIsIsRefused) {
  expect_refused(
      encode_control(kFrom, kEpoch, LoadProgressBody{.loaded_bytes = 3, .total_bytes = 2}),
      "loaded_bytes is 3");
}

TEST(ControlTest, TraceWithoutAProperCommandIsRefused) {
  const auto of = [](int32_t command, int64_t error_ns) {
    return encode_control(
        kFrom, kEpoch,
        TraceBody{.command = static_cast<TraceCommand>(command), .error_ns = error_ns});
  };
  EXPECT_EQ(parse_control(of(3, 5), kFrom, kEpoch).as<TraceBody>().error_ns, 5);
  expect_refused(of(0, 0), "command is 0");
  expect_refused(of(4, 0), "command is 4");
  expect_refused(of(2, -1), "error_ns is -1");
}

}  // namespace
}  // namespace colibri
