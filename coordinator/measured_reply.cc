#include "coordinator/measured_reply.h"

#include <chrono>
#include <utility>

namespace colibri {
namespace {

class MeasuredReply : public HttpReply {
 public:
  MeasuredReply(std::shared_ptr<HttpReply> reply, OnAnswered on_answered)
      : reply_(std::move(reply)), on_answered_(std::move(on_answered)) {}
  ~MeasuredReply() override { tell(); }

  void send(int status, const HttpHeaders& headers, std::string body) override {
    status_ = status;
    tell();  // first, so that whoever reads the answer finds it counted
    reply_->send(status, headers, std::move(body));
  }
  void begin(int status, const HttpHeaders& headers) override {
    status_ = status;
    reply_->begin(status, headers);
  }
  bool write(std::string piece) override { return reply_->write(std::move(piece)); }
  void end() override {
    tell();
    reply_->end();
  }
  bool is_gone() const override { return reply_->is_gone(); }

 private:
  void tell() {
    if (!on_answered_) return;
    const auto took = std::chrono::steady_clock::now() - start_;
    std::exchange(on_answered_, {})(status_, std::chrono::duration<double>(took).count());
  }

  std::shared_ptr<HttpReply> reply_;
  OnAnswered on_answered_;
  int status_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::shared_ptr<HttpReply> measured_reply(std::shared_ptr<HttpReply> reply,
                                          OnAnswered on_answered) {
  return std::make_shared<MeasuredReply>(std::move(reply), std::move(on_answered));
}

}  // namespace colibri
