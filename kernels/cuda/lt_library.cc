// The functions of cuBLASLt that lt_product.cc calls, passed on to the library opened here.
#include "kernels/cuda/lt_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace colibri::cuda {
namespace {

struct Library {
  void* handle = nullptr;
  std::string problem = {};
};

Library open_library() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> roots = {"/usr/local/cuda"};
  if (const char* path = std::getenv("CUDA_PATH")) roots.insert(roots.begin(), path);
  std::vector<std::string> places = {name};
  for (const std::string& root : roots) {
    for (const char* folder : {"/lib64/", "/lib/"}) places.push_back(root + folder + name);
  }
  std::string first_words;
  for (const std::string& place : places) {
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle};
    if (first_words.empty()) first_words = dlerror();
  }
  return {nullptr, first_words + "; LD_LIBRARY_PATH or CUDA_PATH can say where it is"};
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

// The library's own function of this name.
template <class Function>
Function* function(const char* name) {
  if (library().handle == nullptr) return nullptr;
  return reinterpret_cast<Function*>(dlsym(library().handle, name));
}

// Calls `known`, or says that there is nothing to call.
template <class... Parameters, class... Arguments>
cublasStatus_t pass_on(cublasStatus_t (*known)(Parameters...), Arguments... arguments) {
  return known == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : known(arguments...);
}

}  // namespace

const std::string& cublaslt_problem() { return library().problem; }

}  // namespace colibri::cuda

using colibri::cuda::function;
using colibri::cuda::pass_on;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static const auto known = function<decltype(cublasLtCreate)>("cublasLtCreate");
  return pass_on(known, handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  static const auto known = function<decltype(cublasLtDestroy)>("cublasLtDestroy");
  return pass_on(known, handle);
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  static const auto known = function<decltype(cublasLtGetStatusName)>("cublasLtGetStatusName");
  return known == nullptr ? "cuBLASLt is not here" : known(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  static const auto known =
      function<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  return pass_on(known, desc, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  static const auto known =
      function<decltype(cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  return pass_on(known, desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  static const auto known =
      function<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  return pass_on(known, desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t leading) {
  static const auto known =
      function<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  return pass_on(known, layout, type, rows, cols, leading);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  static const auto known =
      function<decltype(cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  return pass_on(known, layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  static const auto known =
      function<decltype(cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  return pass_on(known, preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  static const auto known =
      function<decltype(cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  return pass_on(known, preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  static const auto known = function<decltype(cublasLtMatmulPreferenceSetAttribute)>(
      "cublasLtMatmulPreferenceSetAttribute");
  return pass_on(known, preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int count,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  static const auto known =
      function<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  return pass_on(known, handle, desc, a, b, c, d, preference, count, results, found);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  static const auto known = function<decltype(cublasLtMatmulAlgoConfigGetAttribute)>(
      "cublasLtMatmulAlgoConfigGetAttribute");
  return pass_on(known, algo, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  static const auto known = function<decltype(cublasLtMatmul)>("cublasLtMatmul");
  return pass_on(known, handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                 d_layout, algo, workspace, workspace_bytes, stream);
}

}  // extern "C"
