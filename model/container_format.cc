#include "model/container_format.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/quantised.h"
#include "model/checksum.h"
#include "model/container_codes.h"
#include "model/printable.h"

namespace colibri {
namespace {

constexpr std::string_view kMagic("colibri\0", 8);
constexpr int64_t kMaxDimension = int64_t{1} << 40;
constexpr int32_t kMaxLayer = 1 << 20;

struct HeaderBytes {
  char magic[8];
  uint32_t version, flags;
  uint64_t file_bytes, index_offset_bytes, index_bytes, index_checksum;
  uint32_t num_tensors, num_texts;
  uint64_t header_checksum;  // of the bytes before it
};
static_assert(sizeof(HeaderBytes) == kContainerHeaderBytes);
static_assert(offsetof(HeaderBytes, header_checksum) == 56);

struct TensorBytes {
  uint16_t role;
  uint8_t dtype, reserved;
  int32_t layer, expert;
  uint32_t reserved2;
  int64_t rows, cols;
  uint64_t offset_bytes, size_bytes, checksum, reserved3;
};
static_assert(sizeof(TensorBytes) == kContainerRecordBytes);
static_assert(offsetof(TensorBytes, rows) == 16 && offsetof(TensorBytes, checksum) == 48);

struct TextBytes {
  char name[40];  // zero-filled, at least one zero
  uint64_t offset_bytes, size_bytes, checksum;
};
static_assert(sizeof(TextBytes) == kContainerRecordBytes);
static_assert(offsetof(TextBytes, offset_bytes) == 40);

template <class T>
void append(std::string& bytes, const T& record) {
  bytes.append(reinterpret_cast<const char*>(&record), sizeof record);
}

template <class T>
T read_at(std::string_view bytes, uint64_t offset_bytes) {
  T record;
  std::memcpy(&record, bytes.data() + offset_bytes, sizeof record);
  return record;
}

TensorBytes encode(const ContainerTensor& tensor) {
  return {.role = container_code(tensor.key.role),
          .dtype = container_code(tensor.dtype),
          .reserved = 0,
          .layer = tensor.key.layer,
          .expert = tensor.key.expert,
          .reserved2 = 0,
          .rows = tensor.rows,
          .cols = tensor.cols,
          .offset_bytes = tensor.offset_bytes,
          .size_bytes = tensor.size_bytes,
          .checksum = tensor.checksum,
          .reserved3 = 0};
}

TextBytes encode(const ContainerText& text) {
  check(text.name.size() <= kMaxContainerTextName, "text name ", text.name);
  TextBytes bytes{{}, text.offset_bytes, text.size_bytes, text.checksum};
  std::memcpy(bytes.name, text.name.data(), text.name.size());
  return bytes;
}

// Reads the records of one index.
class IndexReader {
 public:
  IndexReader(const ContainerHeader& header, std::string_view index, const std::string& where)
      : header_(header), bytes_(index), where_(where) {}

  ContainerIndex read() {
    ContainerIndex index;
    index.file_bytes = header_.file_bytes;
    index.tensors.reserve(header_.num_tensors);
    for (uint64_t i = 0; i < header_.num_tensors; ++i) {
      index.tensors.push_back(tensor(i, read_at<TensorBytes>(bytes_, i * kContainerRecordBytes)));
    }
    for (uint64_t i = 0; i < header_.num_texts; ++i) {
      const uint64_t at = (header_.num_tensors + i) * kContainerRecordBytes;
      index.texts.push_back(text(i, read_at<TextBytes>(bytes_, at)));
    }
    check_apart();
    return index;
  }

 private:
  struct Place {
    uint64_t begin, end;
    std::string name;
  };

  ContainerTensor tensor(uint64_t record, const TensorBytes& bytes) {
    const auto role = role_of_code(bytes.role);
    const auto dtype = dtype_of_code(bytes.dtype);
    const auto refuse = [&](const auto&... parts) {
      fail(ErrorKind::kInput, where_, ": tensor record ", record, " ", parts...,
           "; the file is damaged: convert again");
    };
    if (!role) refuse("has role ", bytes.role, ", which has no meaning");
    if (!dtype) refuse("has type ", int{bytes.dtype}, ", want 1 (f32), 2 (bf16), 3 (q8) or 4 (q4)");
    if (bytes.reserved != 0 || bytes.reserved2 != 0 || bytes.reserved3 != 0) {
      refuse("has reserved bytes that are not zero");
    }
    if (bytes.layer < -1 || bytes.layer > kMaxLayer || bytes.expert < -1 ||
        bytes.expert > kMaxLayer) {
      refuse("is of layer ", bytes.layer, ", expert ", bytes.expert, ": out of range");
    }
    const ContainerTensor read{.key = {*role, bytes.layer, bytes.expert},
                               .dtype = *dtype,
                               .rows = bytes.rows,
                               .cols = bytes.cols,
                               .offset_bytes = bytes.offset_bytes,
                               .size_bytes = bytes.size_bytes,
                               .checksum = bytes.checksum};
    const std::string name = to_string(read.key);
    check_size(read, name);
    add_place(name, read.offset_bytes, read.size_bytes);
    if (!keys_.emplace(bytes.role, bytes.layer, bytes.expert).second) {
      refuse("is the ", name, " a second time");
    }
    return read;
  }

