// The committed text of the project, for tests that read it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

struct SourceFile {
  std::string path;  // from the repository root, with forward slashes
  std::string text;

  std::string folder() const { return path.substr(0, path.find('/')); }
  std::string extension() const { return std::filesystem::path(path).extension().string(); }
};

// The folders with code, low to high.
const std::vector<std::string>& code_folders();

// Every file below `folder` of the repository whose extension is one of `extensions`, by path.
std::vector<SourceFile> files_below(const std::string& folder,
                                    const std::vector<std::string>& extensions);

// Sources and headers of all code folders.
const std::vector<SourceFile>& code_files();

// Sources and headers below tests/.
const std::vector<SourceFile>& test_files();

// Documents, scripts and build files: the root's, docs/, cmake/, launch/, .ci/, configs/, tests/;
// not checkpoints and not test data.
const std::vector<SourceFile>& document_files();

bool exists_in_repository(const std::string& path);

std::vector<std::string_view> lines_of(std::string_view text);
std::string_view trimmed(std::string_view line);

// All faults, one a line, for messages.
std::string joined(const std::vector<std::string>& faults);

}  // namespace colibri
