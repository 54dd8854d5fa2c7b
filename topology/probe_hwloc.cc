#include <hwloc.h>

#include <algorithm>
#include <map>
#include <utility>

#include "topology/machine.h"
#include "topology/probe_hwloc_open.h"

namespace colibri {
namespace {

std::vector<int> cpus_of(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

// Objects of one type in the machine's order.
template <class Visit>
void for_each(const HwlocTopology& topology, hwloc_obj_type_t type, const Visit& visit) {
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

void read_caches(const HwlocTopology& topology, Machine& machine) {
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

Machine read_topology(const HwlocTopology& topology) {
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

PciPlace place_of(const HwlocTopology& topology, const std::string& bus_id) {
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

std::vector<PciPlace> places_in(const HwlocTopology& topology,
                                std::span<const std::string> bus_ids) {
  std::vector<PciPlace> places;
  for (const std::string& id : bus_ids) places.push_back(place_of(topology, id));
  return places;
}

}  // namespace

Machine probe_machine() { return read_topology(open_this_machine(IoDevices::kNo)); }

Machine machine_from_synthetic(const std::string& text) {
  return read_topology(open_synthetic(text, IoDevices::kNo));
}

Machine machine_from_xml(std::string_view xml) {
  return read_topology(open_xml(xml, IoDevices::kNo));
}

std::vector<PciPlace> places_of_pci(std::span<const std::string> bus_ids) {
  return places_in(open_this_machine(IoDevices::kYes), bus_ids);
}

std::vector<PciPlace> places_of_pci_in_xml(std::string_view xml,
                                           std::span<const std::string> bus_ids) {
  return places_in(open_xml(xml, IoDevices::kYes), bus_ids);
}

}  // namespace colibri
