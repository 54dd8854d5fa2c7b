#include "topology/text_file.h"

#include <array>
#include <fstream>

namespace colibri {

std::optional<std::string> read_text_file(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  do {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<size_t>(file.gcount()));
  } while (file && text.size() < kMaxBytes);
  if (file.bad()) return std::nullopt;
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace colibri
