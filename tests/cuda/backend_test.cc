// libcolibri_cuda.so as the program meets it: opened at run time, with its own copy of base/.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/op_types.h"
#include "launch/cuda_backend.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

const CudaBackend& backend() { return open_cuda_backend(); }

TEST(CudaBackendLibraryTest, SaysWhatItIs) {
  const std::string kind = backend().kind;
  EXPECT_TRUE(kind == "cuda" || kind == "simulated") << kind;
}

TEST(CudaBackendLibraryTest, OpenedAgainItIsTheSame) {
  EXPECT_EQ(&open_cuda_backend(), &open_cuda_backend());
}

TEST(CudaBackendLibraryTest, ErrorThrownInsideIsAnErrorOutside) {
  const int no_gpu = 1000;
  EXPECT_ERROR(backend().make_device(no_gpu), kEnvironment, "cuda:1000");
}

TEST(CudaBackendLibraryTest, ItsErrorIsAlsoAStandardException) {
  try {
    backend().make_device(1000);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(dynamic_cast<const Error*>(&error), nullptr);
  }
}

TEST(CudaBackendLibraryTest, ProgramDoesNotSeeWhatIsInside) {
  ASSERT_NE(&backend(), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, kCudaBackendSymbol), nullptr);
}

// What needs a GPU. Without one the reason is asked for, and printed.
class CudaBackendGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    probe_ = backend().probe_gpus();
    if (!probe_.problem.empty()) GTEST_SKIP() << probe_.problem;
  }
  GpuProbe probe_;
};

TEST(CudaBackendLibraryTest, ProbeFindsGpusOrSaysWhyNot) {
  const GpuProbe probe = backend().probe_gpus();
  EXPECT_EQ(probe.gpus.empty(), !probe.problem.empty());
  EXPECT_GT(probe.runtime_version, 0);
}

TEST_F(CudaBackendGpuTest, EveryGpuIsDescribed) {
  for (const GpuInfo& gpu : probe_.gpus) {
    EXPECT_FALSE(gpu.name.empty());
    EXPECT_EQ(gpu.uuid.size(), std::strlen("GPU-00000000-0000-0000-0000-000000000000")) << gpu.uuid;
    EXPECT_GE(gpu.major, 8);
    EXPECT_GT(gpu.memory_bytes, 0);
    EXPECT_GT(gpu.num_multiprocessors, 0);
    EXPECT_EQ(gpu.pci_bus_id.size(), std::strlen("0000:17:00.0")) << gpu.pci_bus_id;
    EXPECT_EQ(gpu.peers.size(), probe_.gpus.size());
  }
}

TEST_F(CudaBackendGpuTest, UuidsAreDifferentAndStay) {
  const GpuProbe again = backend().probe_gpus();
  for (size_t i = 0; i < probe_.gpus.size(); ++i) {
    EXPECT_EQ(probe_.gpus[i].uuid, again.gpus[i].uuid);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(probe_.gpus[i].uuid, probe_.gpus[j].uuid);
  }
}

TEST_F(CudaBackendGpuTest, FreeMemoryIsAtMostAll) {
  const GpuMemory memory = backend().read_gpu_memory(0);
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
}

TEST_F(CudaBackendGpuTest, OperationRunsThroughThePointers) {
  const auto device = backend().make_device(0);
  const auto stream = device->make_stream();
  const auto ops = backend().make_ops(*device, {});
  const float ones[] = {1, 2, 3};
  auto* x = static_cast<float*>(device->allocate(sizeof ones));
  device->copy(x, ones, sizeof ones, *stream);
  ops->add({.x = x, .other = x, .count = 3}, *stream);
  float sums[3] = {};
  device->copy(sums, x, sizeof sums, *stream);
  stream->synchronize();
  device->release(x, sizeof ones);
  EXPECT_EQ(sums[0], 2);
  EXPECT_EQ(sums[2], 6);
}

TEST_F(CudaBackendGpuTest, DeviceCountsTheBytesItHandsOut) {
  const auto device = backend().make_device(0);
  void* memory = device->allocate(100);
  void* staging = device->allocate_staging(30);
  EXPECT_EQ(device->allocated_bytes(), 100);
  EXPECT_EQ(device->staging_bytes(), 30);
  device->release(memory, 100);
  device->release_staging(staging, 30);
  EXPECT_EQ(device->allocated_bytes() + device->staging_bytes(), 0);
}

TEST_F(CudaBackendGpuTest, TimedEventsTellTheTimeBetweenThemAndWaitsAreAddedUp) {
  const auto device = backend().make_device(0);
  const auto stream = device->make_stream();
  const auto start = device->make_timed_event(), end = device->make_timed_event();
  constexpr size_t kBytes = 1 << 20;
  void* memory = device->allocate(kBytes);
  const double waited_before = device->waited_us();
  device->record(*start, *stream);
  device->zero(memory, kBytes, *stream);
  device->record(*end, *stream);
  device->synchronize(*end);
  EXPECT_GT(device->elapsed_us(*start, *end), 0);
  EXPECT_GT(device->waited_us(), waited_before);
  device->release(memory, kBytes);
}

}  // namespace
}  // namespace colibri
