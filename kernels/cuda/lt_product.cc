#include "kernels/cuda/lt_product.h"

#include "base/error.h"

namespace colibri::cuda {
namespace {

LtPointer<cublasLtMatrixLayoutOpaque_t> make_layout(cudaDataType type, int64_t rows, int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  lt_check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows),
                                      static_cast<uint64_t>(cols), rows),
           "cublasLtMatrixLayoutCreate");
  return LtPointer<cublasLtMatrixLayoutOpaque_t>(layout);
}

template <class T>
void set_preference(cublasLtMatmulPreference_t preference,
                    cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  lt_check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
           "cublasLtMatmulPreferenceSetAttribute");
}

uint32_t attribute_of(const cublasLtMatmulAlgo_t& algo,
                      cublasLtMatmulAlgoConfigAttributes_t attribute) {
  uint32_t value = 0;
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return value;
}

}  // namespace

void lt_check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ErrorKind::kInternal, what, " failed: ", cublasLtGetStatusName(status));
}

LtPointer<cublasLtContext> make_lt_handle() {
  cublasLtHandle_t handle = nullptr;
  lt_check(cublasLtCreate(&handle), "cublasLtCreate");
  return LtPointer<cublasLtContext>(handle);
}

LtProduct::LtProduct(cublasLtContext* handle, int64_t rows, int64_t n, int64_t k, DType dtype)
    : handle_(handle) {
  cublasLtMatmulDesc_t desc = nullptr;
  // CUBLAS_COMPUTE_32F: f32 stays f32. The type that lets TF32 in has another name.
  lt_check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
           "cublasLtMatmulDescCreate");
  desc_.reset(desc);
  const int32_t transposed = CUBLAS_OP_T;
  lt_check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                          sizeof transposed),
           "cublasLtMatmulDescSetAttribute");
  const cudaDataType type = dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
  weight_ = make_layout(type, k, n);
  x_ = make_layout(type, k, rows);
  out_ = make_layout(CUDA_R_32F, n, rows);
}

std::vector<cublasLtMatmulAlgo_t> LtProduct::candidates(size_t workspace_bytes, int count) const {
  cublasLtMatmulPreference_t made = nullptr;
  lt_check(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const LtPointer<cublasLtMatmulPreferenceOpaque_t> preference(made);
  set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                 static_cast<uint64_t>(workspace_bytes));
  set_preference(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_preference(made, attribute, kLtAlignment);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, desc_.get(), weight_.get(), x_.get(), out_.get(),
                                     out_.get(), made, count, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  lt_check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algos;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes) {
      algos.push_back(result.algo);
    }
  }
  return algos;
}

cublasStatus_t LtProduct::enqueue(const LtArrays& arrays, const cublasLtMatmulAlgo_t& algo,
                                  cudaStream_t stream) const {
  const float one = 1, zero = 0;
  return cublasLtMatmul(handle_, desc_.get(), &one, arrays.weight, weight_.get(), arrays.x,
                        x_.get(), &zero, arrays.out, out_.get(), arrays.out, out_.get(), &algo,
                        arrays.workspace, arrays.workspace_bytes, stream);
}

std::string describe(const cublasLtMatmulAlgo_t& algo) {
  return "algorithm " + std::to_string(attribute_of(algo, CUBLASLT_ALGO_CONFIG_ID)) + ", tile " +
         std::to_string(attribute_of(algo, CUBLASLT_ALGO_CONFIG_TILE_ID)) + ", split " +
         std::to_string(attribute_of(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

}  // namespace colibri::cuda
