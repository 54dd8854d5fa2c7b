#include <hwloc.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "topology/catalogue.h"
#include "topology/probe_cluster.h"
#include "topology/probe_hwloc_open.h"

namespace colibri {
namespace {

struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

constexpr unsigned short kNvidia = 0x10de;
constexpr int kLaptopCores = 12;

bool is_of_nvidia(const hwloc_obj& device, int base_class, int subclass) {
  const auto& pci = device.attr->pcidev;
  return pci.vendor_id == kNvidia && (pci.class_id >> 8) == base_class &&
         (subclass < 0 || (pci.class_id & 0xff) == subclass);
}

bool is_gpu(const hwloc_obj& device) { return is_of_nvidia(device, 0x03, -1); }  // displays
bool is_nvswitch(const hwloc_obj& device) { return is_of_nvidia(device, 0x06, 0x80); }

bool is_nic(const hwloc_obj& device) {
  const unsigned short kind = device.attr->pcidev.class_id;
  return kind == 0x0207 || kind == 0x0200;  // InfiniBand, Ethernet
}

// What the system calls an adapter: "mlx5_0" before "eth0"; "" when it has no driver.
std::string adapter_name(const hwloc_obj& device) {
  std::string name;
  for (hwloc_obj_t child = device.io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) return child->name;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && name.empty()) name = child->name;
  }
  return name;
}

bool does_rdma(const hwloc_obj& device) {
  for (hwloc_obj_t child = device.io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type == HWLOC_OBJ_OS_DEVICE &&
        child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
      return true;
    }
  }
  return false;
}

std::string bus_id(const hwloc_obj& device) {
  char text[32];
  const auto& pci = device.attr->pcidev;
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                static_cast<unsigned>(pci.func));
  return text;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name);
  return value != nullptr ? value : "";
}

class Reader {
 public:
  // `system`: the folder whose files tell rates of adapters; empty: the machine is another one.
  Reader(HwlocTopology topology, std::string name, std::string system)
      : topology_(std::move(topology)), system_(std::move(system)) {
    cluster().name = std::move(name);
  }

  ProbedCluster read() {
    add_cpus();
    std::vector<const hwloc_obj*> gpus, nics;
    size_t num_nvswitches = 0;
    for (hwloc_obj_t device = nullptr;
         (device = hwloc_get_next_pcidev(topology_.get(), device)) != nullptr;) {
      if (is_gpu(*device)) gpus.push_back(device);
      if (is_nic(*device)) nics.push_back(device);
      if (is_nvswitch(*device)) ++num_nvswitches;
    }
    // Management ports carry no tokens where there are faster adapters.
    if (std::any_of(nics.begin(), nics.end(), [](auto* nic) { return does_rdma(*nic); })) {
      std::erase_if(nics, [](auto* nic) { return !does_rdma(*nic); });
    }
    kept_.insert(gpus.begin(), gpus.end());
    kept_.insert(nics.begin(), nics.end());
    for (const hwloc_obj* gpu : gpus) add_gpu(*gpu);
    for (const hwloc_obj* nic : nics) add_nic(*nic);
    if (num_nvswitches > 0 && gpus.size() > 1) add_nvswitch();
    note_silence(gpus.size());
    return std::move(machine_);
  }

 private:
  Cluster& cluster() { return machine_.cluster; }
  const ClusterPart& part(int index) const {
    return machine_.cluster.parts[static_cast<size_t>(index)];
  }

  int add_part(ClusterPart part) {
    part.name = "node0." + part.name;
    cluster().parts.push_back(std::move(part));
    return static_cast<int>(cluster().parts.size()) - 1;
  }

  int device_named(const std::string& name) {
    for (size_t i = 0; i < cluster().devices.size(); ++i) {
      if (cluster().devices[i].name == name) return static_cast<int>(i);
    }
    cluster().devices.push_back(builtin_catalogue().devices.at(name));
    return static_cast<int>(cluster().devices.size()) - 1;
  }

  void add_link(int a, int b, const std::string& kind) {
    const LinkSpec& spec = builtin_catalogue().links.at(kind);
    cluster().links.push_back({a, b, kind, spec.gbps, spec.latency_us});
  }

