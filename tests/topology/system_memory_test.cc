#include "topology/system_memory.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/topology/files.h"

namespace colibri {
namespace {

const char* const kMeminfo = "MemTotal:  8 kB\nMemFree:  1 kB\nMemAvailable:     4 kB\n";

TEST(MeminfoTest, KilobytesBecomeBytes) {
  EXPECT_EQ(meminfo_bytes(kMeminfo, "MemAvailable"), 4096);
  EXPECT_EQ(meminfo_bytes(kMeminfo, "MemTotal"), 8192);
}

TEST(MeminfoTest, MissingOrMalformedIsEmpty) {
  EXPECT_EQ(meminfo_bytes(kMeminfo, "Mem"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable: 4 MB\n", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable: x kB\n", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable: -4 kB\n", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemAvailable: 9223372036854775807 kB\n", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("", "MemAvailable"), std::nullopt);
}

TEST(SystemMemoryTest, WithoutALimitTheKernelsEstimateCounts) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  const SystemMemory memory = read_system_memory(root.path());
  EXPECT_EQ(memory.total_bytes, 8192);
  EXPECT_FALSE(memory.cgroup_room_bytes.has_value());
  EXPECT_EQ(memory.usable_bytes(), 4096);
}

TEST(SystemMemoryTest, WithoutProcFailsByName) {
  const TempDir root;
  EXPECT_ERROR(read_system_memory(root.path()), kEnvironment, "proc/meminfo has no MemAvailable");
}

TEST(SystemMemoryTest, TightestGroupAboveCounts) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "0::/outer/inner\n");
  write_file(root, "sys/fs/cgroup/outer/memory.max", "3000\n");
  write_file(root, "sys/fs/cgroup/outer/memory.current", "2000\n");
  write_file(root, "sys/fs/cgroup/outer/inner/memory.max", "5000\n");
  write_file(root, "sys/fs/cgroup/outer/inner/memory.current", "100\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 1000);
  EXPECT_EQ(read_system_memory(root.path()).usable_bytes(), 1000);
}

TEST(SystemMemoryTest, ReclaimableCacheIsNotUse) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "0::/\n");
  write_file(root, "sys/fs/cgroup/memory.max", "3000\n");
  write_file(root, "sys/fs/cgroup/memory.current", "2500\n");
  write_file(root, "sys/fs/cgroup/memory.stat", "anon 5\ninactive_file_x 7\ninactive_file 2000\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 2500);
}

TEST(SystemMemoryTest, UseAboveTheLimitLeavesNothing) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "0::/\n");
  write_file(root, "sys/fs/cgroup/memory.max", "3000\n");
  write_file(root, "sys/fs/cgroup/memory.current", "3001\n");
  EXPECT_EQ(read_system_memory(root.path()).usable_bytes(), 0);
}

TEST(SystemMemoryTest, MaxMeansNoLimit) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "0::/\n");
  write_file(root, "sys/fs/cgroup/memory.max", "max\n");
  write_file(root, "sys/fs/cgroup/memory.current", "3001\n");
  EXPECT_FALSE(read_system_memory(root.path()).cgroup_room_bytes.has_value());
}

TEST(SystemMemoryTest, VersionOneGroupsAreRead) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "4:cpu,memory:/job\n1:cpuset:/x\n0::/\n");
  write_file(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write_file(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "10\n");
  write_file(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "600\n");
  write_file(root, "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500\n");
  write_file(root, "sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 50\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 150);
}

TEST(SystemMemoryTest, GroupPathDoesNotLeadOutOfTheMount) {
  const TempDir root;
  write_file(root, "proc/meminfo", kMeminfo);
  write_file(root, "proc/self/cgroup", "0::/../../escape\n");
  write_file(root, "sys/fs/cgroup/cgroup.procs", "");
  write_file(root, "sys/escape/memory.max", "1\n");
  write_file(root, "sys/escape/memory.current", "1\n");
  EXPECT_FALSE(read_system_memory(root.path()).cgroup_room_bytes.has_value());
}

}  // namespace
}  // namespace colibri
