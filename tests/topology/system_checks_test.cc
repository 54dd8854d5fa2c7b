#include "topology/system_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/topology/files.h"

namespace colibri {
namespace {

using Cpus = std::vector<int>;

// A node on which nothing is wrong; tests spoil one fact.
SystemFacts good_facts() {
  SystemFacts facts;
  facts.shm_bytes = facts.shm_free_bytes = 8'000'000'000;
  facts.memlock_bytes = UINT64_MAX;
  facts.open_files = 4096;
  facts.allowed_cpus = {0, 1};
  facts.memory = SystemMemory{.total_bytes = 16'000'000'000,
                              .available_bytes = 12'000'000'000,
                              .cgroup_room_bytes = std::nullopt};
  facts.huge_pages = "madvise";
  facts.cpu_flags = {"avx2", "fma", "avx512f", "sse"};
  facts.mpirun = "/usr/bin/mpirun";
  return facts;
}

SystemCheck check_named(const SystemFacts& facts, const std::string& name) {
  for (const SystemCheck& check : system_checks(facts)) {
    if (check.name == name) return check;
  }
  ADD_FAILURE() << "no check " << name;
  return {};
}

// Not ok, says what was found, and what to do.
void expect_fix(const SystemFacts& facts, const std::string& name, const std::string& value) {
  const SystemCheck check = check_named(facts, name);
  EXPECT_FALSE(check.ok) << name;
  EXPECT_EQ(check.value, value);
  EXPECT_FALSE(check.fix.empty()) << name;
}

TEST(SystemChecksTest, GoodNodeIsOkInEveryLine) {
  const auto checks = system_checks(good_facts());
  EXPECT_EQ(checks.size(), 8u);
  for (const SystemCheck& check : checks) {
    EXPECT_TRUE(check.ok) << check.name;
    EXPECT_EQ(check.fix, "") << check.name;
  }
}

TEST(SystemChecksTest, ValuesSayWhatWasFound) {
  EXPECT_EQ(check_named(good_facts(), "cores").value, "2 allowed (0-1), no quota");
  EXPECT_EQ(check_named(good_facts(), "instruction sets").value, "avx2 fma avx512f");
  EXPECT_EQ(check_named(good_facts(), "memory").value, "12.0 GB usable of 16.0 GB");
  EXPECT_EQ(check_named(good_facts(), "/dev/shm").value, "8.00 GB free of 8.00 GB");
  EXPECT_EQ(check_named(good_facts(), "locked memory").value, "unlimited");
  EXPECT_EQ(check_named(good_facts(), "open files").value, "4096");
}

TEST(SystemChecksTest, EachBadFactHasItsFix) {
  SystemFacts facts = good_facts();
  facts.cpu_quota = 1.5;
  facts.cpu_flags = {"sse"};
  facts.memory->cgroup_room_bytes = 500'000'000;
  facts.huge_pages = "never";
  facts.shm_free_bytes = 1'000'000;
  facts.memlock_bytes = 65536;
  facts.open_files = 256;
  facts.mpirun = "";
  expect_fix(facts, "cores", "2 allowed (0-1), quota 1.5");
  expect_fix(facts, "instruction sets", "none of avx2, avx512");
  expect_fix(facts, "memory", "500 MB usable of 16.0 GB, with a container limit");
  expect_fix(facts, "huge pages", "never");
  expect_fix(facts, "/dev/shm", "1.00 MB free of 8.00 GB");
  expect_fix(facts, "locked memory", "65.5 KB");
  expect_fix(facts, "open files", "256");
  expect_fix(facts, "mpirun", "not found");
}

TEST(SystemChecksTest, WhatCannotBeReadIsSaid) {
  const SystemFacts nothing;
  expect_fix(nothing, "memory", "cannot be read");
  expect_fix(nothing, "huge pages", "not in this kernel");
  expect_fix(nothing, "/dev/shm", "is not there");
  expect_fix(nothing, "open files", "cannot be read");
}

TEST(SystemFactsTest, FilesBecomeFacts) {
  const TempDir root;
  write_file(root, "proc/meminfo", "MemTotal: 8 kB\nMemAvailable: 4 kB\n");
  write_file(root, "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2\n");
  write_file(root, "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  write_file(root, "sys/fs/cgroup/cpu.max", "250000 100000\n");
  const SystemFacts facts = read_system_facts(root.path());
  ASSERT_TRUE(facts.memory.has_value());
  EXPECT_EQ(facts.memory->usable_bytes(), 4096);
  EXPECT_EQ(facts.huge_pages, "always");
  EXPECT_EQ(facts.cpu_quota, 2.5);
  EXPECT_EQ(facts.cpu_flags, (std::set<std::string>{"avx2", "fpu"}));
  EXPECT_FALSE(facts.allowed_cpus.empty());
}

TEST(SystemFactsTest, VersionOneQuotaIsRead) {
  const TempDir root;
  write_file(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write_file(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(read_system_facts(root.path()).cpu_quota, 0.5);
  write_file(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(read_system_facts(root.path()).cpu_quota, std::nullopt);
}

TEST(ParseTest, HugePagesIsTheWordInBrackets) {
  EXPECT_EQ(parse_huge_pages("always [madvise] never\n"), "madvise");
  EXPECT_EQ(parse_huge_pages("always madvise never\n"), std::nullopt);
  EXPECT_EQ(parse_huge_pages("]["), std::nullopt);
  EXPECT_EQ(parse_huge_pages(""), std::nullopt);
}

TEST(ParseTest, CpuMaxIsProcessorsWorthOfTime) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  for (const char* text : {"max 100000\n", "-1 100000", "1 0", "1", "", "1 2 3", "x y"}) {
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << text;
  }
}

TEST(ParseTest, FlagsComeFromTheFirstProcessor) {
  EXPECT_EQ(parse_cpu_flags("model: flags\nflags : a  b\nflags : c\n"),
            (std::set<std::string>{"a", "b"}));
  EXPECT_TRUE(parse_cpu_flags("").empty());
}

TEST(FormatCpuListTest, RunsBecomeRanges) {
  EXPECT_EQ(format_cpu_list(Cpus{}), "");
  EXPECT_EQ(format_cpu_list(Cpus{3}), "3");
  EXPECT_EQ(format_cpu_list(Cpus{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(FindProgramTest, FirstExecutableOnThePathIsFound) {
  namespace fs = std::filesystem;
  const TempDir root;
  const std::string plain = write_file(root, "a/tool", "text").string();
  const std::string program = write_file(root, "b/tool", "text").string();
  fs::permissions(program, fs::perms::owner_all);
  const std::string search_path = (root.path() / "absent").string() +
                                  "::" + (root.path() / "a").string() + ":" +
                                  (root.path() / "b").string();
  EXPECT_EQ(find_program("tool", search_path), program);
  EXPECT_EQ(find_program("other", search_path), "");
  EXPECT_EQ(find_program("tool", ""), "");
  EXPECT_NE(plain, program);
}

}  // namespace
}  // namespace colibri
