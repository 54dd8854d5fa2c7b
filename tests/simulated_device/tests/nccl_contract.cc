// What the simulated device's nccl.h says, compiled twice: against it, and, where it is installed,
// against the library's own header. It says the same of both.
#include <nccl.h>

#include <climits>
#include <cstddef>
#include <type_traits>

namespace {

template <auto kValue, long long kWant>
constexpr bool is_value = static_cast<long long>(kValue) == kWant;
template <class Pointer, class Want>
constexpr bool is_signature = std::is_same_v<std::remove_pointer_t<Pointer>, Want>;

static_assert(is_value<ncclSuccess, 0>);
static_assert(is_value<ncclUnhandledCudaError, 1>);
static_assert(is_value<ncclSystemError, 2>);
static_assert(is_value<ncclInternalError, 3>);
static_assert(is_value<ncclInvalidArgument, 4>);
static_assert(is_value<ncclInvalidUsage, 5>);
static_assert(is_value<ncclRemoteError, 6>);
static_assert(is_value<ncclInProgress, 7>);
static_assert(is_value<ncclNumResults, 8>);
static_assert(is_value<ncclSum, 0>);
static_assert(is_value<ncclProd, 1>);
static_assert(is_value<ncclMax, 2>);
static_assert(is_value<ncclMin, 3>);
static_assert(is_value<ncclAvg, 4>);
static_assert(is_value<ncclNumOps, 5>);
static_assert(is_value<ncclInt8, 0>);
static_assert(is_value<ncclChar, 0>);
static_assert(is_value<ncclUint8, 1>);
static_assert(is_value<ncclInt32, 2>);
static_assert(is_value<ncclInt, 2>);
static_assert(is_value<ncclUint32, 3>);
static_assert(is_value<ncclInt64, 4>);
static_assert(is_value<ncclUint64, 5>);
static_assert(is_value<ncclFloat16, 6>);
static_assert(is_value<ncclHalf, 6>);
static_assert(is_value<ncclFloat32, 7>);
static_assert(is_value<ncclFloat, 7>);
static_assert(is_value<ncclFloat64, 8>);
static_assert(is_value<ncclDouble, 8>);
static_assert(is_value<ncclBfloat16, 9>);
static_assert(is_value<ncclFloat8e4m3, 10>);
static_assert(is_value<ncclFloat8e5m2, 11>);
static_assert(is_value<ncclNumTypes, 12>);

static_assert(NCCL_VERSION(2, 28, 9) == 22809);
static_assert(NCCL_UNIQUE_ID_BYTES == 128 && sizeof(ncclUniqueId) == 128);
static_assert(NCCL_SHRINK_DEFAULT == 0 && NCCL_SHRINK_ABORT == 1);
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);
static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16 && offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, nvlinkCentricSched) == 76 && sizeof(ncclConfig_t) == 80);
constexpr ncclConfig_t kInitial = NCCL_CONFIG_INITIALIZER;
static_assert(kInitial.size == 80 && kInitial.magic == 0xcafebeef && kInitial.blocking == INT_MIN &&
              kInitial.nvlinkCentricSched == INT_MIN);

static_assert(is_signature<decltype(&ncclMemAlloc), ncclResult_t(void**, size_t)>);
static_assert(is_signature<decltype(&ncclMemFree), ncclResult_t(void*)>);
static_assert(is_signature<decltype(&ncclGetVersion), ncclResult_t(int*)>);
static_assert(is_signature<decltype(&ncclGetUniqueId), ncclResult_t(ncclUniqueId*)>);
static_assert(is_signature<decltype(&ncclCommInitRankConfig),
                           ncclResult_t(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*)>);
static_assert(is_signature<decltype(&ncclCommFinalize), ncclResult_t(ncclComm_t)>);
static_assert(is_signature<decltype(&ncclCommDestroy), ncclResult_t(ncclComm_t)>);
static_assert(is_signature<decltype(&ncclCommAbort), ncclResult_t(ncclComm_t)>);
static_assert(is_signature<decltype(&ncclCommShrink),
                           ncclResult_t(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)>);
static_assert(is_signature<decltype(&ncclGetErrorString), const char*(ncclResult_t)>);
static_assert(is_signature<decltype(&ncclGetLastError), const char*(ncclComm_t)>);
static_assert(
    is_signature<decltype(&ncclCommGetAsyncError), ncclResult_t(ncclComm_t, ncclResult_t*)>);
static_assert(is_signature<decltype(&ncclCommCount), ncclResult_t(const ncclComm_t, int*)>);
static_assert(is_signature<decltype(&ncclCommCuDevice), ncclResult_t(const ncclComm_t, int*)>);
static_assert(is_signature<decltype(&ncclCommUserRank), ncclResult_t(const ncclComm_t, int*)>);
static_assert(is_signature<decltype(&ncclCommRegister),
                           ncclResult_t(const ncclComm_t, void*, size_t, void**)>);
static_assert(is_signature<decltype(&ncclCommDeregister), ncclResult_t(const ncclComm_t, void*)>);
static_assert(
    is_signature<decltype(&ncclBroadcast), ncclResult_t(const void*, void*, size_t, ncclDataType_t,
                                                        int, ncclComm_t, cudaStream_t)>);
static_assert(
    is_signature<decltype(&ncclAllReduce), ncclResult_t(const void*, void*, size_t, ncclDataType_t,
                                                        ncclRedOp_t, ncclComm_t, cudaStream_t)>);
static_assert(
    is_signature<decltype(&ncclAllGather), ncclResult_t(const void*, void*, size_t, ncclDataType_t,
                                                        ncclComm_t, cudaStream_t)>);
static_assert(is_signature<decltype(&ncclSend), ncclResult_t(const void*, size_t, ncclDataType_t,
                                                             int, ncclComm_t, cudaStream_t)>);
static_assert(is_signature<decltype(&ncclRecv), ncclResult_t(void*, size_t, ncclDataType_t, int,
                                                             ncclComm_t, cudaStream_t)>);
static_assert(is_signature<decltype(&ncclGroupStart), ncclResult_t()>);
static_assert(is_signature<decltype(&ncclGroupEnd), ncclResult_t()>);

}  // namespace
