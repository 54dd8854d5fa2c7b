#include "model/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/model_files.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

// A file whose header is `header` and whose data are `num_data` zero bytes.
std::string image_of(const std::string& header, size_t num_data = 0) {
  return with_header_length(header) + std::string(num_data, '\0');
}

std::vector<SafetensorsEntry> parse(const std::string& image) {
  return parse_safetensors_image(image, "m.safetensors");
}

std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((length >> (8 * i)) & 0xff);
  return bytes;
}

TEST(SafetensorsTest, TensorsComeInFileOrderWithOffsetsFromTheStartOfTheFile) {
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
                             R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  const auto entries = parse(image_of(header, 10));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].offset_bytes, 8 + header.size() + 2);
  EXPECT_EQ(entries[1].size_bytes, 8u);
  EXPECT_EQ(to_string(entries[1].dims), "[2, 1]");
}

TEST(SafetensorsTest, MetadataEmptyTensorsScalarsAndTrailingBlanksAreAllowed) {
  const auto entries = parse(image_of(
      R"({"__metadata__":{"format":"pt"},"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
      R"("s":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}    )",
      8));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].dims.rank, 0);
}

TEST(SafetensorsTest, EveryTypeOfTheFormatHasItsSize) {
  const std::pair<const char*, int> sizes[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [name, bits] : sizes) {
    const std::string bytes = std::to_string(bits);  // 8 elements
    const auto entries = parse(image_of(std::string(R"({"a":{"dtype":")") + name +
                                            R"(","shape":[8],"data_offsets":[0,)" + bytes + "]}}",
                                        static_cast<size_t>(bits)));
    EXPECT_EQ(entries[0].type->name, name);
  }
}

struct Malformed {
  const char* name;
  std::string image;
  const char* message;
};

std::vector<Malformed> malformed_lengths() {
  return {
      {"empty", "", "0 bytes, too small"},
      {"seven bytes", "1234567", "7 bytes, too small"},
      {"length past the end", length_bytes(100) + "{}", "only 2 follow it: the file is truncated"},
      {"above the limit", length_bytes(100'000'001) + "{}", "want at most 100000000"},
      {"2^64 - 1", length_bytes(~uint64_t{0}) + "{}", "header length is 18446744073709551615"},
      {"length 0", length_bytes(0), "does not begin with '{'"},
      {"git-lfs pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n",
       "this is a git-lfs pointer"},
      {"html page", "<!DOCTYPE html><html>not found</html>", "this is an HTML page"},
      {"html page in capitals", "\n<HTML><body>", "this is an HTML page"},
  };
}

std::vector<Malformed> malformed_headers() {
  return {
      {"not utf-8", image_of("{\"\xff\":1}"), "not UTF-8"},
      {"not json", image_of("{\"a\":"), "not JSON"},
      {"array", image_of("[1]"), "does not begin with '{'"},
      {"leading blank", image_of(" {}"), "does not begin with '{'"},
      {"very deep", image_of("{\"a\":" + std::string(100000, '[')), "header holds a list"},
      {"number for a tensor", image_of(R"({"a":1})"), "header holds an integer at tensor \"a\""},
      {"metadata number", image_of(R"({"__metadata__":{"a":1}})"), "an integer, want strings"},
      {"metadata list", image_of(R"({"__metadata__":[]})"), "header holds a list"},
      {"metadata object", image_of(R"({"__metadata__":{"a":{}}})"), "header holds an object"},
      {"metadata twice", image_of(R"({"__metadata__":{},"__metadata__":{}})"), "stands twice"},
      {"metadata key twice", image_of(R"({"__metadata__":{"a":"","a":""}})"), "stands twice"},
      {"name twice",
       image_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2),
       "\"a\" stands twice"},
      {"dtype twice",
       image_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
       "dtype twice"},
      {"other key", image_of(R"({"a":{"extra":1}})"), "key \"extra\", want dtype, shape"},
      {"no dtype", image_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "no dtype"},
      {"no shape", image_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "no shape"},
      {"no offsets", image_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "no data_offsets"},
      {"unknown dtype", image_of(R"({"a":{"dtype":"F128","shape":[1],"data_offsets":[0,1]}})", 1),
       "dtype \"F128\""},
      {"dtype number", image_of(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1),
       "dtype is an integer"},
      {"nine dimensions",
       image_of(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
       "more dimensions, want at most 8"},
  };
}

// One U8 tensor with this shape and these offsets, and `num_data` bytes behind it.
std::string one(const char* shape, const char* offsets, size_t num_data) {
  return image_of(std::string(R"({"a":{"dtype":"U8","shape":)") + shape + R"(,"data_offsets":)" +
                      offsets + "}}",
                  num_data);
}

