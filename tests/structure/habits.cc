#include "tests/structure/habits.h"

#include <regex>

namespace colibri {
namespace {

bool is_header(const SourceFile& file) {
  return file.extension() == ".h" || file.extension() == ".cuh";
}

bool matches(std::string_view text, const std::regex& pattern) {
  return std::regex_search(text.begin(), text.end(), pattern);
}

std::string at(const SourceFile& file, size_t line_idx) {
  return file.path + ":" + std::to_string(line_idx + 1) + ": ";
}

// Words in a comment may look like code; these are the shapes that prose does not have.
bool is_code_in_comment(std::string_view line) {
  static const std::regex comment("^//+\\s*(.*)$");
  static const std::regex statement(
      R"(return\b.*;)"
      R"(|([\w:<>,*& ]+ )?[\w.>\[\]-]+ [+*/|&-]?= [^`=]*;)"  // a formula in prose has more signs
      R"(|[\w.:>-]+\(.*\);)"
      R"(|(if|for|while|switch) \(.*\)( \{|.*;))"
      R"(|\} ?(else.*)?)"
      R"(|#(include|define|if|ifdef|ifndef|endif)\b.*)"
      R"(|(TEST|TEST_P|TEST_F)\(.*)");
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_match(line.begin(), line.end(), match, comment)) return false;
  const std::string text = match[1];
  return std::regex_match(text, statement);
}

std::string dead_text_fault(std::string_view line, bool is_test) {
  static const std::regex note("\\b(TODO|FIXME|XXX|HACK)\\b(?!\\(#[0-9]+\\))");
  static const std::regex never("^\\s*#\\s*if\\s+(0|false)\\b");
  static const std::regex disabled("\\bDISABLED_\\w");
  static const std::regex mute_skip("\\bGTEST_SKIP\\(\\)\\s*;");
  if (matches(line, note)) return "a note of work left without an issue number, want TODO(#12)";
  if (matches(line, never)) return "code that is never compiled";
  if (is_code_in_comment(trimmed(line))) return "code in a comment: " + std::string(trimmed(line));
  if (is_test && matches(line, disabled)) return "a disabled test";
  if (is_test && matches(line, mute_skip)) return "a test skipped without a reason";
  return "";
}

}  // namespace

std::vector<std::string> length_faults(const SourceFile& file) {
  const size_t limit = file.folder() == "tests" ? 500 : 400;
  const size_t count = lines_of(file.text).size();
  if (count <= limit) return {};
  return {file.path + ": " + std::to_string(count) + " lines, want at most " +
          std::to_string(limit)};
}

std::vector<std::string> header_faults(const SourceFile& file) {
  static const std::regex conditional("^\\s*#\\s*(if|ifdef|ifndef)\\b");
  std::vector<std::string> faults;
  if (!is_header(file)) return faults;
  if (file.text.find("\n#pragma once\n") == std::string::npos &&
      !file.text.starts_with("#pragma once\n")) {
    faults.push_back(file.path + ": no #pragma once");
  }
  if (file.path.starts_with("kernels/cpu/")) return faults;
  if (file.path == "launch/colibri.h") return faults;  // C and C++ read it
  const auto lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (matches(lines[i], conditional)) {
      faults.push_back(at(file, i) + "a conditional in a header; link another .cc instead");
    }
  }
  return faults;
}

std::vector<std::string> dead_text_faults(const SourceFile& file) {
  std::vector<std::string> faults;
  const auto lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string fault = dead_text_fault(lines[i], file.folder() == "tests");
    if (!fault.empty()) faults.push_back(at(file, i) + fault);
  }
  return faults;
}

std::vector<std::string> machine_path_faults(const SourceFile& file) {
  static const std::regex path("(^|[^\\w.$})/-])/((work|root|home)(/|\\b)|tmp/)");
  std::vector<std::string> faults;
  const auto lines = lines_of(file.text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (matches(lines[i], path)) {
      faults.push_back(at(file, i) + "a path of one machine: " + std::string(trimmed(lines[i])));
    }
  }
  return faults;
}

std::vector<std::string> unbuilt_faults(const std::vector<SourceFile>& sources,
                                        const std::vector<SourceFile>& build_files) {
  std::vector<std::string> faults;
  for (const SourceFile& source : sources) {
    if (source.extension() != ".cc" && source.extension() != ".cu") continue;
    const std::string stem = std::filesystem::path(source.path).stem().string();
    const std::regex word("(^|[^\\w.])" + stem + "(\\.(cc|cu))?($|[^\\w.])");
    bool built = false;
    for (const SourceFile& build_file : build_files) {
      built = built || std::regex_search(build_file.text, word);
    }
    if (!built) faults.push_back(source.path + ": no build file of its folder names it");
  }
  return faults;
}

}  // namespace colibri
