#include "model/container_format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <iomanip>
#include <sstream>

#include "model/checksum.h"
#include "model/container_codes.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"

namespace colibri {
namespace {

// The example of docs/container.md.
ContainerIndex example() {
  ContainerIndex index;
  index.file_bytes = 12416;
  index.tensors.push_back({.key = {TensorRole::kExpertGate, 1, 2},
                           .dtype = DType::kBF16,
                           .rows = 16,
                           .cols = 32,
                           .offset_bytes = 8192,
                           .size_bytes = 1024,
                           .checksum = 0x1122334455667788});
  index.tensors.push_back({.key = {TensorRole::kFinalNorm, -1, -1},
                           .dtype = DType::kF32,
                           .rows = 1,
                           .cols = 32,
                           .offset_bytes = 12288,
                           .size_bytes = 128,
                           .checksum = 0x99aabbccddeeff00});
  index.texts.push_back({.name = "config.json",
                         .offset_bytes = 4096,
                         .size_bytes = 2,
                         .checksum = Checksum::of("{}", 2)});
  return index;
}

std::string image_of(const ContainerIndex& index) {
  std::string image = encode_container_front(index);
  image.resize(index.file_bytes, '\0');
  return image;
}

ContainerIndex parse(const std::string& image) { return parse_container_image(image, "F.colibri"); }

template <class T>
void put(std::string& image, size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

// After the header was changed on purpose, so that the change is what is met.
std::string with_header_checksum(std::string image) {
  put(image, 56, Checksum::of(image.data(), 56));
  return image;
}

std::string with_header(const std::function<void(std::string&)>& change) {
  std::string image = image_of(example());
  change(image);
  return with_header_checksum(image);
}

// Record 0 and 1 are the tensors, 2 is the text.
template <class T>
std::string with_record(size_t record, size_t at, T value) {
  std::string image = image_of(example());
  put(image, 64 + record * 64 + at, value);
  put(image, 40, Checksum::of(image.data() + 64, 192));
  return with_header_checksum(image);
}

// Lines "0000  63 6f ..." of the code block that begins with ```hex.
std::string documented_bytes() {
  std::istringstream page(read_file(std::string(COLIBRI_SOURCE_DIR) + "/docs/container.md"));
  std::string line, bytes;
  while (std::getline(page, line) && line != "```hex") {
  }
  while (std::getline(page, line) && line != "```") {
    std::istringstream words(line);
    std::string word;
    words >> word;
    EXPECT_EQ(std::stoul(word, nullptr, 16), bytes.size());
    while (words >> word) bytes.push_back(static_cast<char>(std::stoul(word, nullptr, 16)));
  }
  return bytes;
}

std::string dump(const std::string& bytes) {
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) text << std::setw(4) << i << ' ';
    text << ' ' << std::setw(2) << int{static_cast<unsigned char>(bytes[i])};
    if (i % 16 == 15) text << '\n';
  }
  return text.str();
}

TEST(ContainerFormatTest, ExampleOfTheDocumentIsWhatIsWritten) {
  const std::string front = encode_container_front(example());
  EXPECT_EQ(documented_bytes(), front) << dump(front);
}

TEST(ContainerFormatTest, WhatIsWrittenIsRead) {
  const ContainerIndex read = parse(image_of(example()));
  ASSERT_EQ(read.tensors.size(), 2u);
  EXPECT_EQ(read.tensors[0].key.role, TensorRole::kExpertGate);
  EXPECT_EQ(read.tensors[0].key.layer, 1);
  EXPECT_EQ(read.tensors[0].key.expert, 2);
  EXPECT_EQ(read.tensors[0].offset_bytes, 8192u);
  EXPECT_EQ(read.tensors[1].checksum, 0x99aabbccddeeff00);
  ASSERT_EQ(read.texts.size(), 1u);
  EXPECT_EQ(read.texts[0].name, "config.json");
  EXPECT_EQ(read.file_bytes, 12416u);
}

TEST(ContainerFormatTest, EveryRoleHasItsOwnNumber) {
  for (int i = 0; i <= static_cast<int>(TensorRole::kExpertDown); ++i) {
    const auto role = static_cast<TensorRole>(i);
    EXPECT_EQ(role_of_code(container_code(role)), role) << to_string(role);
  }
  EXPECT_EQ(role_of_code(0), std::nullopt);
  EXPECT_EQ(dtype_of_code(0), std::nullopt);
}

TEST(ContainerFormatTest, WrongMagicIsNamed) {
  EXPECT_ERROR(parse("GGUF" + std::string(100, '\0')), kInput, "this is no .colibri file");
  EXPECT_ERROR(parse(""), kInput, "this is no .colibri file");
}

TEST(ContainerFormatTest, AnotherVersionNamesBoth) {
  EXPECT_ERROR(parse(with_header([](std::string& image) { put(image, 8, uint32_t{2}); })),
               kUnsupported, "is a .colibri file of version 2, this program reads version 1");
}

TEST(ContainerFormatTest, UnknownFlagsAreRefused) {
  EXPECT_ERROR(parse(with_header([](std::string& image) { put(image, 12, uint32_t{4}); })),
               kUnsupported, "flags 4");
}

TEST(ContainerFormatTest, CutFileTellsBothSizes) {
  const std::string whole = image_of(example());
  EXPECT_ERROR(parse(whole.substr(0, 12415)), kInput, "has 12415 bytes, its header says 12416");
  EXPECT_ERROR(parse(whole.substr(0, 63)), kInput, "has 63 bytes, want at least the header's 64");
  EXPECT_ERROR(parse(whole + "x"), kInput, "has 12417 bytes");
}

// Bits of the magic say that it is no container, those of the version that it is another.
TEST(ContainerFormatTest, EveryFlippedBitOfHeaderAndIndexIsMet) {
  const std::string whole = image_of(example());
  const size_t front_bytes = example().front_bytes();
  for (size_t bit = 0; bit < front_bytes * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse(damaged), Error) << "bit " << bit;
  }
}