  // hwloc tells GB/s of one direction, all lanes together; 0 where it does not know.
  void add_pcie(int a, int b, float gbps) {
    const PcieLink link = pcie_link(static_cast<double>(gbps));
    cluster().links.push_back({a, b, link.kind, link.spec.gbps, link.spec.latency_us});
    if (!(gbps > 0)) has_unknown_pcie_ = true;
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

  std::string cpu_device() const {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, 0);
    if (info_of(package, "CPUPart") == "0xd4f") return "cpu-grace";  // Neoverse V2
    const int cores = cores_in(hwloc_topology_get_topology_cpuset(topology_.get()));
    return cores > kLaptopCores ? "cpu-server" : "cpu-laptop";
  }

  std::string package_link() const {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology_.get(), HWLOC_OBJ_PACKAGE, 0);
    if (info_of(package, "CPUPart") == "0xd4f") return "nvlink-c2c";
    if (info_of(package, "CPUVendor") == "AuthenticAMD") return "xgmi";
    // Skylake and Cascade Lake.
    const bool is_old =
        info_of(package, "CPUFamilyNumber") == "6" && info_of(package, "CPUModelNumber") == "85";
    return is_old ? "upi-skl" : "upi-spr";
  }

  void add_cpus() {
    const int device = device_named(cpu_device());
    const std::string between_packages = package_link();
    // Memory of a GPU or behind CXL is a node without cores, or with those of a node before it.
    const Bitmap taken(hwloc_bitmap_alloc());
    for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(
                                          topology_.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
      const int count = cores_in(node->cpuset);
      const auto bytes = static_cast<int64_t>(node->attr->numanode.local_memory);
      if (count == 0 || hwloc_bitmap_isincluded(node->cpuset, taken.get())) {
        machine_.notes.push_back("NUMA node " + std::to_string(node->os_index) +
                                 " is memory alone (" + format_bytes(bytes) +
                                 "): no rank runs there");
        continue;
      }
      hwloc_bitmap_or(taken.get(), taken.get(), node->cpuset);
      const int package = package_of(*node);
      const int added = add_part({.kind = PartKind::kCpu,
                                  .name = "cpu" + std::to_string(cpus_.size()),
                                  .package = package,
                                  .numa_node = static_cast<int>(node->os_index),
                                  .device = device,
                                  .num_cores = count,
                                  .memory_bytes = bytes});
      for (const int other : cpus_) {
        add_link(other, added, part(other).package == package ? "numa" : between_packages);
      }
      cpus_.push_back(added);
    }
    if (cpus_.empty()) fail(ErrorKind::kInput, cluster().name, ": no NUMA node has a core");
  }

  // The NUMA node's part that a device is near; the first when it is near several.
  int cpu_near(const hwloc_obj& device) const {
    hwloc_obj_t holder =
        hwloc_get_non_io_ancestor_obj(topology_.get(), const_cast<hwloc_obj_t>(&device));
    for (const int cpu : cpus_) {
      if (hwloc_bitmap_isset(holder->nodeset, static_cast<unsigned>(part(cpu).numa_node))) {
        return cpu;
      }
    }
    return cpus_[0];
  }

  // GPUs and adapters below a bridge.
  int count_below(const hwloc_obj& bridge) const {
    int count = 0;
    for (hwloc_obj_t child = bridge.io_first_child; child != nullptr; child = child->next_sibling) {
      if (kept_.contains(child)) ++count;
      if (child->type == HWLOC_OBJ_BRIDGE) count += count_below(*child);
    }
    return count;
  }

  // The nearest bridge above an object that holds more than what it passes on, below the host
  // bridge; the CPU when there is none: bridges of one device, or of one switch, are wire.
  int above(const hwloc_obj& object, int num_held) {
    for (hwloc_obj_t at = object.parent; at != nullptr && at->type == HWLOC_OBJ_BRIDGE;
         at = at->parent) {
      if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST) break;
      const int count = count_below(*at);
      if (count <= num_held) continue;
      const auto known = switches_.find(at);
      if (known != switches_.end()) return known->second;
      const int upper = above(*at, count);
      const int added = add_part({.kind = PartKind::kPcieSwitch,
                                  .name = "switch" + std::to_string(switches_.size()),
                                  .package = part(upper).package,
                                  .numa_node = part(upper).numa_node});
      switches_[at] = added;
      add_pcie(upper, added, at->attr->bridge.upstream.pci.linkspeed);
      return added;
    }
    return cpu_near(object);
  }

  void add_gpu(const hwloc_obj& device) {
    const int upper = above(device, 1);
    std::string known = gpu_device_name(static_cast<int>(device.attr->pcidev.device_id));
    if (known.empty()) {
      known = gpu_device_name(info_of(const_cast<hwloc_obj_t>(&device), "PCIDevice"));
    }
    const int added = add_part({.kind = PartKind::kGpu,
                                .name = "gpu" + std::to_string(num_gpus_++),
                                .package = part(upper).package,
                                .numa_node = part(upper).numa_node,
                                .device = known.empty() ? unknown_gpu(device) : device_named(known),
                                .address = bus_id(device)});
    add_pcie(upper, added, device.attr->pcidev.linkspeed);
  }

  int unknown_gpu(const hwloc_obj& device) {
    char name[32];
    std::snprintf(name, sizeof name, "gpu-%04x",
                  static_cast<unsigned>(device.attr->pcidev.device_id));
    for (size_t i = 0; i < cluster().devices.size(); ++i) {
      if (cluster().devices[i].name == name) return static_cast<int>(i);
    }
    DeviceSpec spec = builtin_catalogue().devices.at("h100");
    spec.name = name;
    cluster().devices.push_back(spec);
    machine_.notes.push_back(std::string("GPU ") + bus_id(device) + " (PCI device 10de:" +
                             (name + 4) + ") is not in the catalogue: it has the numbers of h100");
    return static_cast<int>(cluster().devices.size()) - 1;
  }

  void add_nic(const hwloc_obj& device) {
    const int upper = above(device, 1);
    const std::string name = adapter_name(device);
    const int added = add_part({.kind = PartKind::kNic,
                                .name = "nic" + std::to_string(num_nics_++),
                                .package = part(upper).package,
                                .numa_node = part(upper).numa_node,
                                .address = name.empty() ? bus_id(device) : name});
    add_pcie(upper, added, device.attr->pcidev.linkspeed);
    const double gbps = system_.empty() ? 0 : network_gbps(system_, name);
    if (gbps > 0) add_network(added, gbps);
  }

  // What a network carries of its nominal rate, and its latency, are those of ib-400g.
  void add_network(int nic, double nominal_gbps) {
    if (fabric_ < 0) {
      fabric_ = static_cast<int>(cluster().parts.size());
      cluster().parts.push_back({.kind = PartKind::kFabric, .name = "fabric", .node = -1});
    }
    const LinkSpec& known = builtin_catalogue().links.at("ib-400g");
    const auto gigabits = static_cast<int64_t>(std::lround(8 * nominal_gbps));
    cluster().links.push_back({nic, fabric_, "network-" + std::to_string(gigabits) + "g",
                               nominal_gbps * known.gbps / known.nominal_gbps, known.latency_us});
  }

  // The last part, so that who knows better can take it back.
  void add_nvswitch() {
    const std::vector<int> gpus = cluster().parts_of(PartKind::kGpu);
    const int nvswitch = add_part({.kind = PartKind::kNvSwitch, .name = "nvswitch"});
    for (const int gpu : gpus) add_link(gpu, nvswitch, nvlink_name(cluster().device_of(gpu).name));
    machine_.notes.emplace_back(
        "NVSwitches are on the PCI bus: all GPUs are taken to hang at them with all their NVLinks");
  }

  void note_silence(size_t num_gpus) {
    machine_.notes.push_back("rates of the CPUs' memory are the catalogue's; `colibri bench " +
                             std::string("--calibrate` measures this machine's"));
    if (has_unknown_pcie_) {
      machine_.notes.emplace_back("a PCIe link tells no rate: it is taken for pcie4-x16");
    }
    if (num_gpus == 0) machine_.notes.emplace_back("hwloc sees no GPU of NVIDIA");
  }

  HwlocTopology topology_;
  std::string system_;
  ProbedCluster machine_;
  std::vector<int> cpus_;
  std::set<const hwloc_obj*> kept_;
  std::map<const hwloc_obj*, int> switches_;
  int num_gpus_ = 0, num_nics_ = 0, fabric_ = -1;
  bool has_unknown_pcie_ = false;
};

}  // namespace

ProbedCluster probe_cluster() {
  return Reader(open_this_machine(IoDevices::kYes), "this machine", "/").read();
}

ProbedCluster cluster_from_xml(std::string_view xml) {
  return Reader(open_xml(xml, IoDevices::kYes), "xml", "").read();
}

ProbedCluster cluster_from_synthetic(const std::string& text) {
  return Reader(open_synthetic(text, IoDevices::kYes), text, "").read();
}

}  // namespace colibri
