#include "model/convert_source.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "model/checkpoint_files.h"
#include "model/output_file.h"
#include "model/safetensors.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTiedHead = "lm_head.weight";
constexpr uint64_t kCopyBytes = 4 << 20;

void copy(const SafetensorsFile& from, uint64_t offset, uint64_t size, OutputFile& to) {
  std::string piece(std::min(size, kCopyBytes), '\0');
  for (uint64_t at = 0; at < size; at += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), size - at);
    from.read(offset + at, bytes, piece.data());
    to.write(offset + at, piece.data(), bytes);
  }
}

// Links everything that is still in `dir` into the folder, beside the stand-ins.
void link_rest(const fs::path& dir, const fs::path& stand_ins) {
  const fs::path from = fs::canonical(dir);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path link = stand_ins / entry.path().filename();
    if (fs::is_symlink(link, error) && !fs::exists(link, error)) fs::remove(link, error);
    if (!fs::exists(link, error)) fs::create_symlink(entry.path(), link);
  }
}

// The directory to open: the one given, or the folder when some of its files are gone.
fs::path readable_directory(const fs::path& dir, const fs::path& stand_ins) {
  if (is_container_file(dir)) {
    fail(ErrorKind::kUnsupported, dir.string(), ": is a .colibri file already; convert reads a ",
         "Hugging Face model directory");
  }
  require_model_directory(dir);
  if (!fs::exists(stand_ins)) return dir;
  link_rest(dir, stand_ins);
  return stand_ins;
}

}  // namespace

ConvertSource::ConvertSource(const fs::path& dir, const fs::path& stand_ins)
    : dir_(dir),
      stand_ins_(stand_ins),
      checkpoint_(Checkpoint::open(readable_directory(dir, stand_ins))) {
  for (const fs::path& path : find_weight_files(checkpoint_.path()).paths) {
    files_.push_back(dir / path.filename());
  }
}

bool ConvertSource::is_consumed(int file_idx) const {
  std::error_code error;
  const fs::path stand_in = stand_ins_ / file(file_idx).filename();
  return fs::is_regular_file(fs::symlink_status(stand_in, error));
}

void ConvertSource::check_may_consume() const {
  std::error_code error;
  for (const fs::path& path : files_) {
    if (!fs::is_symlink(path, error)) continue;
    fail(ErrorKind::kUnsupported, path.string(), ": is a link to ", fs::read_symlink(path).string(),
         ": --consume removes files, not what links lead to; give a directory of plain files, or "
         "convert without --consume");
  }
}

// Opening compares an lm_head with the embedding it is tied to: both keep their bytes.
bool ConvertSource::stays_readable(const std::string& tensor) const {
  if (!checkpoint_.config().tied_embeddings) return false;
  if (tensor == kTiedHead) return true;
  const auto& ignored = checkpoint_.summary().ignored;
  const bool has_tied_head =
      std::any_of(ignored.begin(), ignored.end(),
                  [](const std::string& text) { return text.starts_with(kTiedHead); });
  return has_tied_head && tensor == checkpoint_.range({TensorRole::kEmbedding, -1, -1}).name;
}

void ConvertSource::make_stand_in(const fs::path& path) const {
  std::error_code error;
  fs::create_directories(stand_ins_);
  sync_directory(stand_ins_.parent_path());
  const fs::path made = stand_ins_ / ".new";
  fs::remove(made, error);
  const SafetensorsFile whole = SafetensorsFile::open(path);
  OutputFile stand_in(made);
  uint64_t data_begin = whole.size_bytes();
  for (const SafetensorsEntry& entry : whole.entries()) {
    data_begin = std::min(data_begin, entry.offset_bytes);
    if (stays_readable(entry.name)) copy(whole, entry.offset_bytes, entry.size_bytes, stand_in);
  }
  copy(whole, 0, data_begin, stand_in);
  stand_in.truncate(whole.size_bytes());
  stand_in.sync();
  fs::rename(made, stand_ins_ / path.filename());
  sync_directory(stand_ins_);
}

void ConvertSource::consume(int file_idx) const {
  const fs::path& path = file(file_idx);
  std::error_code error;
  if (!is_consumed(file_idx)) make_stand_in(path);
  fs::remove(path, error);
  if (!error) return sync_directory(dir_);
  fail(ErrorKind::kEnvironment, path.string(), ": cannot be removed: ", error.message());
}

void ConvertSource::forget_stand_ins() const {
  std::error_code ignored;
  fs::remove_all(stand_ins_, ignored);
}

}  // namespace colibri
