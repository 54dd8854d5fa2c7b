#include "tests/structure/source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace colibri {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kCode = {".h", ".cc", ".inc", ".cu", ".cuh"};
const std::vector<std::string> kDocuments = {".md", ".txt", ".cmake", ".sh",
                                             ".py", ".yml", ".toml"};

fs::path root() { return COLIBRI_SOURCE_DIR; }

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  return std::find(extensions.begin(), extensions.end(), path.extension().string()) !=
         extensions.end();
}

bool is_data(const std::string& path) {
  return path.starts_with("tests/data/") || path.starts_with("configs/models/") ||
         path.find("/corpus/") != std::string::npos;
}

}  // namespace

const std::vector<std::string>& code_folders() {
  static const std::vector<std::string> folders = {"base",    "model",  "topology",    "transport",
                                                   "kernels", "worker", "coordinator", "launch"};
  return folders;
}

std::vector<SourceFile> files_below(const std::string& folder,
                                    const std::vector<std::string>& extensions) {
  std::vector<SourceFile> files;
  if (!fs::is_directory(root() / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
    const std::string path = fs::relative(entry.path(), root()).generic_string();
    if (!entry.is_regular_file() || is_data(path) || !has_extension(entry.path(), extensions)) {
      continue;
    }
    files.push_back({path, read(entry.path())});
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

const std::vector<SourceFile>& code_files() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> all;
    for (const std::string& folder : code_folders()) {
      std::ranges::move(files_below(folder, kCode), std::back_inserter(all));
    }
    return all;
  }();
  return files;
}

const std::vector<SourceFile>& test_files() {
  static const std::vector<SourceFile> files = files_below("tests", kCode);
  return files;
}

const std::vector<SourceFile>& document_files() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> all;
    for (const char* folder : {"docs", "cmake", "launch", ".ci", "configs", "tests"}) {
      std::ranges::move(files_below(folder, kDocuments), std::back_inserter(all));
    }
    for (const auto& entry : fs::directory_iterator(root())) {
      const bool is_text =
          has_extension(entry.path(), kDocuments) || entry.path().filename() == "CMakePresets.json";
      if (entry.is_regular_file() && is_text) {
        all.push_back({entry.path().filename().string(), read(entry.path())});
      }
    }
    return all;
  }();
  return files;
}

bool exists_in_repository(const std::string& path) { return fs::is_regular_file(root() / path); }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

std::string joined(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

}  // namespace colibri
