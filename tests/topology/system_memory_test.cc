#include "topology/system_memory.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

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
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  const SystemMemory memory = read_system_memory(root.path());
  EXPECT_EQ(memory.total_bytes, 8192);
  EXPECT_FALSE(memory.cgroup_room_bytes.has_value());
  EXPECT_EQ(memory.usable_bytes(), 4096);
}

TEST(SystemMemoryTest, WithoutProcFailsByName) {
  const TemporaryFolder root;
  EXPECT_ERROR(read_system_memory(root.path()), kEnvironment, "proc/meminfo has no MemAvailable");
}

TEST(SystemMemoryTest, TightestGroupAboveCounts) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  root.write("sys/fs/cgroup/outer/memory.max", "3000\n");
  root.write("sys/fs/cgroup/outer/memory.current", "2000\n");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "5000\n");
  root.write("sys/fs/cgroup/outer/inner/memory.current", "100\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 1000);
  EXPECT_EQ(read_system_memory(root.path()).usable_bytes(), 1000);
}

TEST(SystemMemoryTest, ReclaimableCacheIsNotUse) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "3000\n");
  root.write("sys/fs/cgroup/memory.current", "2500\n");
  root.write("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file_x 7\ninactive_file 2000\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 2500);
}

TEST(SystemMemoryTest, UseAboveTheLimitLeavesNothing) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "3000\n");
  root.write("sys/fs/cgroup/memory.current", "3001\n");
  EXPECT_EQ(read_system_memory(root.path()).usable_bytes(), 0);
}

TEST(SystemMemoryTest, MaxMeansNoLimit) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "max\n");
  root.write("sys/fs/cgroup/memory.current", "3001\n");
  EXPECT_FALSE(read_system_memory(root.path()).cgroup_room_bytes.has_value());
}

TEST(SystemMemoryTest, VersionOneGroupsAreRead) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "4:cpu,memory:/job\n1:cpuset:/x\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "10\n");
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "600\n");
  root.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "500\n");
  root.write("sys/fs/cgroup/memory/job/memory.stat", "total_inactive_file 50\n");
  EXPECT_EQ(read_system_memory(root.path()).cgroup_room_bytes, 150);
}

TEST(SystemMemoryTest, GroupPathDoesNotLeadOutOfTheMount) {
  const TemporaryFolder root;
  root.write("proc/meminfo", kMeminfo);
  root.write("proc/self/cgroup", "0::/../../escape\n");
  root.write("sys/fs/cgroup/cgroup.procs", "");
  root.write("sys/escape/memory.max", "1\n");
  root.write("sys/escape/memory.current", "1\n");
  EXPECT_FALSE(read_system_memory(root.path()).cgroup_room_bytes.has_value());
}

}  // namespace
}  // namespace colibri
