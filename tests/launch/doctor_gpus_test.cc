#include "launch/doctor_gpus.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace colibri {
namespace {

GpuProbe one_gpu() {
  GpuProbe probe{.driver_version = 12020, .runtime_version = 12000};
  GpuInfo gpu;
  gpu.name = "NVIDIA H200";
  gpu.uuid = "GPU-0";
  gpu.major = 9;
  probe.gpus.push_back(gpu);
  return probe;
}

std::string report(CudaBackend backend) {
  if (backend.has_nccl == nullptr) backend.has_nccl = [] { return false; };
  return gpu_report([&]() -> const CudaBackend& { return backend; });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DoctorGpusTest, MissingPartIsNoFaultAndSaysHowToBuildIt) {
  const std::string text = gpu_report([]() -> const CudaBackend& {
    fail(ErrorKind::kUnsupported, "configure with -DCOLIBRI_CUDA=on");
  });
  EXPECT_TRUE(has(text, "ok   GPU part           none: configure with -DCOLIBRI_CUDA=on\n"))
      << text;
}

TEST(DoctorGpusTest, MissingDriverIsAFix) {
  const std::string text = report({.kind = "cuda", .probe_gpus = [] {
                                     return GpuProbe{.runtime_version = 13000,
                                                     .problem = "no NVIDIA driver is loaded here"};
                                   }});
  EXPECT_TRUE(has(text, "ok   GPU part           there, cuda\n")) << text;
  EXPECT_TRUE(has(text, "fix  GPU driver         none, built with CUDA 13.0: no NVIDIA driver"))
      << text;
}

TEST(DoctorGpusTest, GpuIsDescribedWithItsFreeMemory) {
  const std::string text =
      report({.kind = "cuda", .probe_gpus = one_gpu, .read_gpu_memory = [](int) {
                return GpuMemory{.free_bytes = 140'000'000'000, .total_bytes = 150'000'000'000};
              }});
  EXPECT_TRUE(has(text, "ok   GPU driver         CUDA 12.2, built with CUDA 12.0\n")) << text;
  EXPECT_TRUE(has(text, "ok   GPU 0 memory       140 GB free of 150 GB\n")) << text;
  EXPECT_TRUE(has(text, "GPU 0: NVIDIA H200, compute capability 9.0")) << text;
}

TEST(DoctorGpusTest, NcclIsItsVersionOrAFix) {
  const std::string with = report({.kind = "cuda",
                                   .probe_gpus = one_gpu,
                                   .read_gpu_memory = [](int) { return GpuMemory{}; },
                                   .has_nccl = [] { return true; },
                                   .nccl_version = [] { return std::string("2.28.9"); }});
  EXPECT_TRUE(has(with, "ok   NCCL               2.28.9\n")) << with;
  const std::string without = report(
      {.kind = "cuda", .probe_gpus = one_gpu, .read_gpu_memory = [](int) { return GpuMemory{}; }});
  EXPECT_TRUE(has(without, "fix  NCCL               not built in: ")) << without;
}

TEST(DoctorGpusTest, GpuThatOthersFillIsAFix) {
  const std::string text =
      report({.kind = "cuda", .probe_gpus = one_gpu, .read_gpu_memory = [](int) {
                return GpuMemory{.free_bytes = 70'000'000'000, .total_bytes = 150'000'000'000};
              }});
  EXPECT_TRUE(has(text, "fix  GPU 0 memory       70.0 GB free of 150 GB: another process")) << text;
}

TEST(DoctorGpusTest, GpuOutOfOrderIsAFixAndTheRestIsSaid) {
  const std::string text =
      report({.kind = "cuda", .probe_gpus = one_gpu, .read_gpu_memory = [](int) -> GpuMemory {
                fail(ErrorKind::kInternal, "choosing the GPU failed");
              }});
  EXPECT_TRUE(has(text, "fix  GPU 0 memory       cannot be read: choosing the GPU failed\n"))
      << text;
  EXPECT_TRUE(has(text, "GPU 0: NVIDIA H200")) << text;
}

}  // namespace
}  // namespace colibri
