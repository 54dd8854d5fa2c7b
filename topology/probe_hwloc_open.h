// Opening hwloc's topologies: for topology/probe_hwloc*.cc alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct hwloc_topology;

namespace colibri {

struct CloseHwloc {
  void operator()(hwloc_topology* topology) const;
};
using HwlocTopology = std::unique_ptr<hwloc_topology, CloseHwloc>;

enum class IoDevices { kNo, kYes };  // PCI devices and bridges, all of them

// Loaded. Each sets HWLOC_PLUGINS_PATH to nothing unless it is set. kEnvironment when hwloc fails;
// kInput, naming the text, where it is malformed.
HwlocTopology open_this_machine(IoDevices io);
HwlocTopology open_synthetic(const std::string& text, IoDevices io);
HwlocTopology open_xml(std::string_view xml, IoDevices io);

}  // namespace colibri
