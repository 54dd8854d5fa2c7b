#include "model/small_file.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/error.h"

namespace colibri {

std::string read_small_file(const std::filesystem::path& path, uint64_t max_bytes,
                            std::string_view what_for) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    fail(ErrorKind::kInput, path.string(), ": no such file; want ", what_for);
  }
  if (!std::filesystem::is_regular_file(status)) {
    fail(ErrorKind::kInput, path.string(), ": not a regular file; want ", what_for);
  }
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail(ErrorKind::kInput, path.string(), ": ", error.message());
  if (size > max_bytes) {
    fail(ErrorKind::kInput, path.string(), ": ", size, " bytes, want at most ", max_bytes, " for ",
         what_for);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file || !file.read(text.data(), static_cast<std::streamsize>(size))) {
    fail(ErrorKind::kInput, path.string(),
         ": cannot be read (permissions, or it is being written)");
  }
  return text;
}

std::string describe_wrong_content(std::string_view first_bytes) {
  if (first_bytes.starts_with("version https://git-lfs.github.com/spec/")) {
    return "this is a git-lfs pointer, not the file itself; run `git lfs pull` in its directory, "
           "or "
           "download the file again";
  }
  std::string start(first_bytes.substr(0, 64));
  start.erase(0, std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (start.starts_with("<!doctype") || start.starts_with("<html")) {
    return "this is an HTML page, probably the error page of a failed download; download the file "
           "again";
  }
  return "";
}

}  // namespace colibri
