#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "model/json_events.h"
#include "model/printable.h"
#include "model/safetensors.h"
#include "model/small_file.h"

namespace colibri {
namespace {

constexpr uint64_t kLengthBytes = 8;

constexpr std::array<StoredType, 22> kStoredTypes{{{"BOOL", 8},
                                                   {"F4", 4},
                                                   {"F6_E2M3", 6},
                                                   {"F6_E3M2", 6},
                                                   {"U8", 8},
                                                   {"I8", 8},
                                                   {"F8_E5M2", 8},
                                                   {"F8_E4M3", 8, true, DType::kF8E4M3},
                                                   {"F8_E8M0", 8},
                                                   {"F8_E4M3FNUZ", 8},
                                                   {"F8_E5M2FNUZ", 8},
                                                   {"I16", 16},
                                                   {"U16", 16},
                                                   {"F16", 16, true, DType::kF16},
                                                   {"BF16", 16, true, DType::kBF16},
                                                   {"I32", 32},
                                                   {"U32", 32},
                                                   {"F32", 32, true, DType::kF32},
                                                   {"C64", 64},
                                                   {"F64", 64},
                                                   {"I64", 64},
                                                   {"U64", 64}}};

// Accepts {name: {dtype, shape, data_offsets}} and __metadata__ and nothing else.
class HeaderReader : public JsonEvents {
 public:
  HeaderReader(const std::string& where, std::vector<SafetensorsEntry>& entries)
      : where_(where), entries_(entries) {}

  void scalar(JsonScalar& value) override {
    switch (state_) {
      case State::kMetadata:
        if (value.kind != JsonKind::kString)
          refuse("__metadata__", to_string(value.kind), "strings");
        return;
      case State::kDtype:
        return read_dtype(value);
      case State::kShapeItems:
        return add_dimension(value);
      case State::kOffsetItems:
        return add_offset(value);
      case State::kStart:
      case State::kTop:
      case State::kMetadataStart:
      case State::kTensorStart:
      case State::kTensor:
      case State::kShape:
      case State::kOffsets:
        refuse_kind(value.kind);
    }
  }

  void key(std::string& name) override {
    if (state_ == State::kMetadata) {
      if (!metadata_keys_.insert(name).second) {
        fail(ErrorKind::kInput, where_, ": __metadata__ key \"", printable(name),
             "\" stands twice");
      }
      return;
    }
    if (state_ == State::kTensor) return select_field(name);
    if (name == "__metadata__") {
      if (has_metadata_) fail(ErrorKind::kInput, where_, ": __metadata__ stands twice");
      has_metadata_ = true;
      state_ = State::kMetadataStart;
      return;
    }
    entries_.emplace_back().name.swap(name);
    seen_ = 0;
    state_ = State::kTensorStart;
  }

  void begin(JsonKind kind) override {
    const bool is_object = kind == JsonKind::kObject;
    if (state_ == State::kStart && is_object) {
      state_ = State::kTop;
    } else if (state_ == State::kMetadataStart && is_object) {
      state_ = State::kMetadata;
    } else if (state_ == State::kTensorStart && is_object) {
      state_ = State::kTensor;
    } else if (state_ == State::kShape && !is_object) {
      state_ = State::kShapeItems;
    } else if (state_ == State::kOffsets && !is_object) {
      state_ = State::kOffsetItems;
      num_offsets_ = 0;
    } else {
      refuse_kind(kind);
    }
  }

  void end() override {
    if (state_ == State::kOffsetItems && num_offsets_ != 2) {
      refuse(entry().name, std::to_string(num_offsets_) + " data_offsets", "[begin, end]");
    }
    if (state_ == State::kTensor) finish_tensor();
    const bool in_list = state_ == State::kShapeItems || state_ == State::kOffsetItems;
    state_ = in_list ? State::kTensor : State::kTop;
  }

 private:
  enum class State {
    kStart,
    kTop,
    kMetadataStart,
    kMetadata,
    kTensorStart,
    kTensor,
    kDtype,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems
  };
  enum Field : unsigned { kHasDtype = 1, kHasShape = 2, kHasOffsets = 4 };

  SafetensorsEntry& entry() { return entries_.back(); }

