// The simulated cuBLASLt: descriptors, what is refused, and the way onto the stream.
#include "cublasLt.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cublaslt_algorithms.h"
#include "simulated_stream.h"

struct cublasLtContext {
  int device = 0;
};

namespace {

using colibri_sim::LtAlgorithm;
using colibri_sim::LtProduct;

constexpr uint64_t kAlgoMagic = 0x1A60C0DE;

// What stands in the opaque structs.
struct Layout {
  uint64_t rows, cols;
  int64_t ld;
  cudaDataType type;
};
struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale;
  int32_t transa, transb;
};
struct Preference {
  uint64_t workspace_bytes;
  uint32_t reduction_mask;
  uint32_t alignment[4];  // of A, B, C, D
};
struct Algo {
  uint64_t magic;
  uint32_t id;
  uint32_t alignment;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

template <class Inside, class Opaque>
Inside read(const Opaque* opaque) {
  Inside inside;
  std::memcpy(&inside, opaque->data, sizeof inside);
  return inside;
}
template <class Inside, class Opaque>
void write(Opaque* opaque, const Inside& inside) {
  std::memset(opaque->data, 0, sizeof opaque->data);
  std::memcpy(opaque->data, &inside, sizeof inside);
}
template <class Inside, class Opaque>
cublasStatus_t create(Opaque** opaque, const Inside& inside) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = new Opaque;
  write(*opaque, inside);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refuse(cublasStatus_t status, const char* reason) {
  std::fprintf(stderr, "simulated cuBLASLt: %s: %s\n", cublasLtGetStatusName(status), reason);
  return status;
}

struct Layouts {
  cublasLtMatrixLayout_t a, b, c, d;
};

size_t bytes_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

// The shape of a product, or why there is none.
cublasStatus_t check_shape(cublasLtMatmulDesc_t desc, const Layouts& layouts, LtProduct& product) {
  if (!desc || !layouts.a || !layouts.b || !layouts.c || !layouts.d) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor is null");
  }
  const auto operation = read<Operation>(desc);
  const auto a = read<Layout>(layouts.a), b = read<Layout>(layouts.b), c = read<Layout>(layouts.c),
             d = read<Layout>(layouts.d);
  for (const Layout& layout : {a, b, c, d}) {
    if (layout.rows == 0 || layout.cols == 0 || layout.ld < static_cast<int64_t>(layout.rows)) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    "a matrix is empty or its leading dimension is less than its rows");
    }
  }
  if (operation.scale != CUDA_R_32F || a.type != b.type || c.type != CUDA_R_32F ||
      d.type != CUDA_R_32F || (a.type != CUDA_R_32F && a.type != CUDA_R_16BF) ||
      operation.compute != CUBLAS_COMPUTE_32F) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "this combination of types");
  }
  const uint64_t m = operation.transa == CUBLAS_OP_N ? a.rows : a.cols;
  const uint64_t k = operation.transa == CUBLAS_OP_N ? a.cols : a.rows;
  const uint64_t n = operation.transb == CUBLAS_OP_N ? b.cols : b.rows;
  if ((operation.transb == CUBLAS_OP_N ? b.rows : b.cols) != k || d.rows != m || d.cols != n ||
      c.rows != m || c.cols != n) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the shapes of A, B, C and D do not match");
  }
  product.a = {nullptr, a.type, operation.transa != CUBLAS_OP_N, a.ld};
  product.b = {nullptr, b.type, operation.transb != CUBLAS_OP_N, b.ld};
  product.d_ld = d.ld;
  product.m = static_cast<int64_t>(m);
  product.n = static_cast<int64_t>(n);
  product.k = static_cast<int64_t>(k);
  return CUBLAS_STATUS_SUCCESS;
}

// Bytes to which every pointer must be aligned.
uint32_t wanted_alignment(LtAlgorithm algorithm, const Preference& preference) {
  if (algorithm == LtAlgorithm::kByDepthVector) return 16;
  if (algorithm != LtAlgorithm::kByDepthWide) return 4;
  return *std::min_element(std::begin(preference.alignment), std::end(preference.alignment));
}

bool pitches_fit(const LtProduct& p, uint32_t alignment) {
  const auto fits = [&](int64_t ld, cudaDataType type) {
    return static_cast<size_t>(ld) * bytes_of(type) % alignment == 0;
  };
  return fits(p.a.ld, p.a.type) && fits(p.b.ld, p.b.type) && fits(p.d_ld, CUDA_R_32F);
}

bool is_offered(LtAlgorithm algorithm, const LtProduct& product, const Preference& preference) {
  const auto bytes = colibri_sim::lt_workspace_bytes(algorithm, product.m, product.n);
  if (static_cast<uint64_t>(bytes) > preference.workspace_bytes) return false;
  const bool reduces = algorithm == LtAlgorithm::kSplitDepth;
  if (reduces && !(preference.reduction_mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) {
    return false;
  }
  if (algorithm != LtAlgorithm::kByDepthVector) return true;
  const auto least =
      *std::min_element(std::begin(preference.alignment), std::end(preference.alignment));
  return least >= 16 && pitches_fit(product, 16);
}

constexpr Preference kNoPreference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};

