#include "base/error.h"
#include "transport/nccl_comm.h"

namespace colibri {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::kUnsupported,
       "this build has no NCCL; configure with -DCOLIBRI_NCCL_ROOT=DIR, where DIR holds "
       "include/nccl.h, or use --transport mpi");
}

}  // namespace

bool has_nccl() { return false; }
std::string nccl_version() { refuse(); }
NcclId share_nccl_id(Transport&, const Deadline&) { refuse(); }
NcclId make_nccl_id() { refuse(); }
std::unique_ptr<NcclComm> make_nccl_comm(Device&, const NcclOptions&) { refuse(); }

}  // namespace colibri