std::vector<Malformed> malformed_offsets() {
  const std::string b = R"("b":{"dtype":"U8","shape":[4],"data_offsets":)";
  const std::string a = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  return {
      {"negative", one("[4]", "[-4,0]", 4), "data_offsets holds -4"},
      {"fraction", one("[4]", "[0,4.5]", 4), "data_offsets holds 4.5"},
      {"fraction of zero", one("[4]", "[0,4.0]", 4), "data_offsets holds 4.0"},
      {"exponent", one("[4]", "[0,4e0]", 4), "data_offsets holds 4e0"},
      {"text", one("[4]", "[0,\"4\"]", 4), "data_offsets holds 4"},
      {"above 2^53", one("[4]", "[0,9007199254740993]", 4), "span 9007199254740993 bytes, want 4"},
      {"above 2^64", one("[4]", "[0,36893488147419103232]", 4),
       "data_offsets holds 368934881474191"},
      {"reversed", one("[4]", "[4,0]", 4), "data_offsets [4, 0], want begin <= end"},
      {"one offset", one("[4]", "[0]", 4), "1 data_offsets, want [begin, end]"},
      {"three offsets", one("[4]", "[0,4,4]", 4), "more than two data_offsets"},
      {"negative shape", one("[-4]", "[0,4]", 4), "shape holds -4"},
      {"shape list in a list", one("[[4]]", "[0,4]", 4), "header holds a list"},
      {"overlap", image_of(a + b + "[0,4]}}", 4), "begins at byte 0 of the data, want 4"},
      {"part overlap", image_of(a + b + "[2,6]}}", 6), "(an overlap)"},
      {"hole", image_of(a + b + "[5,9]}}", 9), "begins at byte 5 of the data, want 4"},
      {"hole at the start", one("[4]", "[1,5]", 5), "begins at byte 1 of the data, want 0"},
      {"past the end", one("[4]", "[0,4]", 3), "it is truncated"},
      {"bytes after the last", one("[4]", "[0,4]", 5), "there are bytes after the last tensor"},
      {"shape against offsets", one("[3]", "[0,4]", 4), "span 4 bytes, want 3 for shape [3] of U8"},
      {"shape overflow", one("[4294967296,4294967296,4294967296]", "[0,4]", 4), "overflows"},
      {"half a byte", image_of(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
       "12 bits, want whole bytes"},
  };
}

void expect_refused(const std::vector<Malformed>& cases) {
  for (const Malformed& bad : cases) {
    SCOPED_TRACE(bad.name);
    EXPECT_ERROR(parse(bad.image), kInput, bad.message);
    EXPECT_ERROR(parse(bad.image), kInput, "m.safetensors: ");
  }
}

TEST(SafetensorsTest, WrongLengthsAreRefusedByName) { expect_refused(malformed_lengths()); }
TEST(SafetensorsTest, WrongHeadersAreRefusedByName) { expect_refused(malformed_headers()); }
TEST(SafetensorsTest, WrongOffsetsAreRefusedByName) { expect_refused(malformed_offsets()); }

TEST(SafetensorsTest, ManyTensorsOnOneRangeAreRefused) {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  }
  EXPECT_ERROR(parse(image_of(header + "}", 4)), kInput, "(an overlap)");
}

TEST(SafetensorsTest, AMillionEmptyTensorsParse) {
  std::string header = "{";
  for (int i = 0; i < 1'000'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_EQ(parse(image_of(header + "}")).size(), 1'000'000u);
}

TEST(SafetensorsFileTest, ReadsTheBytesOfATensor) {
  const TempDir dir;
  write_file(dir / "m.safetensors",
             safetensors_image({{"x", "U8", {3}, "abc"}, {"y", "U8", {2}, "de"}}));
  const SafetensorsFile file = SafetensorsFile::open(dir / "m.safetensors");
  std::string bytes(2, '\0');
  file.read(file.entries()[1].offset_bytes, 2, bytes.data());
  EXPECT_EQ(bytes, "de");
}

TEST(SafetensorsFileTest, FileThatShrinksWhileOpenIsNamed) {
  const TempDir dir;
  write_file(dir / "m.safetensors", safetensors_image({{"x", "U8", {4}, "abcd"}}));
  const SafetensorsFile file = SafetensorsFile::open(dir / "m.safetensors");
  std::filesystem::resize_file(dir / "m.safetensors", file.size_bytes() - 1);
  std::string bytes(4, '\0');
  EXPECT_ERROR(file.read(file.entries()[0].offset_bytes, 4, bytes.data()), kInput,
               "was changed while in use");
}

TEST(SafetensorsFileTest, GitLfsPointerIsNamed) {
  const TempDir dir;
  write_file(dir / "m.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  EXPECT_ERROR(SafetensorsFile::open(dir / "m.safetensors"), kInput, "run `git lfs pull`");
}

TEST(SafetensorsFileTest, MissingFileDirectoryAndPipeAreRefused) {
  const TempDir dir;
  EXPECT_ERROR(SafetensorsFile::open(dir / "m.safetensors"), kInput, "no such file");
  EXPECT_ERROR(SafetensorsFile::open(dir.path()), kInput, "not a regular file");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(SafetensorsFile::open(dir / "pipe"), kInput, "not a regular file");
}

TEST(SafetensorsFileTest, LongZeroHeaderIsRefusedBeforeItIsRead) {
  const TempDir dir;
  write_file(dir / "m.safetensors", length_bytes(90'000'000));
  std::filesystem::resize_file(dir / "m.safetensors", 100'000'000);
  EXPECT_ERROR(SafetensorsFile::open(dir / "m.safetensors"), kInput, "does not begin with '{'");
}

}  // namespace
}  // namespace colibri
