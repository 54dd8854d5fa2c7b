#include "model/convert_writer.h"

#include <algorithm>

#include "base/quantised.h"
#include "model/checksum.h"
#include "model/weight_loader.h"

namespace colibri {
namespace {

constexpr int64_t kPieceBytes = 8 << 20;

// Whole blocks of FP8 scales, which are whole panels too.
int64_t rows_of_a_piece(int64_t cols) {
  const int64_t row_bytes = cols * static_cast<int64_t>(sizeof(float));
  return std::max<int64_t>(1, kPieceBytes / row_bytes / kScaleBlock) * kScaleBlock;
}

}  // namespace

BlobChecksums BlobWriter::write(const ConvertBlob& blob,
                                const std::function<void(uint64_t)>& on_bytes) {
  auto buffers = take_buffers();
  BlobChecksums checksums{};
  for (size_t i = 0; i < blob.num_tensors; ++i) {
    const ContainerTensor& tensor = plan_.index.tensors[blob.first_tensor + i];
    const TensorRange& source = plan_.sources[blob.first_tensor + i];
    const int64_t piece_rows = rows_of_a_piece(tensor.cols);
    Checksum checksum;
    for (int64_t first = 0; first < tensor.rows; first += piece_rows) {
      const int64_t rows = std::min(piece_rows, tensor.rows - first);
      const auto bytes = static_cast<size_t>(matrix_bytes(tensor.dtype, rows, tensor.cols));
      buffers->piece.reserve_discarding(bytes);
      load_range(checkpoint_, row_slice(source, first, rows), tensor.dtype, buffers->piece.data(),
                 buffers->scratch);
      checksum.add(buffers->piece.data(), bytes);
      const auto at = static_cast<uint64_t>(matrix_bytes(tensor.dtype, first, tensor.cols));
      file_.write(tensor.offset_bytes + at, buffers->piece.data(), bytes);
      on_bytes(bytes);
    }
    checksums[i] = checksum.value();
  }
  give_back(std::move(buffers));
  return checksums;
}

bool BlobWriter::is_written(const ConvertBlob& blob, const BlobChecksums& checksums) {
  auto buffers = take_buffers();
  buffers->piece.reserve_discarding(kPieceBytes);
  bool is_equal = true;
  for (size_t i = 0; i < blob.num_tensors && is_equal; ++i) {
    const ContainerTensor& tensor = plan_.index.tensors[blob.first_tensor + i];
    Checksum checksum;
    for (uint64_t at = 0; at < tensor.size_bytes && is_equal; at += kPieceBytes) {
      const uint64_t bytes = std::min<uint64_t>(kPieceBytes, tensor.size_bytes - at);
      is_equal = file_.read(tensor.offset_bytes + at, buffers->piece.data(), bytes);
      if (is_equal) checksum.add(buffers->piece.data(), bytes);
    }
    is_equal = is_equal && checksum.value() == checksums[i];
  }
  give_back(std::move(buffers));
  return is_equal;
}

std::unique_ptr<BlobWriter::Buffers> BlobWriter::take_buffers() {
  const std::lock_guard lock(mutex_);
  if (unused_.empty()) return std::make_unique<Buffers>();
  auto taken = std::move(unused_.back());
  unused_.pop_back();
  return taken;
}

void BlobWriter::give_back(std::unique_ptr<Buffers> buffers) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(std::move(buffers));
}

}  // namespace colibri