TEST(ContainerFormatTest, IndexMustLieInTheFile) {
  const auto with_u64 = [](size_t at, uint64_t value) {
    return with_header([&](std::string& image) { put(image, at, value); });
  };
  EXPECT_ERROR(parse(with_u64(24, 12300)), kInput, "out of range");
  EXPECT_ERROR(parse(with_u64(24, UINT64_MAX - 10)), kInput, "out of range");
  EXPECT_ERROR(parse(with_u64(24, 0)), kInput, "out of range");
  EXPECT_ERROR(parse(with_u64(32, 128)), kInput, "index of 128 bytes at 64 for 3 records");
  EXPECT_ERROR(parse(with_header([](std::string& image) { put(image, 48, uint32_t{0xffffffff}); })),
               kInput, "records of 64");
}

TEST(ContainerFormatTest, RecordsAreCheckedOneByOne) {
  EXPECT_ERROR(parse(with_record(0, 0, uint16_t{9})), kInput, "tensor record 0 has role 9");
  EXPECT_ERROR(parse(with_record(0, 2, uint8_t{7})), kInput, "tensor record 0 has type 7");
  EXPECT_ERROR(parse(with_record(1, 3, uint8_t{1})), kInput, "reserved bytes");
  EXPECT_ERROR(parse(with_record(1, 4, int32_t{-2})), kInput, "out of range");
  EXPECT_ERROR(parse(with_record(0, 16, int64_t{17})), kInput,
               "expert gate of layer 1, expert 2 [17, 32] bf16 has 1024 bytes, want 1088");
  EXPECT_ERROR(parse(with_record(0, 16, int64_t{0})), kInput, "no such matrix can be");
  EXPECT_ERROR(parse(with_record(0, 16, int64_t{1} << 60)), kInput, "no such matrix can be");
  EXPECT_ERROR(parse(with_record(1, 24, int64_t{-32})), kInput, "no such matrix can be");
}

TEST(ContainerFormatTest, PlacesLieInTheFileAndApart) {
  EXPECT_ERROR(parse(with_record(1, 32, uint64_t{12352})), kInput,
               "final norm lies at byte 12352 with 128 bytes");
  EXPECT_ERROR(parse(with_record(1, 32, uint64_t{192})), kInput, "from 256 on");
  EXPECT_ERROR(parse(with_record(1, 32, uint64_t{12289})), kInput, "a multiple of 64");
  EXPECT_ERROR(parse(with_record(1, 32, ~uint64_t{63})), kInput, "final norm lies at byte");
  EXPECT_ERROR(parse(with_record(1, 32, uint64_t{8704})), kInput,
               "final norm at byte 8704 overlaps expert gate of layer 1, expert 2");
  EXPECT_ERROR(parse(with_record(2, 40, uint64_t{12288})), kInput, "overlaps");
}

TEST(ContainerFormatTest, KeysAndNamesStandOnce) {
  ContainerIndex twice = example();
  twice.tensors[1].key = twice.tensors[0].key;
  EXPECT_ERROR(parse(image_of(twice)), kInput,
               "tensor record 1 is the expert gate of layer 1, expert 2 a second time");
  ContainerIndex texts = example();
  texts.texts.push_back(texts.texts[0]);
  texts.texts[1].offset_bytes = 4160;
  EXPECT_ERROR(parse(image_of(texts)), kInput, "\"config.json\", want a plain file name");
}

TEST(ContainerFormatTest, TextsHavePlainNamesAndBoundedSizes) {
  EXPECT_ERROR(parse(with_record(2, 0, '/')), kInput, "want a plain file name");
  EXPECT_ERROR(parse(with_record(2, 0, '\0')), kInput, "want a plain file name");
  EXPECT_ERROR(parse(with_record(2, 39, 'x')), kInput, "want a plain file name");
  EXPECT_ERROR(parse(with_record(2, 48, uint64_t{256'000'001})), kInput, "want at most 256000000");
}

}  // namespace
}  // namespace colibri
