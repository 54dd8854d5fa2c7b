#include "tests/structure/layering.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace colibri {
namespace {

// Folder -> folders it may include besides itself.
const std::map<std::string, std::set<std::string>>& arrows() {
  static const std::set<std::string> middle = {"base", "model", "topology", "transport", "kernels"};
  static const std::map<std::string, std::set<std::string>> all = {
      {"base", {}},
      {"model", {"base"}},
      {"topology", {"base"}},
      {"transport", {"base"}},
      {"kernels", {"base"}},
      {"worker", middle},
      {"coordinator", middle},
      {"launch", {"base", "model", "topology", "transport", "kernels", "worker", "coordinator"}}};
  return all;
}

bool may_use(const std::string& from, const std::string& to) {
  return from == to || arrows().at(from).contains(to);
}

// Libraries that only some files may see: the header's name -> the files' paths.
struct Confined {
  std::regex header, allowed_path;
  const char* rule;
};

const std::vector<Confined>& confined_headers() {
  static const std::vector<Confined> all = {
      {std::regex("(cuda|cublas|nccl|nvml|cub/|thrust/).*"),
       std::regex("kernels/cuda/.*|transport/nccl_.*|topology/.*_cuda.*|base/.*cuda.*"),
       "CUDA headers stand in kernels/cuda/, transport/nccl_*, topology/*_cuda*, base/*cuda*"},
      {std::regex("mpi\\.h"), std::regex("transport/mpi_.*"), "MPI stands in transport/mpi_*"},
      {std::regex("hwloc.*"), std::regex("topology/probe_hwloc(_\\w+)?\\.cc"),
       "hwloc stands in topology/probe_hwloc*.cc"},
      {std::regex("CLI/.*"), std::regex("launch/.*\\.cc"), "CLI11 stands in launch/*.cc"},
      {std::regex("nlohmann/(?!json_fwd).*|toml\\+\\+/.*"), std::regex(".*\\.cc"),
       "JSON and TOML readers stand in .cc files: they are slow to compile"},
      {std::regex("gtest/.*|benchmark/.*"), std::regex("tests/.*"),
       "test libraries stand in tests/"}};
  return all;
}

std::string fault_of_own(const SourceFile& file, const std::string& included) {
  const size_t slash = included.find('/');
  const std::string folder = included.substr(0, slash);
  if (slash == std::string::npos || !arrows().contains(folder)) {
    return "want a path from the repository root, in one of the code folders";
  }
  if (!may_use(file.folder(), folder)) {
    return file.folder() + "/ may not use " + folder + "/ (docs/design.md, section 3)";
  }
  return "";
}

std::string fault_of_foreign(const SourceFile& file, const std::string& included) {
  for (const Confined& confined : confined_headers()) {
    if (std::regex_match(included, confined.header) &&
        !std::regex_match(file.path, confined.allowed_path)) {
      return confined.rule;
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> include_faults(const SourceFile& file) {
  static const std::regex pattern("\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  std::vector<std::string> faults;
  int line_number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++line_number;
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_match(line.begin(), line.end(), match, pattern)) continue;
    const std::string included = match[2];
    std::string fault = fault_of_foreign(file, included);
    if (fault.empty() && match[1] == "\"") fault = fault_of_own(file, included);
    if (!fault.empty()) {
      faults.push_back(file.path + ":" + std::to_string(line_number) + ": includes " + included +
                       ": " + fault);
    }
  }
  return faults;
}

std::vector<std::string> link_faults(const SourceFile& cmake_file) {
  static const std::regex pattern("colibri_([a-z]+)");
  std::vector<std::string> faults;
  const auto end = std::sregex_iterator();
  for (auto it = std::sregex_iterator(cmake_file.text.begin(), cmake_file.text.end(), pattern);
       it != end; ++it) {
    const std::string folder = (*it)[1];
    if (arrows().contains(folder) && !may_use(cmake_file.folder(), folder)) {
      faults.push_back(cmake_file.path + ": links colibri_" + folder + ", which " +
                       cmake_file.folder() + "/ may not use");
    }
  }
  return faults;
}

}  // namespace colibri
