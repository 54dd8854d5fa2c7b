// What of a conversion is done, in a file beside the one being written, so that it can go on after
// the process was killed or the machine lost its power at any moment.
//
//   header   "clbrjrnl", u32 version, u32 length of the description, identity (32 hex digits),
//            u64 XXH3 of all this and of the description; then the description
//   records  of 40 bytes: u32 kind, u32 number, u64[3], u64 XXH3 of the 32 bytes before it
//              1 blob      number: of the blob; the checksums of its tensors
//              2 durable   number: how many blob records before it are on the disk for certain
//              3 complete  the checksum of the finished file's index
// A record that does not match its checksum, and all after it, were being written: they are
// dropped.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/output_file.h"

namespace colibri {

using BlobChecksums = std::array<uint64_t, 3>;  // of its tensors, then zeros

struct BlobRecord {
  uint32_t blob_idx = 0;
  BlobChecksums checksums{};
};

class ConvertJournal {
 public:
  // Opens or makes the file, takes its lock and reads what is there. Errors: kEnvironment when
  // another process has the lock, or the file cannot be made.
  explicit ConvertJournal(const std::filesystem::path& path);
  // Removes the file again if it was made here and nothing was begun.
  ~ConvertJournal();

  // Whether a conversion was begun; the rest means something only then.
  bool has_begun() const { return !identity_.empty(); }
  const std::string& identity() const { return identity_; }
  // In words: what is converted and how.
  const std::string& description() const { return description_; }
  const std::vector<BlobRecord>& blobs() const { return blobs_; }
  size_t num_durable() const { return num_durable_; }  // of blobs()
  std::optional<uint64_t> complete() const { return complete_; }

  // Forgets what was there and writes a header, durably.
  void begin(const std::string& identity, const std::string& description);
  // After the blob's bytes were written.
  void add_blob(const BlobRecord& record);
  // After the bytes of the first `num_blobs` recorded blobs were made durable. Is durable itself.
  void mark_durable(size_t num_blobs);
  // After the whole file was made durable. Is durable itself.
  void mark_complete(uint64_t index_checksum);

 private:
  void read();
  void append(uint32_t kind, uint32_t number, const BlobChecksums& values);

  std::filesystem::path path_;
  OutputFile file_;
  uint64_t end_bytes_ = 0;
  std::string identity_, description_;
  std::vector<BlobRecord> blobs_;
  size_t num_durable_ = 0;
  std::optional<uint64_t> complete_;
};

}  // namespace colibri