  void check_size(const ContainerTensor& tensor, const std::string& name) const {
    const bool fits = tensor.rows > 0 && tensor.cols > 0 && tensor.rows <= kMaxDimension &&
                      tensor.cols <= kMaxDimension / tensor.rows;
    if (!fits || (is_quantised(tensor.dtype) && tensor.cols % kGroup != 0)) {
      fail(ErrorKind::kInput, where_, ": ", name, " is [", tensor.rows, ", ", tensor.cols, "] ",
           to_string(tensor.dtype), ": no such matrix can be; the file is damaged: convert again");
    }
    const auto want = static_cast<uint64_t>(matrix_bytes(tensor.dtype, tensor.rows, tensor.cols));
    if (tensor.size_bytes == want) return;
    fail(ErrorKind::kInput, where_, ": ", name, " [", tensor.rows, ", ", tensor.cols, "] ",
         to_string(tensor.dtype), " has ", tensor.size_bytes, " bytes, want ", want,
         "; the file is damaged: convert again");
  }

  ContainerText text(uint64_t record, const TextBytes& bytes) {
    const size_t length = strnlen(bytes.name, sizeof bytes.name);
    const std::string name(bytes.name, length);
    const bool is_plain =
        length > 0 && length <= kMaxContainerTextName && name[0] != '.' &&
        name.find('/') == std::string::npos &&
        std::all_of(bytes.name + length, std::end(bytes.name), [](char c) { return c == '\0'; });
    if (!is_plain || !names_.insert(name).second) {
      fail(ErrorKind::kInput, where_, ": text record ", record, " is named \"", printable(name),
           "\", want a plain file name that stands once; the file is damaged: convert again");
    }
    if (bytes.size_bytes > kMaxContainerTextBytes) {
      fail(ErrorKind::kInput, where_, ": ", printable(name), " has ", bytes.size_bytes,
           " bytes, want at most ", kMaxContainerTextBytes);
    }
    add_place(name, bytes.offset_bytes, bytes.size_bytes);
    return {name, bytes.offset_bytes, bytes.size_bytes, bytes.checksum};
  }

  void add_place(const std::string& name, uint64_t offset, uint64_t size) {
    const uint64_t first = header_.index_offset_bytes + header_.index_bytes;
    const bool is_inside = offset >= first && offset <= header_.file_bytes &&
                           size <= header_.file_bytes - offset &&
                           offset % kContainerTensorAlignment == 0;
    if (!is_inside) {
      fail(ErrorKind::kInput, where_, ": ", printable(name), " lies at byte ", offset, " with ",
           size, " bytes, want a multiple of ", kContainerTensorAlignment, " from ", first,
           " on that ends by ", header_.file_bytes, "; the file is damaged: convert again");
    }
    if (size > 0) places_.push_back({offset, offset + size, name});
  }

