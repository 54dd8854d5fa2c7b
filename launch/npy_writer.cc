#include "launch/npy_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kHeaderBytes = 128;  // a multiple of 64, large enough for any two counts

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, int64_t num_cols)
    : path_(path),
      temporary_(path.string() + ".partial." + std::to_string(getpid())),
      num_cols_(num_cols),
      file_(std::fopen(temporary_.c_str(), "wb")) {
  if (!file_) {
    fail(ErrorKind::kInput, "cannot write ", path.string(), ": ", std::strerror(errno),
         "; want a file in a directory that exists and may be written to");
  }
  write_header();
}

NpyWriter::~NpyWriter() {
  if (!file_) return;
  file_.reset();
  std::remove(temporary_.c_str());
}

void NpyWriter::write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) != bytes) {
    fail(ErrorKind::kEnvironment, "cannot write ", bytes, " bytes to ", temporary_.string(), ": ",
         std::strerror(errno));
  }
}

void NpyWriter::write_header() {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                     std::to_string(num_rows_) + ", " + std::to_string(num_cols_) + "), }";
  text.resize(kHeaderBytes - 11, ' ');
  text.push_back('\n');
  const unsigned char magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, kHeaderBytes - 10, 0};
  write(magic, sizeof magic);
  write(text.data(), text.size());
}

void NpyWriter::add_row(std::span<const float> row) {
  check(static_cast<int64_t>(row.size()) == num_cols_, "row of ", row.size(), " numbers, want ",
        num_cols_);
  write(row.data(), row.size_bytes());
  ++num_rows_;
}

void NpyWriter::commit() {
  std::rewind(file_.get());
  write_header();
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get()) != 0) {
    fail(ErrorKind::kEnvironment, "cannot finish ", temporary_.string(), ": ",
         std::strerror(errno));
  }
  file_.reset();
  std::filesystem::rename(temporary_, path_);
}

}  // namespace colibri