  [[noreturn]] void refuse(const std::string& name, const std::string& got,
                           const std::string& wanted) {
    fail(ErrorKind::kInput, where_, ": tensor \"", printable(name), "\": ", printable(got),
         ", want ", wanted);
  }

  [[noreturn]] void refuse_kind(JsonKind kind) {
    const std::string at =
        entries_.empty() ? "at its start" : "at tensor \"" + printable(entry().name) + '"';
    fail(ErrorKind::kInput, where_, ": header holds ", to_string(kind), " ", at,
         ", want {name: {dtype, shape, data_offsets}, ...}");
  }

  void select_field(const std::string& name) {
    unsigned field = 0;
    if (name == "dtype") {
      field = kHasDtype;
      state_ = State::kDtype;
    } else if (name == "shape") {
      field = kHasShape;
      state_ = State::kShape;
    } else if (name == "data_offsets") {
      field = kHasOffsets;
      state_ = State::kOffsets;
    } else {
      refuse(entry().name, "key \"" + name + '"', "dtype, shape and data_offsets only");
    }
    if (seen_ & field) refuse(entry().name, name + " twice", "it once");
    seen_ |= field;
  }

  void read_dtype(const JsonScalar& value) {
    if (value.kind != JsonKind::kString) {
      refuse(entry().name, std::string("dtype is ") + to_string(value.kind), "a string");
    }
    entry().type = find_stored_type(value.text);
    if (entry().type == nullptr) {
      refuse(entry().name, "dtype \"" + value.text + '"',
             "one of the format's types (F32, BF16, ...)");
    }
    state_ = State::kTensor;
  }

  int64_t count(const JsonScalar& value, const char* what) {
    if (value.kind != JsonKind::kInteger || value.integer < 0) {
      const std::string got = value.text.empty() ? to_string(value.kind) : value.text;
      refuse(entry().name, std::string(what) + " holds " + got,
             "an integer without sign, fraction or exponent, below 2^63");
    }
    return value.integer;
  }

  void add_dimension(const JsonScalar& value) {
    TensorDims& dims = entry().dims;
    const int64_t size = count(value, "shape");
    if (dims.rank == kMaxTensorRank) {
      refuse(entry().name, "shape has more dimensions",
             "at most " + std::to_string(kMaxTensorRank));
    }
    dims.size[static_cast<size_t>(dims.rank++)] = size;
  }

  void add_offset(const JsonScalar& value) {
    const auto offset = static_cast<uint64_t>(count(value, "data_offsets"));
    if (num_offsets_ == 0) entry().offset_bytes = offset;
    if (num_offsets_ == 1) {
      if (offset < entry().offset_bytes) {
        refuse(entry().name,
               "data_offsets [" + std::to_string(entry().offset_bytes) + ", " + value.text + "]",
               "begin <= end");
      }
      entry().size_bytes = offset - entry().offset_bytes;
    }
    if (num_offsets_ == 2) refuse(entry().name, "more than two data_offsets", "[begin, end]");
    ++num_offsets_;
  }

  void finish_tensor() {
    if (seen_ == (kHasDtype | kHasShape | kHasOffsets)) return;
    const char* missing = !(seen_ & kHasDtype)   ? "dtype"
                          : !(seen_ & kHasShape) ? "shape"
                                                 : "data_offsets";
    refuse(entry().name, std::string("no ") + missing, "dtype, shape and data_offsets");
  }

