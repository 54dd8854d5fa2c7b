#include <hwloc.h>
#include <stdlib.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/error.h"
#include "topology/catalogue.h"
#include "topology/probe_cluster.h"

namespace colibri {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

constexpr unsigned short kNvidia = 0x10de;
constexpr int kLaptopCores = 12;

Topology new_topology() {
  ::setenv("HWLOC_PLUGINS_PATH", "", /*overwrite=*/0);
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) fail(ErrorKind::kEnvironment, "hwloc does not start");
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
  return Topology(topology);
}

bool is_gpu(const hwloc_obj& device) {
  const auto& pci = device.attr->pcidev;
  return pci.vendor_id == kNvidia && (pci.class_id >> 8) == 0x03;  // display controllers
}

bool is_nic(const hwloc_obj& device) {
  const unsigned short kind = device.attr->pcidev.class_id;
  return kind == 0x0207 || kind == 0x0200;  // InfiniBand, Ethernet
}

std::string bus_id(const hwloc_obj& device) {
  char text[32];
  const auto& pci = device.attr->pcidev;
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                static_cast<unsigned>(pci.func));
  return text;
}

// hwloc tells GB/s of one direction, all lanes together; 0 where it does not know.
std::string pcie_kind(const hwloc_obj& device) {
  const double gbps = static_cast<double>(device.attr->pcidev.linkspeed);
  if (gbps > 40) return "pcie5-x16";
  if (gbps > 20 || gbps == 0) return "pcie4-x16";
  return "pcie3-x16";
}

class Reader {
 public:
  Reader(const Topology& topology, std::string name) : topology_(topology) {
    cluster_.name = std::move(name);
  }