  void check_apart() {
    std::sort(places_.begin(), places_.end(),
              [](const Place& a, const Place& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < places_.size(); ++i) {
      if (places_[i].begin >= places_[i - 1].end) continue;
      fail(ErrorKind::kInput, where_, ": ", printable(places_[i].name), " at byte ",
           places_[i].begin, " overlaps ", printable(places_[i - 1].name), ", which ends at ",
           places_[i - 1].end, "; the file is damaged: convert again");
    }
  }

  const ContainerHeader& header_;
  std::string_view bytes_;
  const std::string& where_;
  std::set<std::tuple<uint16_t, int32_t, int32_t>> keys_;
  std::set<std::string> names_;
  std::vector<Place> places_;
};

void check_header_sizes(const HeaderBytes& header, uint64_t file_bytes, const std::string& where) {
  if (header.flags != 0) {
    fail(ErrorKind::kUnsupported, where, ": flags ", header.flags,
         " are not known to this version; want 0");
  }
  if (header.file_bytes != file_bytes) {
    fail(ErrorKind::kInput, where, ": has ", file_bytes, " bytes, its header says ",
         header.file_bytes, "; the file was cut or not copied whole: copy or convert it again");
  }
  const uint64_t records = uint64_t{header.num_tensors} + header.num_texts;
  const bool fits = header.index_bytes == records * kContainerRecordBytes &&
                    header.index_bytes <= kMaxContainerIndexBytes &&
                    header.index_offset_bytes >= kContainerHeaderBytes &&
                    header.index_offset_bytes <= file_bytes &&
                    header.index_bytes <= file_bytes - header.index_offset_bytes;
  if (fits) return;
  fail(ErrorKind::kInput, where, ": index of ", header.index_bytes, " bytes at ",
       header.index_offset_bytes, " for ", records, " records of ", kContainerRecordBytes,
       " in a file of ", file_bytes, " bytes: out of range");
}

}  // namespace

std::string to_string(const TensorKey& key) {
  std::string text = to_string(key.role);
  if (key.layer >= 0) text += " of layer " + std::to_string(key.layer);
  if (key.expert >= 0) text += ", expert " + std::to_string(key.expert);
  return text;
}

std::string encode_container_front(const ContainerIndex& index) {
  std::string records;
  records.reserve(index.num_records() * kContainerRecordBytes);
  for (const ContainerTensor& tensor : index.tensors) append(records, encode(tensor));
  for (const ContainerText& text : index.texts) append(records, encode(text));
  HeaderBytes header{.magic = {},
                     .version = kContainerVersion,
                     .flags = 0,
                     .file_bytes = index.file_bytes,
                     .index_offset_bytes = kContainerHeaderBytes,
                     .index_bytes = records.size(),
                     .index_checksum = Checksum::of(records.data(), records.size()),
                     .num_tensors = static_cast<uint32_t>(index.tensors.size()),
                     .num_texts = static_cast<uint32_t>(index.texts.size()),
                     .header_checksum = 0};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.header_checksum = Checksum::of(&header, offsetof(HeaderBytes, header_checksum));
  std::string front;
  append(front, header);
  return front + records;
}

bool has_container_magic(std::string_view first_bytes) { return first_bytes.starts_with(kMagic); }

ContainerHeader parse_container_header(std::string_view first_bytes, uint64_t file_bytes,
                                       const std::string& where) {
  if (!has_container_magic(first_bytes)) {
    fail(ErrorKind::kInput, where, ": does not begin with \"colibri\" and a zero byte: this is no ",
         ".colibri file; want one that `colibri convert` wrote");
  }
  if (first_bytes.size() < kContainerHeaderBytes) {
    fail(ErrorKind::kInput, where, ": has ", file_bytes, " bytes, want at least the header's ",
         kContainerHeaderBytes, "; the file was cut: copy or convert it again");
  }
  const auto header = read_at<HeaderBytes>(first_bytes, 0);
  if (header.version != kContainerVersion) {
    fail(ErrorKind::kUnsupported, where, ": is a .colibri file of version ", header.version,
         ", this program reads version ", kContainerVersion,
         "; use the colibri that wrote it, or convert again");
  }
  if (header.header_checksum != Checksum::of(&header, offsetof(HeaderBytes, header_checksum))) {
    fail(ErrorKind::kInput, where, ": the header does not match its checksum; the file is ",
         "damaged: copy or convert it again");
  }
  check_header_sizes(header, file_bytes, where);
  return {.file_bytes = header.file_bytes,
          .index_offset_bytes = header.index_offset_bytes,
          .index_bytes = header.index_bytes,
          .index_checksum = header.index_checksum,
          .num_tensors = header.num_tensors,
          .num_texts = header.num_texts};
}

ContainerIndex parse_container_index(const ContainerHeader& header, std::string_view index,
                                     const std::string& where) {
  check(index.size() == header.index_bytes, "index of ", index.size(), " bytes");
  if (Checksum::of(index.data(), index.size()) != header.index_checksum) {
    fail(ErrorKind::kInput, where, ": the index does not match its checksum; the file is ",
         "damaged: copy or convert it again");
  }
  return IndexReader(header, index, where).read();
}

ContainerIndex parse_container_image(std::string_view image, const std::string& where) {
  const ContainerHeader header =
      parse_container_header(image.substr(0, kContainerHeaderBytes), image.size(), where);
  return parse_container_index(header, image.substr(header.index_offset_bytes, header.index_bytes),
                               where);
}

}  // namespace colibri
