// DeviceLink between ranks that are threads: what is sent is copied at once, a receive waits for
// it. For tests.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <utility>
#include <vector>

#include "transport/device_link.h"

namespace colibri {

class LocalDeviceFabric {
 public:
  explicit LocalDeviceFabric(int num_ranks) : num_ranks_(num_ranks) {}
  // `device` reaches the buffers that this rank names; it and the fabric outlive the link.
  std::unique_ptr<DeviceLink> link(int rank, Device& device);

 private:
  friend class LocalDeviceLink;
  using Message = std::vector<std::byte>;

  int num_ranks_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::queue<Message>> messages_;  // by (from, to)
};

}  // namespace colibri
