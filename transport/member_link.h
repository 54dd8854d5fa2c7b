// A link between some of a run's ranks, seen as one between all.
#pragma once

#include <memory>
#include <vector>

#include "transport/device_link.h"

namespace colibri {

// `inner` numbers the members 0, 1, ... in the order of `members`: ranks of a run of `num_ranks`,
// ascending. Sends to and receives from other ranks are left out of every group.
std::unique_ptr<DeviceLink> make_member_link(std::unique_ptr<DeviceLink> inner,
                                             std::vector<int> members, int num_ranks);

}  // namespace colibri
