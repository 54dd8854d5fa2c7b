#include "topology/probe_hwloc_open.h"

#include <hwloc.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace colibri {
namespace {

constexpr size_t kMaxXmlBytes = size_t{1} << 26;

HwlocTopology make_topology(IoDevices io) {
  ::setenv("HWLOC_PLUGINS_PATH", "", /*overwrite=*/0);
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) fail(ErrorKind::kEnvironment, "hwloc does not start");
  if (io == IoDevices::kYes) {
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  return HwlocTopology(topology);
}

}  // namespace

void CloseHwloc::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

HwlocTopology open_this_machine(IoDevices io) {
  HwlocTopology topology = make_topology(io);
  if (hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kEnvironment, "hwloc cannot read this machine: ", std::strerror(errno));
  }
  return topology;
}

HwlocTopology open_synthetic(const std::string& text, IoDevices io) {
  HwlocTopology topology = make_topology(io);
  if (hwloc_topology_set_synthetic(topology.get(), text.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine '", text,
         "' is not a description that hwloc knows, want one like 'pack:2 core:4 pu:2'");
  }
  return topology;
}

HwlocTopology open_xml(std::string_view xml, IoDevices io) {
  HwlocTopology topology = make_topology(io);
  const std::string text(xml);  // hwloc wants the terminating zero counted
  if (text.size() > kMaxXmlBytes ||
      hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(),
                                   static_cast<int>(text.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine of ", text.size(), " bytes is not hwloc's XML");
  }
  return topology;
}

}  // namespace colibri
