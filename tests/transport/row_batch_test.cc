#include "transport/row_batch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int kFrom = 0;

// Two rows of three floats; row 0 wants slots 4 and 1, row 1 wants slot 2.
struct Message {
  std::vector<uint64_t> memory = std::vector<uint64_t>(32);
  size_t bytes = 152;  // 64 header + 3 begins + 3 slots = 88, padded to 128, + 24

  Message() {
    header().source_rank = kFrom;
    header().epoch = 7;
    header().layer = 1;
    header().num_rows = 2;
    header().num_pairs = 3;
    header().hidden_size = 3;
    header().payload_bytes = 24;
    const int32_t words[] = {0, 2, 3, 4, 1, 2};
    std::memcpy(data() + 64, words, sizeof words);
    const float payload[] = {1, 2, 3, 4, 5, 6};
    std::memcpy(data() + 128, payload, sizeof payload);
    RowHeader fresh;
    fresh.source_rank = kFrom;
    header().magic = fresh.magic;
    header().wire_version = fresh.wire_version;
    header().kind = fresh.kind;
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory.data()); }
  RowHeader& header() { return *reinterpret_cast<RowHeader*>(memory.data()); }
  int32_t& word(size_t i) { return reinterpret_cast<int32_t*>(data() + 64)[i]; }
  std::span<const std::byte> span() { return {data(), bytes}; }
};

RowExpectation expectation() {
  return {.kind = RowKind::kRows,
          .epoch = 7,
          .hidden_size = 3,
          .num_layers = 2,
          .max_rows = 8,
          .max_pairs = 16};
}

