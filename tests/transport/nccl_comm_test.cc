// The communicator with one rank: on the simulated device, or on a GPU where there is one.
#include "transport/nccl_comm.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/buffer.h"
#include "base/cuda_device.h"
#include "base/error.h"

namespace colibri {
namespace {

class NcclCommTest : public testing::Test {
 protected:
  NcclComm& comm(NcclOptions options = {}) {
    options.id = make_nccl_id();
    comm_ = make_nccl_comm(*device_, options);
    return *comm_;
  }
  std::vector<int32_t> read(const Buffer& buffer) {
    std::vector<int32_t> values(buffer.size_bytes() / sizeof(int32_t));
    device_->copy(values.data(), buffer.data(), buffer.size_bytes(), *stream_);
    stream_->synchronize();
    return values;
  }
  Buffer on_device(const std::vector<int32_t>& values) {
    Buffer buffer(*device_, values.size() * sizeof(int32_t));
    device_->copy(buffer.data(), values.data(), buffer.size_bytes(), *stream_);
    stream_->synchronize();
    return buffer;
  }
  void exchange(const Buffer& from, Buffer& to, size_t bytes) {
    const DeviceSend send{0, from.data(), bytes};
    const DeviceRecv recv{0, to.data(), bytes};
    comm_->post({&send, 1}, {&recv, 1}, *stream_);
  }

  void SetUp() override {
    if (!has_nccl()) GTEST_SKIP() << "this build has no NCCL";
    try {
      device_ = make_cuda_device(0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    stream_ = device_->make_stream();
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<NcclComm> comm_;
};

TEST_F(NcclCommTest, MovesBytesOfARankToItself) {
  comm();
  const Buffer from = on_device({1, 2, 3});
  Buffer to = on_device({0, 0, 0});
  exchange(from, to, 8);
  comm_->wait(*stream_, Deadline::after_ms(5000), "rows");
  EXPECT_EQ(read(to), (std::vector<int32_t>{1, 2, 0}));
}

TEST_F(NcclCommTest, EndsGroupsOfNothing) {
  comm();
  const Buffer from = on_device({1});
  Buffer to = on_device({7});
  exchange(from, to, 0);
  comm_->post({}, {}, *stream_);
  comm_->wait(*stream_, Deadline::after_ms(5000), "rows");
  EXPECT_EQ(read(to), (std::vector<int32_t>{7}));
}

TEST_F(NcclCommTest, WaitsForAnEvent) {
  comm();
  const Buffer from = on_device({4});
  Buffer to = on_device({0});
  exchange(from, to, 4);
  const auto event = device_->make_event();
  device_->record(*event, *stream_);
  comm_->wait(*event, Deadline::after_ms(5000), "rows");
  EXPECT_EQ(read(to), (std::vector<int32_t>{4}));
}

TEST_F(NcclCommTest, GathersAndBroadcastsForBenchmarks) {
  comm();
  Buffer from = on_device({4}), to = on_device({0});
  comm_->all_gather(from.data(), to.data(), 4, *stream_);
  comm_->broadcast(to.data(), 4, 0, *stream_);
  comm_->wait(*stream_, Deadline::after_ms(5000), "a baseline");
  EXPECT_EQ(read(to), (std::vector<int32_t>{4}));
}

TEST_F(NcclCommTest, RefusesASendToItselfThatNobodyReceives) {
  comm();
  const Buffer from = on_device({1});
  const DeviceSend send{0, from.data(), 4};
  try {
    comm_->post({&send, 1}, {}, *stream_);
    FAIL() << "it was posted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
  }
  EXPECT_TRUE(comm_->is_aborted());
  EXPECT_THROW(comm_->post({}, {}, *stream_), Error);
}

TEST_F(NcclCommTest, SaysItsVersion) { EXPECT_GE(nccl_version(), "2."); }

}  // namespace
}  // namespace colibri
