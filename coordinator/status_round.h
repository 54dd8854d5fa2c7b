// An order to workers, each of which answers with a status (transport/control.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/control.h"
#include "transport/transport.h"

namespace colibri {

class StatusRound {
 public:
  struct Order {
    std::vector<int> workers;
    std::vector<std::byte> order;  // a control message
    std::string text = {};         // not empty: its bytes follow on Channel::kStartup
    // Of an order to move to that epoch: answered there, and the transport has moved when the
    // constructor returns.
    std::optional<uint32_t> answered_under = {};
  };
  // Sends the order to every worker, and waits for nothing.
  StatusRound(Transport& transport, Order order);
  // What is under way stays alive as long as the transport.
  ~StatusRound();
  StatusRound(const StatusRound&) = delete;
  StatusRound& operator=(const StatusRound&) = delete;

  // True once every worker has answered. Never blocks. Errors: as Transport::test; kInput for an
  // answer that is no status.
  bool is_answered();
  // Waits for all. Errors: as Transport::wait.
  void wait(const Deadline& deadline, const std::string& what);
  // Workers that have not answered.
  std::vector<int> silent_ranks() const;
  // The first worker that answered with an error, and what it said.
  struct Refusal {
    int rank = 0;
    ErrorInfo error;
  };
  const std::optional<Refusal>& refusal() const { return refusal_; }

 private:
  struct Worker {
    int rank = 0;
    Pending pending;
    std::vector<std::byte> answer;
    bool has_answered = false;
  };
  struct Messages {
    std::vector<std::byte> order;
    std::string text;
    std::vector<Worker> workers;
  };

  void send();
  void receive(Worker& worker);
  void take(Worker& worker);

  Transport& transport_;
  std::shared_ptr<Messages> messages_;
  std::vector<Pending> sends_;
  std::optional<Refusal> refusal_;
};

}  // namespace colibri
