#include "base/error.h"
#include "transport/mpi_transport.h"

namespace colibri {

std::unique_ptr<MpiTransport> make_mpi_transport(const MpiOptions&) {
  fail(ErrorKind::kUnsupported,
       "this build has no MPI, so ranks cannot be processes; configure with -DCOLIBRI_MPI=on "
       "(Debian package libopenmpi-dev) or use --transport local");
}

bool has_mpi() { return false; }

}  // namespace colibri
