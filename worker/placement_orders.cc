#include "worker/placement_orders.h"

#include "base/error.h"

namespace colibri {
namespace {

constexpr int64_t kTextTimeoutMs = 30000;   // a placement that was announced
constexpr int64_t kStatusTimeoutMs = 5000;  // the status before

}  // namespace

PlacementOrders::PlacementOrders(Transport& transport, ExpertHolder* holder, int coordinator)
    : transport_(transport), holder_(holder), coordinator_(coordinator) {}

bool PlacementOrders::obey(const ControlView& command) {
  const bool begins = command.kind() == ControlKind::kChangePlacement;
  if (!begins && command.kind() != ControlKind::kEndChange) return false;
  if (holder_ == nullptr) {
    fail(ErrorKind::kInput, "rank ", coordinator_,
         " orders other experts, this worker's are fixed");
  }
  if (begins) {
    receive_placement(command.as<ChangePlacementBody>());
  } else {
    end_change(command.as<EndChangeBody>().is_adopted != 0);
  }
  return true;
}

void PlacementOrders::receive_placement(const ChangePlacementBody& order) {
  const auto text = std::make_shared<std::vector<char>>(order.text_bytes);
  transport_.keep(text);
  const RecvOp recv{coordinator_, Channel::kStartup, text->data(), text->size()};
  const Pending pending = transport_.post({{}, {&recv, 1}}, nullptr);
  transport_.wait({&pending, 1}, Deadline::after_ms(kTextTimeoutMs), "a placement");
  const size_t bytes = transport_.take_received_bytes(pending).at(0);
  is_reading_ = true;
  try {
    holder_->begin_change({text->data(), bytes}, order.is_urgent != 0);
  } catch (const Error& error) {
    is_reading_ = false;
    tell(encode_error(transport_.rank(), transport_.epoch(), {error.kind(), error.what()}));
  }
}

void PlacementOrders::look() {
  if (is_reading_) tell_outcome();
}

void PlacementOrders::tell_outcome() {
  try {
    if (!holder_->is_change_read()) return;
    tell(encode_control(transport_.rank(), transport_.epoch(), StatusBody{}));
  } catch (const Error& error) {
    holder_->drop_change();
    tell(encode_error(transport_.rank(), transport_.epoch(), {error.kind(), error.what()}));
  }
  is_reading_ = false;
}

void PlacementOrders::end_change(bool is_adopted) {
  if (is_adopted) {
    holder_->adopt_change();
  } else {
    holder_->drop_change();
    is_reading_ = false;
  }
  tell(encode_control(transport_.rank(), transport_.epoch(), StatusBody{}));
}

void PlacementOrders::begin_epoch() {
  status_pending_ = {};
  is_reading_ = false;
  if (status_) transport_.keep(status_);  // it may be under way still
  tell(encode_control(transport_.rank(), transport_.epoch(), StatusBody{}));
}

void PlacementOrders::tell(const std::vector<std::byte>& status) {
  if (status_pending_.id != 0) {
    transport_.wait({&status_pending_, 1}, Deadline::after_ms(kStatusTimeoutMs), "a status");
  }
  status_ = std::make_shared<std::vector<std::byte>>(status);
  const SendOp send{coordinator_, Channel::kControl, status_->data(), status_->size()};
  status_pending_ = transport_.post({{&send, 1}, {}}, nullptr);
}

}  // namespace colibri
