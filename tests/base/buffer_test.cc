#include "base/buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

constexpr size_t kMapped = size_t{64} << 10;  // from here on an own mapping
constexpr size_t kLarge = size_t{2} << 20;    // from here on aligned to its size

bool is_zero(const Buffer& buffer) {
  const auto* bytes = buffer.as<unsigned char>();
  return std::all_of(bytes, bytes + buffer.size_bytes(), [](unsigned char b) { return b == 0; });
}

TEST(BufferTest, EmptyHoldsNothing) {
  const Buffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.size_bytes(), 0u);
}

TEST(BufferTest, IsZeroAndAlignedAtEverySize) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, kMapped - 1, kMapped,
                             kMapped + 1, kLarge - 1, kLarge, kLarge + 1, 3 * kLarge + 12345}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.size_bytes(), bytes);
    EXPECT_TRUE(is_zero(buffer)) << bytes;
    const size_t alignment = bytes >= kLarge ? kLarge : 64;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
  }
}

TEST(BufferTest, EveryByteCanBeWritten) {
  for (const size_t bytes : {size_t{65}, kMapped + 1, kLarge + 1}) {
    Buffer buffer(bytes);
    std::fill_n(buffer.as<unsigned char>(), bytes, static_cast<unsigned char>(0xab));
    EXPECT_EQ(buffer.as<unsigned char>()[bytes - 1], 0xab);
  }
}

TEST(BufferTest, MappedMemoryIsTakenWhereItIsTouched) {
  Buffer buffer(kMapped);
  unsigned char pages[kMapped / 4096];
  buffer.as<char>()[2 * 4096] = 1;
  ASSERT_EQ(mincore(buffer.data(), kMapped, pages), 0);
  for (size_t i = 0; i < std::size(pages); ++i) EXPECT_EQ(pages[i] & 1, i == 2 ? 1 : 0) << i;
}

TEST(BufferTest, MovingHandsTheMemoryOver) {
  Buffer first(128);
  void* memory = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.size_bytes(), 128u);
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), memory);
}

TEST(BufferTest, ReservingLessKeepsTheMemory) {
  Buffer buffer(1000);
  void* memory = buffer.data();
  buffer.reserve_discarding(10);
  buffer.reserve_discarding(1000);
  EXPECT_EQ(buffer.data(), memory);
  EXPECT_EQ(buffer.size_bytes(), 1000u);
}

TEST(BufferTest, ReservingMoreGivesZeroes) {
  Buffer buffer(1000);
  buffer.as<char>()[0] = 1;
  buffer.reserve_discarding(kLarge);
  EXPECT_EQ(buffer.size_bytes(), kLarge);
  EXPECT_TRUE(is_zero(buffer));
}

TEST(BufferTest, MoreMemoryThanAddressableIsNamed) {
  EXPECT_ERROR(Buffer(SIZE_MAX), kEnvironment, std::to_string(SIZE_MAX));
  EXPECT_ERROR(Buffer(SIZE_MAX / 2), kEnvironment, "cannot take");
  EXPECT_ERROR(Buffer(size_t{1} << 60), kEnvironment, "cannot take");
}

}  // namespace
}  // namespace colibri
