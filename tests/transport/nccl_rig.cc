#include "tests/transport/nccl_rig.h"

#include <numeric>

#include "base/deadline.h"

namespace colibri {

std::vector<int32_t> count_from(int32_t first, size_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  expect_that(ncclGetUniqueId(&id) == ncclSuccess, "an id is made");
  return id;
}

NcclRig::NcclRig(int ordinal, int num_ranks, int rank, const ncclUniqueId& id, bool is_blocking)
    : device(make_cuda_device(ordinal)), stream(device->make_stream()) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = is_blocking ? 1 : 0;
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, num_ranks, id, rank, &config);
  expect_that(begun == ncclSuccess || begun == ncclInProgress || comm != nullptr, "init begins");
  const Deadline deadline = Deadline::after_ms(20000);
  while (async_error() == ncclInProgress) expect_that(!deadline.expired(), "init ends");
  if (async_error() == ncclSuccess) return;
  const std::string text = ncclGetLastError(comm);
  ncclCommAbort(comm);
  throw std::runtime_error(text);
}

NcclRig::~NcclRig() {
  if (comm != nullptr) ncclCommDestroy(comm);
}

ncclResult_t NcclRig::async_error() {
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(comm, &error);
  return error;
}

bool NcclRig::runs_dry_within(int64_t ms) {
  const Deadline deadline = Deadline::after_ms(ms);
  while (cudaStreamQuery(native()) == cudaErrorNotReady) {
    if (comm != nullptr) async_error();
    if (deadline.expired()) return false;
  }
  return true;
}

void NcclRig::abort() { ncclCommAbort(std::exchange(comm, nullptr)); }

}  // namespace colibri
