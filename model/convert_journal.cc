#include "model/convert_journal.h"

#include <cstring>

#include "base/error.h"
#include "model/checksum.h"

namespace colibri {
namespace {

constexpr char kMagic[] = {'c', 'l', 'b', 'r', 'j', 'r', 'n', 'l'};
constexpr uint32_t kJournalVersion = 1;
constexpr size_t kIdentityBytes = 32;
constexpr uint32_t kMaxDescriptionBytes = 1 << 16;

struct HeaderBytes {
  char magic[8];
  uint32_t version, description_bytes;
  char identity[kIdentityBytes];
  uint64_t checksum;
};
static_assert(sizeof(HeaderBytes) == 56);

enum class RecordKind : uint32_t { kBlob = 1, kDurable = 2, kComplete = 3 };

struct RecordBytes {
  uint32_t kind, number;
  uint64_t values[3];
  uint64_t checksum;
};
static_assert(sizeof(RecordBytes) == 40);

uint64_t checksum_of(const HeaderBytes& header, const std::string& description) {
  Checksum sum;
  sum.add(&header, offsetof(HeaderBytes, checksum));
  sum.add(description.data(), description.size());
  return sum.value();
}

uint64_t checksum_of(const RecordBytes& record) {
  return Checksum::of(&record, offsetof(RecordBytes, checksum));
}

}  // namespace

ConvertJournal::ConvertJournal(const std::filesystem::path& path) : path_(path), file_(path) {
  if (!file_.try_lock()) {
    fail(ErrorKind::kEnvironment, path.string(),
         ": another conversion is writing this file; wait until it is done, or choose another "
         "--out");
  }
  read();
}

ConvertJournal::~ConvertJournal() {
  if (has_begun()) return;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void ConvertJournal::read() {
  HeaderBytes header;
  if (!file_.read(0, &header, sizeof header)) return;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kJournalVersion ||
      header.description_bytes > kMaxDescriptionBytes) {
    return;
  }
  std::string description(header.description_bytes, '\0');
  if (!file_.read(sizeof header, description.data(), description.size())) return;
  if (header.checksum != checksum_of(header, description)) return;
  identity_.assign(header.identity, kIdentityBytes);
  description_ = std::move(description);
  end_bytes_ = sizeof header + description_.size();
  RecordBytes record;
  while (file_.read(end_bytes_, &record, sizeof record) && record.checksum == checksum_of(record)) {
    end_bytes_ += sizeof record;
    switch (static_cast<RecordKind>(record.kind)) {
      case RecordKind::kBlob:
        blobs_.push_back({record.number, {record.values[0], record.values[1], record.values[2]}});
        break;
      case RecordKind::kDurable:
        num_durable_ = std::min<size_t>(record.number, blobs_.size());
        break;
      case RecordKind::kComplete:
        complete_ = record.values[0];
        break;
    }
  }
  file_.truncate(end_bytes_);
}

void ConvertJournal::begin(const std::string& identity, const std::string& description) {
  check(identity.size() == kIdentityBytes && description.size() <= kMaxDescriptionBytes,
        "journal of ", identity);
  HeaderBytes header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kJournalVersion;
  header.description_bytes = static_cast<uint32_t>(description.size());
  std::memcpy(header.identity, identity.data(), kIdentityBytes);
  header.checksum = checksum_of(header, description);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += description;
  file_.truncate(0);
  file_.write(0, bytes.data(), bytes.size());
  file_.sync();
  sync_directory(path_.parent_path());
  end_bytes_ = bytes.size();
  identity_ = identity;
  description_ = description;
  blobs_.clear();
  num_durable_ = 0;
  complete_.reset();
}

void ConvertJournal::append(uint32_t kind, uint32_t number, const BlobChecksums& values) {
  RecordBytes record{kind, number, {values[0], values[1], values[2]}, 0};
  record.checksum = checksum_of(record);
  file_.write(end_bytes_, &record, sizeof record);
  end_bytes_ += sizeof record;
}

void ConvertJournal::add_blob(const BlobRecord& record) {
  append(static_cast<uint32_t>(RecordKind::kBlob), record.blob_idx, record.checksums);
  blobs_.push_back(record);
}

void ConvertJournal::mark_durable(size_t num_blobs) {
  append(static_cast<uint32_t>(RecordKind::kDurable), static_cast<uint32_t>(num_blobs), {});
  file_.sync();
  num_durable_ = num_blobs;
}

void ConvertJournal::mark_complete(uint64_t index_checksum) {
  append(static_cast<uint32_t>(RecordKind::kComplete), 0, {index_checksum, 0, 0});
  file_.sync();
  complete_ = index_checksum;
}

}  // namespace colibri