  Cluster read() {
    add_cpus();
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology_.get(), device)) != nullptr) {
      if (is_gpu(*device)) add_gpu(*device);
    }
    device = nullptr;
    while ((device = hwloc_get_next_pcidev(topology_.get(), device)) != nullptr) {
      if (is_nic(*device)) add_nic(*device);
    }
    return std::move(cluster_);
  }

 private:
  int add_part(ClusterPart part) {
    part.name = "node0." + part.name;
    cluster_.parts.push_back(std::move(part));
    return static_cast<int>(cluster_.parts.size()) - 1;
  }

  int device_named(const std::string& name) {
    for (size_t i = 0; i < cluster_.devices.size(); ++i) {
      if (cluster_.devices[i].name == name) return static_cast<int>(i);
    }
    cluster_.devices.push_back(builtin_catalogue().devices.at(name));
    return static_cast<int>(cluster_.devices.size()) - 1;
  }

  void add_link(int a, int b, const std::string& kind) {
    const LinkSpec& spec = builtin_catalogue().links.at(kind);
    cluster_.links.push_back({a, b, kind, spec.gbps, spec.latency_us});
  }

  int package_of(const hwloc_obj& node) const {
    int number = 0;
    for (hwloc_obj_t package = nullptr;
         (package = hwloc_get_next_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, package)) !=
         nullptr;
         ++number) {
      if (hwloc_bitmap_intersects(package->cpuset, node.cpuset)) return number;
    }
    return 0;
  }

  int cores_in(hwloc_const_bitmap_t cpus) const {
    int count = 0;
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
      count = hwloc_get_nbobjs_inside_cpuset_by_type(topology_.get(), cpus, type);
      if (count > 0) break;  // some virtual machines tell no cores
    }
    return count;
  }

  void add_cpus() {
    const int cores = cores_in(hwloc_topology_get_topology_cpuset(topology_.get()));
    const int device = device_named(cores > kLaptopCores ? "cpu-server" : "cpu-laptop");
    for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(
                                          topology_.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
      const int count = cores_in(node->cpuset);
      if (count == 0) continue;  // memory of a device
      const int package = package_of(*node);
      const int part =
          add_part({.kind = PartKind::kCpu,
                    .name = "cpu" + std::to_string(cpus_.size()),
                    .package = package,
                    .numa_node = static_cast<int>(node->os_index),
                    .device = device,
                    .num_cores = count,
                    .memory_bytes = static_cast<int64_t>(node->attr->numanode.local_memory)});
      for (const int other : cpus_) {
        const bool is_near = cluster_.parts[static_cast<size_t>(other)].package == package;
        add_link(other, part, is_near ? "numa" : "upi-spr");
      }
      cpus_.push_back(part);
    }
  }

  // The NUMA node's part that a device is near; the first when it is near several.
  int cpu_near(const hwloc_obj& device) const {
    hwloc_obj_t holder =
        hwloc_get_non_io_ancestor_obj(topology_.get(), const_cast<hwloc_obj_t>(&device));
    for (const int cpu : cpus_) {
      const int numa = cluster_.parts[static_cast<size_t>(cpu)].numa_node;
      if (hwloc_bitmap_isset(holder->nodeset, static_cast<unsigned>(numa))) return cpu;
    }
    return cpus_.at(0);
  }

  static bool holds_several(const hwloc_obj& bridge, int& count) {
    for (hwloc_obj_t child = bridge.io_first_child; child != nullptr; child = child->next_sibling) {
      if (child->type == HWLOC_OBJ_PCI_DEVICE && (is_gpu(*child) || is_nic(*child))) ++count;
      if (child->type == HWLOC_OBJ_BRIDGE) holds_several(*child, count);
    }
    return count > 1;
  }

  // The lowest bridge above a device that holds more than it, below the host bridge; the CPU when
  // there is none: bridges of one device are wire.
  int above(const hwloc_obj& device) {
    for (hwloc_obj_t at = device.parent; at != nullptr && at->type == HWLOC_OBJ_BRIDGE;
         at = at->parent) {
      if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) break;
      int count = 0;
      if (!holds_several(*at, count)) continue;
      const auto [found, is_new] = switches_.try_emplace(at, -1);
      if (is_new) {
        const int cpu = cpu_near(device);
        found->second = add_part({.kind = PartKind::kPcieSwitch,
                                  .name = "switch" + std::to_string(switches_.size() - 1),
                                  .package = package_of_part(cpu),
                                  .numa_node = numa_of_part(cpu)});
        add_link(cpu, found->second, pcie_kind(device));
      }
      return found->second;
    }
    return cpu_near(device);
  }

  int package_of_part(int part) const { return cluster_.parts[static_cast<size_t>(part)].package; }
  int numa_of_part(int part) const { return cluster_.parts[static_cast<size_t>(part)].numa_node; }

  void add_gpu(const hwloc_obj& device) {
    const int upper = above(device);
    const char* model = hwloc_obj_get_info_by_name(const_cast<hwloc_obj_t>(&device), "PCIDevice");
    const std::string known = gpu_device_name(model != nullptr ? model : "");
    const int part = add_part({.kind = PartKind::kGpu,
                               .name = "gpu" + std::to_string(num_gpus_++),
                               .package = package_of_part(upper),
                               .numa_node = numa_of_part(upper),
                               .device = device_named(known.empty() ? "h100" : known),
                               .address = bus_id(device)});
    add_link(upper, part, pcie_kind(device));
  }

  void add_nic(const hwloc_obj& device) {
    const int upper = above(device);
    const int part = add_part({.kind = PartKind::kNic,
                               .name = "nic" + std::to_string(num_nics_++),
                               .package = package_of_part(upper),
                               .numa_node = numa_of_part(upper),
                               .address = bus_id(device)});
    add_link(upper, part, pcie_kind(device));
  }

  const Topology& topology_;
  Cluster cluster_;
  std::vector<int> cpus_;
  std::map<const hwloc_obj*, int> switches_;
  int num_gpus_ = 0, num_nics_ = 0;
};

}  // namespace

Cluster probe_cluster() {
  const Topology topology = new_topology();
  if (hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kEnvironment, "hwloc cannot read this machine: ", std::strerror(errno));
  }
  return Reader(topology, "this machine").read();
}

Cluster cluster_from_xml(std::string_view xml) {
  const Topology topology = new_topology();
  const std::string text(xml);  // hwloc wants the terminating zero counted
  if (text.size() > (size_t{1} << 26) ||
      hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(),
                                   static_cast<int>(text.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine of ", text.size(), " bytes is not hwloc's XML");
  }
  return Reader(topology, "xml").read();
}

Cluster cluster_from_synthetic(const std::string& text) {
  const Topology topology = new_topology();
  if (hwloc_topology_set_synthetic(topology.get(), text.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInput, "machine '", text,
         "' is not a description that hwloc knows, want one like 'pack:2 core:4 pu:2'");
  }
  return Reader(topology, text).read();
}

}  // namespace colibri
