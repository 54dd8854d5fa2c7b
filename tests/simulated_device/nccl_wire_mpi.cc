#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>

#include "nccl_wire.h"

namespace colibri_sim {
namespace {

struct Flight {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

// Messages that nobody waits for any more, but MPI does.
std::vector<std::unique_ptr<Flight>>& abandoned() {
  static auto* flights = new std::vector<std::unique_ptr<Flight>>;
  return *flights;
}

class MpiMessage : public WireMessage {
 public:
  explicit MpiMessage(std::unique_ptr<Flight> flight) : flight_(std::move(flight)) {}
  ~MpiMessage() override {
    if (flight_->request != MPI_REQUEST_NULL) abandoned().push_back(std::move(flight_));
  }
  MpiMessage(const MpiMessage&) = delete;
  MpiMessage& operator=(const MpiMessage&) = delete;

  WireState test() override {
    int is_done = 0;
    if (MPI_Test(&flight_->request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return WireState::kFailed;
    }
    return is_done != 0 ? WireState::kDone : WireState::kPending;
  }
  std::vector<std::byte>& bytes() override { return flight_->bytes; }

 private:
  std::unique_ptr<Flight> flight_;
};

}  // namespace

bool wire_is_up() {
  int is_started = 0, is_ended = 0, has_bound = 0;
  int* bound = nullptr;
  MPI_Initialized(&is_started);
  if (is_started == 0) return false;
  MPI_Finalized(&is_ended);
  if (is_ended != 0) return false;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &has_bound);
  return has_bound != 0 && *bound == INT_MAX;
}

int wire_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

std::unique_ptr<WireMessage> wire_send(int world_rank, int tag, std::vector<std::byte> bytes) {
  auto flight = std::make_unique<Flight>();
  flight->bytes = std::move(bytes);
  MPI_Issend(flight->bytes.data(), static_cast<int>(flight->bytes.size()), MPI_BYTE, world_rank,
             tag, MPI_COMM_WORLD, &flight->request);
  return std::make_unique<MpiMessage>(std::move(flight));
}

std::unique_ptr<WireMessage> wire_take(int world_rank, int tag) {
  int is_there = 0, size = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  const int from = world_rank < 0 ? MPI_ANY_SOURCE : world_rank;
  if (MPI_Improbe(from, tag, MPI_COMM_WORLD, &is_there, &message, &status) != MPI_SUCCESS ||
      is_there == 0) {
    return nullptr;
  }
  MPI_Get_count(&status, MPI_BYTE, &size);
  auto flight = std::make_unique<Flight>();
  flight->bytes.resize(static_cast<size_t>(size));
  MPI_Imrecv(flight->bytes.data(), size, MPI_BYTE, &message, &flight->request);
  return std::make_unique<MpiMessage>(std::move(flight));
}

}  // namespace colibri_sim
