// The only file that sees hwloc.
#include <hwloc.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "topology/machine.h"

namespace colibri {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

Topology make_topology() {
  ::setenv("HWLOC_PLUGINS_PATH", "", /*overwrite=*/0);
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) fail(ErrorKind::kEnvironment, "hwloc does not start");
  return Topology(topology);
}

std::vector<int> cpus_of(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

// Objects of one type in the machine's order.
template <class Visit>
void for_each(const Topology& topology, hwloc_obj_type_t type, const Visit& visit) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology.get(), type, object)) != nullptr;) {
    visit(*object);
  }
}

// The position of the first set that holds one of `cpus`; 0 when none does.
int position_of(hwloc_const_bitmap_t cpus, const std::vector<hwloc_const_bitmap_t>& sets) {
  for (size_t i = 0; i < sets.size(); ++i) {
    if (hwloc_bitmap_intersects(cpus, sets[i])) return static_cast<int>(i);
  }
  return 0;
}

void read_caches(const Topology& topology, Machine& machine) {
  std::map<std::pair<int, int64_t>, int> count;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    for_each(topology, type, [&](const hwloc_obj& object) {
      ++count[{static_cast<int>(object.attr->cache.depth),
               static_cast<int64_t>(object.attr->cache.size)}];
    });
  }
  for (const auto& [cache, number] : count) {
    machine.caches.push_back({cache.first, cache.second, number});
  }
}

Machine read_topology(const Topology& topology) {
  Machine machine;
  std::vector<hwloc_const_bitmap_t> packages, nodes;
  for_each(topology, HWLOC_OBJ_PACKAGE,
           [&](const hwloc_obj& object) { packages.push_back(object.cpuset); });
  machine.num_packages = std::max(1, static_cast<int>(packages.size()));
  for_each(topology, HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
    nodes.push_back(object.cpuset);
    machine.numa_nodes.push_back({static_cast<int>(object.os_index),
                                  static_cast<int64_t>(object.attr->numanode.local_memory)});
  });
  const auto add_core = [&](const hwloc_obj& object) {
    machine.cores.push_back({position_of(object.cpuset, packages),
                             position_of(object.cpuset, nodes), cpus_of(object.cpuset)});
  };
  for_each(topology, HWLOC_OBJ_CORE, add_core);
  // Some virtual machines do not tell cores: then each hardware thread counts as one.
  if (machine.cores.empty()) for_each(topology, HWLOC_OBJ_PU, add_core);
  read_caches(topology, machine);
  return machine;
}

}  // namespace

Machine probe_machine() {
  const Topology topology = make_topology();
  if (hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kEnvironment, "hwloc cannot read this machine: ", std::strerror(errno));
  }
  return read_topology(topology);
}

Machine machine_from_synthetic(const std::string& text) {
  const Topology topology = make_topology();
  if (hwloc_topology_set_synthetic(topology.get(), text.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine '", text,
         "' is not a description that hwloc knows, want one like 'pack:2 core:4 pu:2'");
  }
  return read_topology(topology);
}

namespace {

enum class IoDevices { kNo, kYes };

Topology topology_from_xml(std::string_view xml, IoDevices io) {
  Topology topology = make_topology();
  if (io == IoDevices::kYes) {
    hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  }
  const std::string text(xml);  // hwloc wants the terminating zero counted
  if (text.size() > (size_t{1} << 26) ||
      hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(),
                                   static_cast<int>(text.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine of ", text.size(), " bytes is not hwloc's XML");
  }
  return topology;
}

PciPlace place_of(const Topology& topology, const std::string& bus_id) {
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology.get(), bus_id.c_str());
  if (device == nullptr) return {};
  const hwloc_obj_t holder = hwloc_get_non_io_ancestor_obj(topology.get(), device);
  PciPlace place;
  place.cpus = cpus_of(holder->cpuset);
  // Below several nodes it is near none of them.
  if (hwloc_bitmap_weight(holder->nodeset) == 1) {
    place.numa_node = hwloc_bitmap_first(holder->nodeset);
  }
  return place;
}

std::vector<PciPlace> places_in(const Topology& topology, std::span<const std::string> bus_ids) {
  std::vector<PciPlace> places;
  for (const std::string& id : bus_ids) places.push_back(place_of(topology, id));
  return places;
}

}  // namespace

Machine machine_from_xml(std::string_view xml) {
  return read_topology(topology_from_xml(xml, IoDevices::kNo));
}

std::vector<PciPlace> places_of_pci(std::span<const std::string> bus_ids) {
  const Topology topology = make_topology();
  hwloc_topology_set_io_types_filter(topology.get(), HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kEnvironment, "hwloc cannot read this machine: ", std::strerror(errno));
  }
  return places_in(topology, bus_ids);
}

std::vector<PciPlace> places_of_pci_in_xml(std::string_view xml,
                                           std::span<const std::string> bus_ids) {
  return places_in(topology_from_xml(xml, IoDevices::kYes), bus_ids);
}

}  // namespace colibri