cublasStatus_t check_pointers(const LtProduct& p, const Algo& algo, const void* workspace,
                              size_t workspace_bytes) {
  for (const void* pointer : {p.a.data, p.b.data, static_cast<const void*>(p.d)}) {
    if (reinterpret_cast<uintptr_t>(pointer) % algo.alignment != 0) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix is not aligned as the algorithm wants");
    }
  }
  if (p.algorithm == LtAlgorithm::kByDepthVector && !pitches_fit(p, 16)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a leading dimension is not aligned");
  }
  const auto wanted = colibri_sim::lt_workspace_bytes(p.algorithm, p.m, p.n);
  if (workspace_bytes < static_cast<size_t>(wanted)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is too small for the algorithm");
  }
  if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 16 bytes");
  }
  int device = 0;
  cudaGetDevice(&device);
  const auto extent = [](int64_t rows, int64_t cols, int64_t ld, size_t element) {
    return static_cast<size_t>((cols - 1) * ld + rows) * element;
  };
  const size_t a_bytes = p.a.is_transposed ? extent(p.k, p.m, p.a.ld, bytes_of(p.a.type))
                                           : extent(p.m, p.k, p.a.ld, bytes_of(p.a.type));
  const size_t b_bytes = p.b.is_transposed ? extent(p.n, p.k, p.b.ld, bytes_of(p.b.type))
                                           : extent(p.k, p.n, p.b.ld, bytes_of(p.b.type));
  if (!colibri_sim::is_device_memory(p.a.data, a_bytes, device) ||
      !colibri_sim::is_device_memory(p.b.data, b_bytes, device) ||
      !colibri_sim::is_device_memory(p.d, extent(p.m, p.n, p.d_ld, 4), device)) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "a matrix leaves the device's memory");
  }
  if (wanted > 0 &&
      !colibri_sim::is_device_memory(workspace, static_cast<size_t>(wanted), device)) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "the workspace is not device memory");
  }
  return CUBLAS_STATUS_SUCCESS;
}

class ProductWork : public colibri_sim::StreamWork {
 public:
  explicit ProductWork(const LtProduct& product) : product_(product) {}
  bool step() override {
    colibri_sim::lt_multiply(product_);
    return true;
  }

 private:
  LtProduct product_;
};

Algo make_algo(LtAlgorithm algorithm, const Preference& preference) {
  return {kAlgoMagic, static_cast<uint32_t>(algorithm), wanted_alignment(algorithm, preference)};
}

template <class T>
cublasStatus_t assign(T& field, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof field) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of another size");
  }
  std::memcpy(&field, value, sizeof field);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}

size_t cublasLtGetVersion(void) { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  return create(layout, Layout{rows, cols, ld, type});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(desc, Operation{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void* value, size_t bytes) {
  if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto operation = read<Operation>(desc);
  const cublasStatus_t status = assign(
      attr == CUBLASLT_MATMUL_DESC_TRANSA ? operation.transa : operation.transb, value, bytes);
  write(desc, operation);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, kNoPreference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* value, size_t bytes) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto preference = read<Preference>(opaque);
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      status = assign(preference.workspace_bytes, value, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      status = assign(preference.reduction_mask, value, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      status = assign(preference.alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                      value, bytes);
      break;
  }
  write(opaque, preference);
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t opaque, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* num_results) {
  if (handle == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the handle is null");
  if (wanted <= 0 || results == nullptr || num_results == nullptr || opaque == nullptr) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "no room for the heuristic's results");
  }
  *num_results = 0;
  LtProduct product;
  const cublasStatus_t status = check_shape(desc, {a, b, c, d}, product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const auto preference = read<Preference>(opaque);
  for (const LtAlgorithm algorithm :
       colibri_sim::lt_heuristic_order(product.m, product.n, product.k)) {
    if (*num_results == wanted) break;
    if (!is_offered(algorithm, product, preference)) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*num_results)++];
    result = {};
    write(&result.algo, make_algo(algorithm, preference));
    result.workspaceSize =
        static_cast<size_t>(colibri_sim::lt_workspace_bytes(algorithm, product.m, product.n));
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *num_results > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* opaque,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    void* value, size_t bytes, size_t* written) {
  if (opaque == nullptr || value == nullptr || bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
  const auto algo = read<Algo>(opaque);
  uint32_t out = 0;
  if (attr == CUBLASLT_ALGO_CONFIG_ID) out = algo.id;
  if (attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) {
    out = algo.id == static_cast<uint32_t>(LtAlgorithm::kSplitDepth) ? 4 : 1;
  }
  std::memcpy(value, &out, bytes);
  if (written != nullptr) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* opaque,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the handle is null");
  if (!alpha || !beta || !a || !b || !c || !d) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a pointer is null");
  }
  LtProduct product;
  cublasStatus_t status = check_shape(desc, {a_layout, b_layout, c_layout, d_layout}, product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the stand-in wants alpha 1 and beta 0");
  }
  const LtAlgorithm first = colibri_sim::lt_heuristic_order(product.m, product.n, product.k)[0];
  const Algo algo = opaque != nullptr ? read<Algo>(opaque) : make_algo(first, {0, 0, {4, 4, 4, 4}});
  if (algo.magic != kAlgoMagic) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm that no heuristic gave");
  }
  product.algorithm = static_cast<LtAlgorithm>(algo.id);
  product.a.data = a;
  product.b.data = b;
  product.d = static_cast<float*>(d);
  status = check_pointers(product, algo, workspace, workspace_bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const cudaError_t error =
      colibri_sim::enqueue(stream, [product] { return std::make_unique<ProductWork>(product); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