// The message of the kInput error, or "" when the message is accepted.
std::string refusal(Message& message, const RowExpectation& want = expectation()) {
  try {
    parse_row_message(message.span(), kFrom, want);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
}

void expect_refused(Message& message, const std::string& part) {
  const std::string text = refusal(message);
  EXPECT_NE(text.find(part), std::string::npos) << "got: '" << text << "'";
  EXPECT_NE(text.find("from rank 0"), std::string::npos) << text;
}

TEST(RowMessageLayoutTest, PayloadStartsAtAMultipleOf64) {
  const RowMessageLayout layout = row_message_layout(2, 3, 12);
  EXPECT_EQ(layout.pair_begin, 64u);
  EXPECT_EQ(layout.slots, 76u);
  EXPECT_EQ(layout.payload, 128u);
  EXPECT_EQ(layout.total_bytes, 152u);
}

TEST(RowMessageLayoutTest, NoRowsStillHaveOnePairBegin) {
  EXPECT_EQ(row_message_layout(0, 0, 4096).total_bytes, 128u);
}

TEST(RowMessageLayoutTest, SizesPastTwoGigabytesDoNotOverflow) {
  EXPECT_EQ(row_message_layout(1 << 20, 0, 28672).total_bytes,
            64u + 4u * (1 << 20) + 64u + (uint64_t{1} << 20) * 28672u);
}

TEST(RowMessageLayoutTest, ImpossibleSizeIsOurBug) {
  EXPECT_THROW(row_message_layout(int64_t{1} << 62, 1, int64_t{1} << 62), Error);
}

TEST(RowMessageTest, WellFormedMessageIsRead) {
  Message message;
  const RowMessageView view = parse_row_message(message.span(), kFrom, expectation());
  EXPECT_EQ(view.header->num_rows, 2);
  EXPECT_EQ(std::vector<int32_t>(view.pair_begin.begin(), view.pair_begin.end()),
            (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(std::vector<int32_t>(view.slots.begin(), view.slots.end()),
            (std::vector<int32_t>{4, 1, 2}));
  EXPECT_EQ(reinterpret_cast<const float*>(view.payload)[5], 6.0f);
}

TEST(RowMessageTest, ResultsHaveNoPairList) {
  Message message;
  message.header().kind = RowKind::kResults;
  message.header().num_pairs = 2;
  message.header().source_rank = 5;
  message.bytes = 64 + 24;
  RowExpectation want = expectation();
  want.kind = RowKind::kResults;
  const RowMessageView view = parse_row_message(message.span(), kFrom, want);
  EXPECT_TRUE(view.pair_begin.empty());
  EXPECT_EQ(view.payload, message.data() + 64);
}

TEST(RowMessageTest, ResultsOfAnotherTypeAreRefused) {
  Message message;
  message.header().kind = RowKind::kResults;
  message.header().num_pairs = 2;
  message.bytes = 64 + 24;
  RowExpectation want = expectation();
  want.kind = RowKind::kResults;
  want.result_dtype = DType::kBF16;
  EXPECT_NE(refusal(message, want).find("payload_dtype is 0, want 1 (bf16)"), std::string::npos);
}

TEST(RowMessageTest, ResultsInBf16HaveTwoBytesANumber) {
  Message message;
  message.header().kind = RowKind::kResults;
  message.header().num_pairs = 2;
  message.header().payload_dtype = 1;
  message.header().payload_bytes = 12;
  message.bytes = 64 + 12;
  RowExpectation want = expectation();
  want.kind = RowKind::kResults;
  want.result_dtype = DType::kBF16;
  EXPECT_EQ(parse_row_message(message.span(), kFrom, want).payload, message.data() + 64);
}

TEST(RowMessageTest, ResultsWithUnequalCountsAreRefused) {
  Message message;
  message.header().kind = RowKind::kResults;
  message.bytes = 64 + 24;
  RowExpectation want = expectation();
  want.kind = RowKind::kResults;
  EXPECT_NE(refusal(message, want).find("num_rows is 2, want num_pairs, 3"), std::string::npos);
}

TEST(RowMessageTest, EmptyMessageIsRefused) {
  Message message;
  message.bytes = 0;
  expect_refused(message, "size is 0, want at least 64");
}

TEST(RowMessageTest, TruncatedHeaderIsRefused) {
  Message message;
  message.bytes = 63;
  expect_refused(message, "size is 63");
}

TEST(RowMessageTest, WrongMagicIsRefused) {
  Message message;
  message.header().magic = 1;
  expect_refused(message, "magic is 1");
}

TEST(RowMessageTest, OtherWireVersionIsRefused) {
  Message message;
  message.header().wire_version = 1;
  expect_refused(message, "wire_version is 1, want 3");
}

TEST(RowMessageTest, WrongKindIsRefused) {
  Message message;
  message.header().kind = RowKind::kResults;
  expect_refused(message, "kind is 2, want 1");
}

TEST(RowMessageTest, UnknownKindIsRefused) {
  Message message;
  message.header().kind = static_cast<RowKind>(77);
  expect_refused(message, "kind is 77");
}

TEST(RowMessageTest, OtherPayloadTypeIsRefused) {
  Message message;
  message.header().payload_dtype = 1;
  expect_refused(message, "payload_dtype is 1");
}

TEST(RowMessageTest, StaleEpochIsRefused) {
  Message message;
  message.header().epoch = 6;
  expect_refused(message, "epoch is 6, want 7");
}

TEST(RowMessageTest, SourceOtherThanTheSenderIsRefused) {
  Message message;
  message.header().source_rank = 1;
  expect_refused(message, "source_rank is 1");
}

TEST(RowMessageTest, NegativeSourceIsRefused) {
  Message message;
  message.header().source_rank = -1;
  expect_refused(message, "source_rank is -1");
}

TEST(RowMessageTest, LayerOutsideTheModelIsRefused) {
  Message message;
  message.header().layer = 2;
  expect_refused(message, "layer is 2, want [0, 2)");
  message.header().layer = -1;
  expect_refused(message, "layer is -1");
}

TEST(RowMessageTest, OtherHiddenSizeIsRefused) {
  Message message;
  message.header().hidden_size = 4;
  expect_refused(message, "hidden_size is 4, want 3");
}

TEST(RowMessageTest, NegativeRowsAreRefused) {
  Message message;
  message.header().num_rows = -1;
  expect_refused(message, "num_rows is -1");
}

TEST(RowMessageTest, TooManyRowsAreRefused) {
  Message message;
  message.header().num_rows = 9;
  expect_refused(message, "num_rows is 9, want [0, 8]");
}

TEST(RowMessageTest, NegativePairsAreRefused) {
  Message message;
  message.header().num_pairs = -3;
  expect_refused(message, "num_pairs is -3");
}

TEST(RowMessageTest, TooManyPairsAreRefused) {
  Message message;
  message.header().num_pairs = 17;
  expect_refused(message, "num_pairs is 17, want [0, 16]");
}

TEST(RowMessageTest, CountsWhoseProductOverflowsAreRefused) {
  Message message;
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  message.header().num_rows = kMax;
  message.header().hidden_size = kMax;
  message.header().payload_bytes = 4;  // what a 64-bit product would wrap to
  RowExpectation want = expectation();
  want.max_rows = kMax;
  want.hidden_size = kMax;
  EXPECT_NE(refusal(message, want).find("payload_bytes is 4"), std::string::npos);
}

TEST(RowMessageTest, PayloadSizeThatContradictsTheCountsIsRefused) {
  Message message;
  message.header().payload_bytes = 25;
  expect_refused(message, "payload_bytes is 25, want 24");
}

TEST(RowMessageTest, TruncatedPayloadIsRefused) {
  Message message;
  message.bytes = 151;
  expect_refused(message, "size is 151, want 152");
}

TEST(RowMessageTest, TrailingBytesAreRefused) {
  Message message;
  message.bytes = 160;
  expect_refused(message, "size is 160, want 152");
}

TEST(RowMessageTest, PairsThatDoNotStartAtZeroAreRefused) {
  Message message;
  message.word(0) = 1;
  expect_refused(message, "pair_begin[0] is 1");
}

TEST(RowMessageTest, FallingPairBeginIsRefused) {
  Message message;
  message.word(1) = 4;
  expect_refused(message, "pair_begin is 3, want at least 4 after row 1");
}

TEST(RowMessageTest, PairsBeyondTheListAreRefused) {
  Message message;
  message.word(2) = 4;
  expect_refused(message, "last pair_begin is 4");
}

TEST(RowMessageTest, NegativeSlotIsRefused) {
  Message message;
  message.word(4) = -1;
  expect_refused(message, "slot is -1");
}

TEST(RowMessageTest, NonZeroReservedFieldIsRefused) {
  Message message;
  message.header().reserved = 1;
  expect_refused(message, "reserved is 1");
}

TEST(RowMessageTest, UnalignedBufferIsOurBug) {
  Message message;
  try {
    parse_row_message({message.data() + 4, 100}, kFrom, expectation());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  }
}

}  // namespace
}  // namespace colibri
