// What `colibri bench --device cuda` measures of the GPU itself: its limits, and the time of each
// kind of operation in one run of a test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/staging_buffer.h"
#include "launch/chosen_device.h"
#include "launch/op_profile.h"

namespace colibri {

// A sample a repetition. Empty: not measured.
struct GpuLimits {
  std::vector<double> copy_gbps;       // device to device, bytes read and bytes written
  std::vector<double> to_gpu_gbps;     // from pinned memory
  std::vector<double> from_gpu_gbps;   // to pinned memory
  std::vector<double> product_tflops;  // of one large product of bf16 matrices

  bool is_measured() const { return !copy_gbps.empty(); }
};

// Where one run of a test spent the GPU's time.
struct GpuProfile {
  OpProfile kinds{};
  int64_t num_steps = 0;

  double us_per_step() const;
};

// Bytes and matrix sizes that say something about a GPU; the simulated device gets small ones, and
// its rates mean nothing.
struct GpuProbeSizes {
  size_t copy_bytes = 0;
  size_t filler_bytes = 0;    // ProfiledOps's
  int64_t product_width = 0;  // of a square product
  int64_t product_rows = 0;
};
GpuProbeSizes gpu_probe_sizes(const CudaBackend& backend);

// Takes its memory once; measure() adds a sample to each list.
class GpuProbes {
 public:
  // Both outlive it; `device` was made by the backend of `chosen`.
  GpuProbes(Device& device, const ChosenDevice& chosen);
  void measure();
  const GpuLimits& measured() const { return measured_; }

 private:
  void fill_matrices();
  template <class Work>
  double us_of(const Work& work);
  double gbps(void* to, const void* from, double bytes_moved_each);

  Device& device_;
  GpuProbeSizes sizes_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> start_, end_;
  std::unique_ptr<Ops> ops_;
  Buffer from_, to_;
  StagingBuffer host_;
  Buffer rows_, weight_, product_;
  GpuLimits measured_;
};

}  // namespace colibri