  const std::string& where_;
  std::vector<SafetensorsEntry>& entries_;
  State state_ = State::kStart;
  bool has_metadata_ = false;
  std::unordered_set<std::string> metadata_keys_;
  unsigned seen_ = 0;
  int num_offsets_ = 0;
};

void refuse_duplicate_names(const std::vector<SafetensorsEntry>& entries,
                            const std::string& where) {
  std::unordered_set<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) {
    if (!names.insert(entry.name).second) {
      fail(ErrorKind::kInput, where, ": tensor \"", printable(entry.name),
           "\" stands twice in the header");
    }
  }
}

// Bytes that shape and type ask for.
uint64_t wanted_bytes(const SafetensorsEntry& entry, const std::string& where) {
  uint64_t bits = static_cast<uint64_t>(entry.type->bits);
  for (int i = 0; i < entry.dims.rank; ++i) {
    const auto size = static_cast<uint64_t>(entry.dims.size[static_cast<size_t>(i)]);
    if (__builtin_mul_overflow(bits, size, &bits)) {
      fail(ErrorKind::kInput, where, ": tensor \"", printable(entry.name), "\": shape ",
           to_string(entry.dims), " of ", entry.type->name, " overflows 2^64 bits");
    }
  }
  if (bits % 8 != 0) {
    fail(ErrorKind::kInput, where, ": tensor \"", printable(entry.name), "\": shape ",
         to_string(entry.dims), " of ", entry.type->name, " is ", bits, " bits, want whole bytes");
  }
  return bits / 8;
}

// Ranges must follow one another from 0 to the end of the file; makes offsets absolute.
void check_layout(std::vector<SafetensorsEntry>& entries, uint64_t data_begin, uint64_t file_bytes,
                  const std::string& where) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.offset_bytes != b.offset_bytes ? a.offset_bytes < b.offset_bytes
                                            : a.size_bytes < b.size_bytes;
  });
  uint64_t end = 0;
  for (SafetensorsEntry& entry : entries) {
    if (entry.offset_bytes != end) {
      fail(ErrorKind::kInput, where, ": tensor \"", printable(entry.name), "\" begins at byte ",
           entry.offset_bytes, " of the data, want ", end, " where the one before it ends (",
           entry.offset_bytes > end ? "a hole" : "an overlap", ")");
    }
    const uint64_t bytes = wanted_bytes(entry, where);
    if (bytes != entry.size_bytes) {
      fail(ErrorKind::kInput, where, ": tensor \"", printable(entry.name), "\": data_offsets span ",
           entry.size_bytes, " bytes, want ", bytes, " for shape ", to_string(entry.dims), " of ",
           entry.type->name);
    }
    end += entry.size_bytes;  // ends are below 2^63
    entry.offset_bytes += data_begin;
  }
  if (end == file_bytes - data_begin) return;
  const bool is_short = end > file_bytes - data_begin;
  fail(ErrorKind::kInput, where, ": header and tensors take ", data_begin + end,
       " bytes, the file has ", file_bytes, ": ",
       is_short ? "it is truncated; download it again" : "there are bytes after the last tensor");
}

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string to_string(const TensorDims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.rank; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims.size[static_cast<size_t>(i)]);
  }
  return text + "]";
}

uint64_t check_header_length(std::string_view first_bytes, uint64_t file_bytes,
                             const std::string& where) {
  const std::string other = describe_wrong_content(first_bytes);
  if (!other.empty()) fail(ErrorKind::kInput, where, ": ", other);
  if (first_bytes.size() < kLengthBytes) {
    fail(ErrorKind::kInput, where, ": ", file_bytes,
         " bytes, too small for a safetensors file, which begins with 8 bytes of header length");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(first_bytes[i])} << (8 * i);
  }
  if (length > kMaxSafetensorsHeaderBytes) {
    fail(ErrorKind::kInput, where, ": header length is ", length, " bytes, want at most ",
         kMaxSafetensorsHeaderBytes, "; this is no safetensors file");
  }
  if (length > file_bytes - kLengthBytes) {
    fail(ErrorKind::kInput, where, ": header length is ", length, " bytes, but only ",
         file_bytes - kLengthBytes, " follow it: the file is truncated; download it again");
  }
  if (length == 0 || (first_bytes.size() > kLengthBytes && first_bytes[kLengthBytes] != '{')) {
    fail(ErrorKind::kInput, where, ": header does not begin with '{'; this is no safetensors file");
  }
  return length;
}

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view header, uint64_t file_bytes,
                                                       const std::string& where) {
  if (header.empty() || header.front() != '{') {
    fail(ErrorKind::kInput, where, ": header does not begin with '{'; this is no safetensors file");
  }
  std::vector<SafetensorsEntry> entries;
  HeaderReader reader(where, entries);
  parse_json_events(header, where, reader);
  refuse_duplicate_names(entries, where);
  check_layout(entries, kLengthBytes + header.size(), file_bytes, where);
  return entries;
}

std::vector<SafetensorsEntry> parse_safetensors_image(std::string_view image,
                                                      const std::string& where) {
  const uint64_t length = check_header_length(image.substr(0, 512), image.size(), where);
  return parse_safetensors_header(image.substr(kLengthBytes, length), image.size(), where);
}

}  // namespace colibri
