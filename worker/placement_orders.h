// What a worker does about the coordinator's orders to hold other experts (transport/control.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/control.h"
#include "transport/expert_exchange.h"
#include "transport/transport.h"

namespace colibri {

class PlacementOrders {
 public:
  // `transport` and `holder` outlive it; without a holder every order is refused.
  PlacementOrders(Transport& transport, ExpertHolder* holder, int coordinator);

  // Obeys kChangePlacement and kEndChange; false for any other command. What goes wrong with the
  // change itself is told to the coordinator. True also means that slots may have changed.
  // Errors: those of Transport::wait; kInput without a holder.
  bool obey(const ControlView& command);
  // Tells the coordinator once that a change has been read. Call it often. Never blocks long.
  void look();
  // Under the new epoch: an order that came before is void.
  void begin_epoch();

 private:
  void receive_placement(const ChangePlacementBody& order);
  void end_change(bool is_adopted);
  void tell(const std::vector<std::byte>& status);
  void tell_outcome();

  Transport& transport_;
  ExpertHolder* holder_;
  int coordinator_;
  bool is_reading_ = false;
  std::shared_ptr<std::vector<std::byte>> status_;
  Pending status_pending_;
};

}  // namespace colibri
