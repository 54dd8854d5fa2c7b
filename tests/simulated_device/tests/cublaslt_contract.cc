// What the simulated device's cublasLt.h says, compiled twice: against it, and, where it is
// installed, against the library's own header. It says the same of both.
#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

namespace {

template <auto kValue, long long kWant>
constexpr bool is_value = static_cast<long long>(kValue) == kWant;
template <class Pointer, class Want>
constexpr bool is_signature = std::is_same_v<std::remove_pointer_t<Pointer>, Want>;

static_assert(is_value<CUDA_R_32F, 0>);
static_assert(is_value<CUDA_R_16F, 2>);
static_assert(is_value<CUDA_R_16BF, 14>);
static_assert(is_value<CUBLAS_STATUS_SUCCESS, 0>);
static_assert(is_value<CUBLAS_STATUS_NOT_INITIALIZED, 1>);
static_assert(is_value<CUBLAS_STATUS_ALLOC_FAILED, 3>);
static_assert(is_value<CUBLAS_STATUS_INVALID_VALUE, 7>);
static_assert(is_value<CUBLAS_STATUS_ARCH_MISMATCH, 8>);
static_assert(is_value<CUBLAS_STATUS_MAPPING_ERROR, 11>);
static_assert(is_value<CUBLAS_STATUS_EXECUTION_FAILED, 13>);
static_assert(is_value<CUBLAS_STATUS_INTERNAL_ERROR, 14>);
static_assert(is_value<CUBLAS_STATUS_NOT_SUPPORTED, 15>);
static_assert(is_value<CUBLAS_STATUS_LICENSE_ERROR, 16>);
static_assert(is_value<CUBLAS_OP_N, 0>);
static_assert(is_value<CUBLAS_OP_T, 1>);
static_assert(is_value<CUBLAS_OP_C, 2>);
static_assert(is_value<CUBLAS_COMPUTE_32F, 68>);
static_assert(is_value<CUBLAS_COMPUTE_32F_FAST_TF32, 77>);
static_assert(is_value<CUBLASLT_REDUCTION_SCHEME_NONE, 0>);
static_assert(is_value<CUBLASLT_REDUCTION_SCHEME_INPLACE, 1>);
static_assert(is_value<CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2>);
static_assert(is_value<CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4>);
static_assert(is_value<CUBLASLT_REDUCTION_SCHEME_MASK, 7>);
static_assert(is_value<CUBLASLT_MATMUL_DESC_TRANSA, 3>);
static_assert(is_value<CUBLASLT_MATMUL_DESC_TRANSB, 4>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7>);
static_assert(is_value<CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8>);
static_assert(is_value<CUBLASLT_ALGO_CONFIG_ID, 0>);
static_assert(is_value<CUBLASLT_ALGO_CONFIG_TILE_ID, 1>);
static_assert(is_value<CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2>);

static_assert(sizeof(cublasLtMatrixLayoutOpaque_t) == 64);
static_assert(sizeof(cublasLtMatmulAlgo_t) == 64);
static_assert(sizeof(cublasLtMatmulDescOpaque_t) == 256);
static_assert(sizeof(cublasLtMatmulPreferenceOpaque_t) == 64);
static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, wavesCount) == 76);

static_assert(is_signature<decltype(&cublasLtCreate), cublasStatus_t(cublasLtHandle_t*)>);
static_assert(is_signature<decltype(&cublasLtDestroy), cublasStatus_t(cublasLtHandle_t)>);
static_assert(is_signature<decltype(&cublasLtGetStatusName), const char*(cublasStatus_t)>);
static_assert(is_signature<decltype(&cublasLtGetVersion), size_t()>);
static_assert(is_signature<decltype(&cublasLtMatrixLayoutCreate),
                           cublasStatus_t(cublasLtMatrixLayout_t*, cudaDataType, uint64_t, uint64_t,
                                          int64_t)>);
static_assert(
    is_signature<decltype(&cublasLtMatrixLayoutDestroy), cublasStatus_t(cublasLtMatrixLayout_t)>);
static_assert(
    is_signature<decltype(&cublasLtMatmulDescCreate),
                 cublasStatus_t(cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType_t)>);
static_assert(
    is_signature<decltype(&cublasLtMatmulDescDestroy), cublasStatus_t(cublasLtMatmulDesc_t)>);
static_assert(is_signature<decltype(&cublasLtMatmulDescSetAttribute),
                           cublasStatus_t(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
                                          const void*, size_t)>);
static_assert(is_signature<decltype(&cublasLtMatmulPreferenceCreate),
                           cublasStatus_t(cublasLtMatmulPreference_t*)>);
static_assert(is_signature<decltype(&cublasLtMatmulPreferenceDestroy),
                           cublasStatus_t(cublasLtMatmulPreference_t)>);
static_assert(
    is_signature<decltype(&cublasLtMatmulPreferenceSetAttribute),
                 cublasStatus_t(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                const void*, size_t)>);
static_assert(
    is_signature<decltype(&cublasLtMatmulAlgoGetHeuristic),
                 cublasStatus_t(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                cublasLtMatmulHeuristicResult_t*, int*)>);
static_assert(
    is_signature<decltype(&cublasLtMatmulAlgoConfigGetAttribute),
                 cublasStatus_t(const cublasLtMatmulAlgo_t*, cublasLtMatmulAlgoConfigAttributes_t,
                                void*, size_t, size_t*)>);
static_assert(
    is_signature<decltype(&cublasLtMatmul),
                 cublasStatus_t(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*,
                                cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t,
                                const void*, const void*, cublasLtMatrixLayout_t, void*,
                                cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t,
                                cudaStream_t)>);

}  // namespace
