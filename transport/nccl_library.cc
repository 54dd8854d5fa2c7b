// The functions of NCCL that nccl_comm.cc calls, passed on to the library opened here.
#include "transport/nccl_library.h"

#include <dlfcn.h>
#include <nccl.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace colibri {
namespace {

void* open_library() {
  const std::string name = "libnccl.so." + std::to_string(NCCL_MAJOR);
  std::vector<std::string> roots = {"/usr/local/cuda"};
  if (const char* path = std::getenv("CUDA_PATH")) roots.insert(roots.begin(), path);
  std::vector<std::string> places = {name};
  for (const std::string& root : roots) {
    for (const char* folder : {"/lib64/", "/lib/"}) places.push_back(root + folder + name);
  }
  for (const std::string& place : places) {
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

void* library() {
  static void* const opened = open_library();
  return opened;
}

// The library's own function of this name.
template <class Function>
Function* function(const char* name) {
  if (library() == nullptr) return nullptr;
  return reinterpret_cast<Function*>(dlsym(library(), name));
}

// Calls `known`, or says that there is nothing to call.
template <class... Parameters, class... Arguments>
ncclResult_t pass_on(ncclResult_t (*known)(Parameters...), Arguments... arguments) {
  return known == nullptr ? ncclSystemError : known(arguments...);
}
template <class Parameter>
const char* pass_on(const char* (*known)(Parameter), Parameter argument) {
  return known == nullptr ? "NCCL is not here" : known(argument);
}

}  // namespace

bool nccl_can_be_called() { return library() != nullptr; }

}  // namespace colibri

using colibri::function;
using colibri::pass_on;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  static const auto known = function<decltype(ncclGetVersion)>("ncclGetVersion");
  return pass_on(known, version);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static const auto known = function<decltype(ncclGetUniqueId)>("ncclGetUniqueId");
  return pass_on(known, id);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  static const auto known = function<decltype(ncclCommInitRankConfig)>("ncclCommInitRankConfig");
  return pass_on(known, comm, num_ranks, id, rank, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  static const auto known = function<decltype(ncclCommFinalize)>("ncclCommFinalize");
  return pass_on(known, comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  static const auto known = function<decltype(ncclCommDestroy)>("ncclCommDestroy");
  return pass_on(known, comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  static const auto known = function<decltype(ncclCommAbort)>("ncclCommAbort");
  return pass_on(known, comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  static const auto known = function<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError");
  return pass_on(known, comm, error);
}

const char* ncclGetErrorString(ncclResult_t result) {
  static const auto known = function<decltype(ncclGetErrorString)>("ncclGetErrorString");
  return pass_on(known, result);
}

const char* ncclGetLastError(ncclComm_t comm) {
  static const auto known = function<decltype(ncclGetLastError)>("ncclGetLastError");
  return pass_on(known, comm);
}

ncclResult_t ncclGroupStart() {
  static const auto known = function<decltype(ncclGroupStart)>("ncclGroupStart");
  return pass_on(known);
}

ncclResult_t ncclGroupEnd() {
  static const auto known = function<decltype(ncclGroupEnd)>("ncclGroupEnd");
  return pass_on(known);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  static const auto known = function<decltype(ncclSend)>("ncclSend");
  return pass_on(known, data, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  static const auto known = function<decltype(ncclRecv)>("ncclRecv");
  return pass_on(known, data, count, type, peer, comm, stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  static const auto known = function<decltype(ncclBroadcast)>("ncclBroadcast");
  return pass_on(known, from, to, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  static const auto known = function<decltype(ncclAllGather)>("ncclAllGather");
  return pass_on(known, from, to, count, type, comm, stream);
}

}  // extern "C"
