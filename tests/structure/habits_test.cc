#include "tests/structure/habits.h"

#include <gtest/gtest.h>

namespace colibri {
namespace {

using Rule = std::vector<std::string> (*)(const SourceFile&);

void expect_no_faults(const std::vector<SourceFile>& files, Rule rule) {
  ASSERT_FALSE(files.empty());
  for (const SourceFile& file : files) {
    // The rules and their tests hold made-up faults.
    if (file.path.starts_with("tests/structure/habits")) continue;
    const auto faults = rule(file);
    EXPECT_TRUE(faults.empty()) << joined(faults);
  }
}

bool is_dead(const std::string& line) { return !dead_text_faults({"tests/a.cc", line}).empty(); }
bool names_machine(const std::string& line) {
  return !machine_path_faults({"docs/a.md", line}).empty();
}

TEST(HabitsTest, FilesAreShort) {
  expect_no_faults(code_files(), length_faults);
  expect_no_faults(test_files(), length_faults);
}

TEST(HabitsTest, HeadersLookTheSameOnEveryBuild) {
  expect_no_faults(code_files(), header_faults);
  expect_no_faults(test_files(), header_faults);
}

TEST(HabitsTest, NoDeadTextAndNoSilentTests) {
  expect_no_faults(code_files(), dead_text_faults);
  expect_no_faults(test_files(), dead_text_faults);
}

TEST(HabitsTest, NoPathsOfOneMachine) {
  expect_no_faults(code_files(), machine_path_faults);
  expect_no_faults(test_files(), machine_path_faults);
  expect_no_faults(document_files(), machine_path_faults);
}

TEST(HabitsTest, EverySourceIsBuilt) {
  for (const std::string& folder : code_folders()) {
    const auto faults = unbuilt_faults(files_below(folder, {".cc", ".cu"}),
                                       files_below(folder, {".txt", ".cmake"}));
    EXPECT_TRUE(faults.empty()) << joined(faults);
  }
  const auto faults = unbuilt_faults(test_files(), files_below("tests", {".txt", ".cmake"}));
  EXPECT_TRUE(faults.empty()) << joined(faults);
}

TEST(HabitsTest, LongFileIsFound) {
  std::string text;
  for (int i = 0; i < 401; ++i) text += "\n";
  EXPECT_EQ(length_faults({"base/a.cc", text}).size(), 1u);
  EXPECT_TRUE(length_faults({"base/a.cc", text.substr(1)}).empty());
  EXPECT_TRUE(length_faults({"tests/a.cc", text}).empty());
}

TEST(HabitsTest, HeaderFaultsAreFound) {
  EXPECT_EQ(header_faults({"base/a.h", "// Text.\nint x;\n"}).size(), 1u);
  EXPECT_EQ(header_faults({"base/a.h", "// Text.\n#pragma once\n#ifdef A\n#endif\n"}).size(), 1u);
  EXPECT_TRUE(header_faults({"kernels/cpu/a.h", "#pragma once\n#if defined(A)\n#endif\n"}).empty());
  EXPECT_TRUE(header_faults({"base/a.cc", "#ifdef A\n#endif\n"}).empty());
}

TEST(HabitsTest, DeadTextIsFound) {
  EXPECT_TRUE(is_dead("// TODO: later"));
  EXPECT_TRUE(is_dead("int x;  // FIXME"));
  EXPECT_TRUE(is_dead("#if 0"));
  EXPECT_TRUE(is_dead("TEST(A, DISABLED_B) {"));
  EXPECT_TRUE(is_dead("  GTEST_SKIP();"));
  EXPECT_TRUE(is_dead("// TEST(A, B) {"));
  EXPECT_TRUE(is_dead("  // return x;"));
  EXPECT_TRUE(is_dead("  // x = y + 1;"));
  EXPECT_TRUE(is_dead("  // const int x = f(y);"));
  EXPECT_TRUE(is_dead("  // pool.run(n, task);"));
  EXPECT_TRUE(is_dead("  // if (x) {"));
  EXPECT_TRUE(is_dead("  // }"));
  EXPECT_TRUE(is_dead("// #include \"base/error.h\""));
}

TEST(HabitsTest, LiveTextIsNotAFault) {
  EXPECT_FALSE(is_dead("// TODO(#12): measure"));
  EXPECT_FALSE(is_dead("  GTEST_SKIP() << \"no GPU\";"));
  EXPECT_FALSE(is_dead("// Example: fail(ErrorKind::kInput, path);"));
  EXPECT_FALSE(is_dead("// The group lives until wait() returns;"));
  EXPECT_FALSE(is_dead("//   s8[j] = c[j] + c[j + 8] (j < 8),"));
  EXPECT_FALSE(is_dead("x = y;  // because z = 1"));
}

TEST(HabitsTest, PathsOfOneMachineAreFound) {
  EXPECT_TRUE(
      names_machine("see /"
                    "work/shared/x.md"));
  EXPECT_TRUE(names_machine("cd /root"));
  EXPECT_TRUE(names_machine("`/home/someone/x`"));
  EXPECT_TRUE(names_machine("\"/tmp/x\""));
  EXPECT_FALSE(names_machine("the /proc file"));
  EXPECT_FALSE(
      names_machine("a/"
                    "work/b and ${TMPDIR:-/tmp}"));
  EXPECT_FALSE(names_machine("$ROOT/tmp/x and /worker"));
}

TEST(HabitsTest, SourceThatIsNotBuiltIsFound) {
  const std::vector<SourceFile> build = {{"base/CMakeLists.txt", "SOURCES\n  a.cc\n  big_b.cc\n"}};
  EXPECT_TRUE(unbuilt_faults({{"base/a.cc", ""}, {"base/x.h", ""}}, build).empty());
  EXPECT_EQ(unbuilt_faults({{"base/b.cc", ""}}, build).size(), 1u);
  EXPECT_TRUE(unbuilt_faults({{"tests/a/x_test.cc", ""}}, {{"t", "foreach(n x_test y)"}}).empty());
}

}  // namespace
}  // namespace colibri
