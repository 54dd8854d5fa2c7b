// The simulated cuBLASLt: that it refuses what the real one refuses, and that it shows what an
// algorithm left free does to a row.
#include "simulated_cublaslt.h"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include "kernels/cuda/lt_product.h"
#include "tests/cuda/dense_rig.h"

namespace colibri {
namespace {

using colibri_sim::LtAlgorithm;

class OfferedAlgorithms {
 public:
  explicit OfferedAlgorithms(const std::vector<LtAlgorithm>& algorithms) {
    colibri_sim::offer_lt_algorithms(algorithms);
  }
  ~OfferedAlgorithms() { colibri_sim::offer_lt_algorithms({}); }
};

const DenseShape kShape{.n = 24, .k = 72, .dtype = DType::kBF16};

// out [rows, 8] = x [rows, 64] weight [8, 64]^T with the algorithm given, or the library's choice.
struct FreeProduct {
  CudaRig rig;
  DeviceArray<float> x{rig, random_floats(33 * 64, 1)}, weight{rig, random_floats(8 * 64, 2)},
      out{rig, 33 * 8}, workspace{rig, 4096};
  cuda::LtPointer<cublasLtContext> handle = cuda::make_lt_handle();
  float one = 1, zero = 0;

  struct Call {
    int64_t rows = 4;
    int64_t ld = 64;
    int64_t x_offset = 0;
    cudaDataType weight_type = CUDA_R_32F;
    const cublasLtMatmulAlgo_t* algo = nullptr;
    size_t workspace_bytes = 4096 * sizeof(float);
  };
  cublasStatus_t run(const Call& call) {
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t w = nullptr, a = nullptr, d = nullptr;
    const int32_t transposed = CUBLAS_OP_T;
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4);
    cublasLtMatrixLayoutCreate(&w, call.weight_type, 64, 8, call.ld);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 64, static_cast<uint64_t>(call.rows), 64);
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 8, static_cast<uint64_t>(call.rows), 8);
    const cublasStatus_t status = cublasLtMatmul(
        handle.get(), desc, &one, weight.data(), w, x.data() + call.x_offset, a, &zero, out.data(),
        d, out.data(), d, call.algo, workspace.data(), call.workspace_bytes,
        static_cast<cudaStream_t>(rig.stream->native_handle()));
    cublasLtMatmulDescDestroy(desc);
    for (const auto layout : {w, a, d}) cublasLtMatrixLayoutDestroy(layout);
    return status;
  }
  cublasLtMatmulAlgo_t only(LtAlgorithm algorithm) {
    const OfferedAlgorithms offered({algorithm});
    return cuda::LtProduct(handle.get(), 4, 8, 64, DType::kF32).candidates(1 << 20, 1).at(0);
  }
};

TEST(SimulatedCublasLt, ShowsThatAnUnpinnedAlgorithmChangesARow) {
  FreeProduct product;
  int num_changed = 0;
  std::vector<float> alone;
  for (int64_t rows = 1; rows <= 33; ++rows) {
    ASSERT_EQ(product.run({.rows = rows}), CUBLAS_STATUS_SUCCESS);
    const auto row = first_rows(product.out.host(), 1, 8);
    if (rows == 1) alone = row;
    if (!difference(row, alone).empty()) ++num_changed;
  }
  EXPECT_GT(num_changed, 5);
}

TEST(SimulatedCublasLt, ShowsThatOneAlgorithmForUnpaddedRowsChangesARow) {
  FreeProduct product;
  const auto algo = product.only(LtAlgorithm::kByShape);
  product.run({.rows = 4, .algo = &algo});
  const auto of_four = first_rows(product.out.host(), 1, 8);
  product.run({.rows = 5, .algo = &algo});
  EXPECT_NE(difference(first_rows(product.out.host(), 1, 8), of_four), "");
}

TEST(SimulatedCublasLt, RefusesALeadingDimensionBelowTheRows) {
  FreeProduct product;
  EXPECT_EQ(product.run({.ld = 63}), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(SimulatedCublasLt, RefusesF32TimesBf16) {
  FreeProduct product;
  EXPECT_EQ(product.run({.weight_type = CUDA_R_16BF}), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(SimulatedCublasLt, RefusesAPointerLessAlignedThanDeclared) {
  FreeProduct product;
  const auto algo = product.only(LtAlgorithm::kByDepthVector);
  EXPECT_EQ(product.run({.algo = &algo}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run({.x_offset = 1, .algo = &algo}), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(SimulatedCublasLt, RefusesAWorkspaceTooSmall) {
  FreeProduct product;
  const auto algo = product.only(LtAlgorithm::kSplitDepth);
  EXPECT_EQ(product.run({.algo = &algo}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product.run({.algo = &algo, .workspace_bytes = 511}), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(SimulatedCublasLt, RefusesRowsThatLeaveTheDevicesMemory) {
  FreeProduct product;
  EXPECT_EQ(product.run({.rows = 33, .x_offset = 64}), CUBLAS_STATUS_EXECUTION_FAILED);
}

TEST(SimulatedCublasLt, RefusesNullHandles) {
  cublasLtMatmulDesc_t desc = nullptr;
  EXPECT_EQ(cublasLtMatmul(nullptr, desc, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                           nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
            CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST(DenseProducts, SayThatNoAlgorithmFitsWhereTheOrderFollowsTheShape) {
  const OfferedAlgorithms offered({LtAlgorithm::kByShape});
  DenseRig rig(kShape);
  const DenseReport& report = rig.dense().reports().front();
  EXPECT_FALSE(report.fits);
  EXPECT_NE(report.text().find("no algorithm gives a row the same bits"), std::string::npos);
  EXPECT_FALSE(rig.dense().takes(rig.op(1)));
}

TEST(DenseProducts, TakeNoAlgorithmWhoseFirstRowAloneIsRight) {
  const OfferedAlgorithms offered({LtAlgorithm::kByColumn, LtAlgorithm::kByDepth});
  DenseRig rig(kShape);
  for (const DenseChoice& one : rig.dense().reports().front().choices) {
    EXPECT_EQ(one.num_bit_equal, one.bucket == 1 ? 2 : 1) << one.bucket;
  }
}

TEST(DenseProducts, TakeNoAlgorithmWhoseLastRowDiffers) {
  const OfferedAlgorithms offered({LtAlgorithm::kLastColumn, LtAlgorithm::kByDepth});
  DenseRig rig(kShape);
  for (const DenseChoice& one : rig.dense().reports().front().choices) {
    EXPECT_EQ(one.num_bit_equal, 1) << one.bucket;
  }
}

TEST(DenseProducts, HaveTheBitsOfTheReferenceAlgorithmAlone) {
  std::vector<float> by_depth;
  {
    const OfferedAlgorithms offered({LtAlgorithm::kByDepth});
    by_depth = DenseRig(kShape).multiply(5);
  }
  const OfferedAlgorithms offered({LtAlgorithm::kSplitDepth});
  EXPECT_NE(difference(DenseRig(kShape).multiply(5), by_depth), "");
}

}  // namespace
}  // namespace colibri
