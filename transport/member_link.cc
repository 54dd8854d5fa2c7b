#include "transport/member_link.h"

#include <utility>

#include "base/error.h"

namespace colibri {
namespace {

constexpr int kNotAMember = -1;

class MemberLink : public DeviceLink {
 public:
  MemberLink(std::unique_ptr<DeviceLink> inner, std::vector<int> members, int num_ranks)
      : inner_(std::move(inner)),
        members_(std::move(members)),
        inner_of_(static_cast<size_t>(num_ranks), kNotAMember) {
    check(static_cast<int>(members_.size()) == inner_->size(), members_.size(),
          " members of a link of ", inner_->size());
    for (size_t i = 0; i < members_.size(); ++i) {
      inner_of_.at(static_cast<size_t>(members_[i])) = static_cast<int>(i);
    }
  }

  int rank() const override { return members_[static_cast<size_t>(inner_->rank())]; }
  int size() const override { return static_cast<int>(inner_of_.size()); }
  bool can_be_captured() const override { return inner_->can_be_captured(); }
  bool reaches(int rank) const override {
    return inner_of_[static_cast<size_t>(rank)] != kNotAMember;
  }
  void abandon() override { inner_->abandon(); }

  void post(std::span<const DeviceSend> sends, std::span<const DeviceRecv> recvs,
            Stream& stream) override {
    sends_.clear();
    recvs_.clear();
    for (const DeviceSend& send : sends) {
      if (reaches(send.peer)) sends_.push_back({inner_rank(send.peer), send.data, send.bytes});
    }
    for (const DeviceRecv& recv : recvs) {
      if (reaches(recv.peer)) recvs_.push_back({inner_rank(recv.peer), recv.data, recv.bytes});
    }
    inner_->post(sends_, recvs_, stream);
  }
  using DeviceLink::wait;
  void wait(Stream& stream, const Deadline& deadline, const std::string& what,
            const std::function<void()>& meanwhile) override {
    inner_->wait(stream, deadline, what, meanwhile);
  }

 private:
  int inner_rank(int rank) const { return inner_of_[static_cast<size_t>(rank)]; }

  std::unique_ptr<DeviceLink> inner_;
  std::vector<int> members_;
  std::vector<int> inner_of_;  // [R]
  std::vector<DeviceSend> sends_;
  std::vector<DeviceRecv> recvs_;
};

}  // namespace

std::unique_ptr<DeviceLink> make_member_link(std::unique_ptr<DeviceLink> inner,
                                             std::vector<int> members, int num_ranks) {
  return std::make_unique<MemberLink>(std::move(inner), std::move(members), num_ranks);
}

}  // namespace colibri
