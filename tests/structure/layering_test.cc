#include "tests/structure/layering.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri {
namespace {

bool may_include(const std::string& path, const std::string& include_line) {
  return include_faults({path, "#pragma once\n" + include_line + "\n"}).empty();
}

TEST(LayeringTest, EveryIncludeFollowsTheArrows) {
  ASSERT_GT(code_files().size(), 20u);
  for (const SourceFile& file : code_files()) {
    const auto faults = include_faults(file);
    EXPECT_TRUE(faults.empty()) << joined(faults);
  }
}

TEST(LayeringTest, EveryQuotedIncludeNamesAFile) {
  for (const SourceFile& file : code_files()) {
    for (const std::string_view line : lines_of(file.text)) {
      if (!trimmed(line).starts_with("#include \"")) continue;
      const size_t begin = line.find('"') + 1;
      const std::string path(line.substr(begin, line.find('"', begin) - begin));
      EXPECT_TRUE(exists_in_repository(path)) << file.path << " includes " << path;
    }
  }
}

TEST(LayeringTest, EveryLibraryLinksOnlyWhatItMayUse) {
  for (const std::string& folder : code_folders()) {
    for (const SourceFile& file : files_below(folder, {".txt", ".cmake"})) {
      const auto faults = link_faults(file);
      EXPECT_TRUE(faults.empty()) << joined(faults);
    }
  }
}

TEST(LayeringTest, AllowedArrowsAreFound) {
  EXPECT_TRUE(may_include("base/a.h", "#include \"base/error.h\""));
  EXPECT_TRUE(may_include("worker/a.cc", "#include \"transport/transport.h\""));
  EXPECT_TRUE(may_include("coordinator/a.cc", "#include \"topology/placement.h\""));
  EXPECT_TRUE(may_include("launch/a.cc", "#include \"worker/expert_shard.h\""));
  EXPECT_TRUE(may_include("kernels/cpu/a.inc", "#include \"kernels/cpu/b.inc\""));
  EXPECT_TRUE(may_include("topology/probe_hwloc.cc", "#include <hwloc.h>"));
  EXPECT_TRUE(may_include("kernels/cuda/a.cu", "#include <cuda_runtime.h>"));
  EXPECT_TRUE(may_include("transport/nccl_transport.cc", "#include <nccl.h>"));
}

TEST(LayeringTest, ForbiddenArrowsAreFound) {
  EXPECT_FALSE(may_include("base/a.h", "#include \"model/config.h\""));
  EXPECT_FALSE(may_include("kernels/a.h", "#include \"topology/placement.h\""));
  EXPECT_FALSE(may_include("kernels/cpu/a.inc", "  #  include \"model/config.h\""));
  EXPECT_FALSE(may_include("transport/a.h", "#include \"coordinator/dispatch_plan.h\""));
  EXPECT_FALSE(may_include("topology/a.cc", "#include \"model/config.h\""));
  EXPECT_FALSE(may_include("worker/a.cc", "#include \"coordinator/engine.h\""));
  EXPECT_FALSE(may_include("coordinator/a.cc", "#include \"worker/expert_shard.h\""));
  EXPECT_FALSE(may_include("coordinator/a.cc", "#include \"launch/run_config.h\""));
  EXPECT_FALSE(may_include("launch/a.cc", "#include \"tests/support/temp_dir.h\""));
  EXPECT_FALSE(may_include("base/a.cc", "#include \"error.h\""));
  EXPECT_FALSE(may_include("base/a.cc", "#include \"../model/config.h\""));
}

TEST(LayeringTest, ConfinedLibrariesAreFound) {
  EXPECT_FALSE(may_include("base/device.h", "#include <cuda_runtime.h>"));
  EXPECT_FALSE(may_include("kernels/ops.cc", "#include <cublasLt.h>"));
  EXPECT_FALSE(may_include("transport/transport.cc", "#include <nccl.h>"));
  EXPECT_FALSE(may_include("launch/main.cc", "#include <mpi.h>"));
  EXPECT_FALSE(may_include("topology/machine.h", "#include <hwloc.h>"));
  EXPECT_FALSE(may_include("model/config.h", "#include <nlohmann/json.hpp>"));
  EXPECT_FALSE(may_include("coordinator/a.cc", "#include <CLI/CLI.hpp>"));
  EXPECT_FALSE(may_include("base/a.cc", "#include <gtest/gtest.h>"));
}

TEST(LayeringTest, FaultNamesFileLineAndRule) {
  const auto faults = include_faults({"base/a.h", "#pragma once\n\n#include \"model/x.h\"\n"});
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0],
            "base/a.h:3: includes model/x.h: base/ may not use model/ (docs/design.md, section 3)");
}

TEST(LayeringTest, ForbiddenLinkIsFound) {
  EXPECT_TRUE(link_faults({"kernels/CMakeLists.txt", "colibri_library(kernels LINK colibri_base)"})
                  .empty());
  EXPECT_EQ(link_faults({"kernels/CMakeLists.txt", "LINK colibri_base colibri_topology"}).size(),
            1u);
}

}  // namespace
}  // namespace colibri
