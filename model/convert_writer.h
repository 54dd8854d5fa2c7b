// Makes the blobs of a conversion and writes them, each by one thread, in pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"
#include "model/convert_journal.h"
#include "model/convert_plan.h"
#include "model/output_file.h"

namespace colibri {

class BlobWriter {
 public:
  // All outlive it.
  BlobWriter(const Checkpoint& checkpoint, const ConvertPlan& plan, OutputFile& file)
      : checkpoint_(checkpoint), plan_(plan), file_(file) {}

  // Reads, converts and writes a blob. `on_bytes` gets what each piece wrote. Memory: two pieces of
  // a few MB for each thread inside. Thread safe. Errors: as load_range and OutputFile::write.
  BlobChecksums write(const ConvertBlob& blob, const std::function<void(uint64_t)>& on_bytes);

  // Whether what the file holds of a blob matches the checksums. Thread safe.
  bool is_written(const ConvertBlob& blob, const BlobChecksums& checksums);

 private:
  struct Buffers {
    Buffer piece, scratch;
  };

  std::unique_ptr<Buffers> take_buffers();
  void give_back(std::unique_ptr<Buffers> buffers);

  const Checkpoint& checkpoint_;
  const ConvertPlan& plan_;
  OutputFile& file_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffers>> unused_;
};

}  // namespace colibri
