#include "topology/regular_node.h"

#include "base/error.h"

namespace colibri {
namespace {

template <class Map>
const typename Map::mapped_type& find_named(const Map& map, const std::string& name,
                                            const char* what, const std::string& where) {
  const auto found = map.find(name);
  if (found != map.end()) return found->second;
  std::string known;
  for (const auto& [each, value] : map) known += (known.empty() ? "" : ", ") + each;
  fail(ErrorKind::kInput, where, ": ", what, " '", name, "' is not in the catalogue, want one of ",
       known);
}

class NodeBuilder {
 public:
  NodeBuilder(const RegularNode& node, const Catalogue& catalogue, const std::string& where,
              Cluster& cluster)
      : node_(node), catalogue_(catalogue), where_(where), cluster_(cluster) {}

  void build() {
    number_ = cluster_.num_nodes();
    prefix_ = "node" + std::to_string(number_) + ".";
    add_cpus();
    add_switches();
    add_gpus();
    add_nvlink();
    add_nics();
  }

 private:
  int add_part(ClusterPart part) {
    part.node = number_;
    part.name = prefix_ + part.name;
    cluster_.parts.push_back(std::move(part));
    return static_cast<int>(cluster_.parts.size()) - 1;
  }

  void add_link(int a, int b, const std::string& kind) {
    const LinkSpec& spec = find_named(catalogue_.links, kind, "link", where_);
    cluster_.links.push_back({a, b, kind, spec.gbps, spec.latency_us});
  }

  void add_cpus() {
    const int device = device_index(node_.cpu, catalogue_, where_, cluster_);
    for (int package = 0; package < node_.packages; ++package) {
      for (int i = 0; i < node_.numa_per_package; ++i) {
        const int numa = package * node_.numa_per_package + i;
        const int part = add_part({.kind = PartKind::kCpu,
                                   .name = "cpu" + std::to_string(numa),
                                   .package = package,
                                   .numa_node = numa,
                                   .device = device,
                                   .num_cores = node_.cores,
                                   .memory_bytes = node_.memory_bytes});
        for (const int other : cpus_) {
          const bool is_near = cluster_.parts[static_cast<size_t>(other)].package == package;
          const bool has_own = is_near && !node_.numa_link.empty();
          add_link(other, part, has_own ? node_.numa_link : node_.package_link);
        }
        cpus_.push_back(part);
      }
    }
  }

  // The CPU part that device number `which` of `count` hangs on.
  int cpu_of(int which, int count) const {
    return cpus_[static_cast<size_t>(which) * cpus_.size() / static_cast<size_t>(count)];
  }

  void add_switches() {
    if (node_.gpus == 0 || node_.gpus_per_switch < 2) return;
    const int count = (node_.gpus + node_.gpus_per_switch - 1) / node_.gpus_per_switch;
    for (int i = 0; i < count; ++i) {
      const int cpu = cpu_of(i, count);
      switches_.push_back(add_part({.kind = PartKind::kPcieSwitch,
                                    .name = "switch" + std::to_string(i),
                                    .package = package_of(cpu),
                                    .numa_node = numa_of(cpu)}));
      add_link(cpu, switches_.back(), node_.pcie);
    }
  }

  void add_gpus() {
    if (node_.gpus == 0) return;
    const int device = device_index(node_.gpu, catalogue_, where_, cluster_);
    for (int i = 0; i < node_.gpus; ++i) {
      const int above = switches_.empty()
                            ? cpu_of(i, node_.gpus)
                            : switches_[static_cast<size_t>(i / node_.gpus_per_switch)];
      gpus_.push_back(add_part({.kind = PartKind::kGpu,
                                .name = "gpu" + std::to_string(i),
                                .package = package_of(above),
                                .numa_node = numa_of(above),
                                .device = device}));
      add_link(above, gpus_.back(), node_.pcie);
    }
  }

  void add_nvlink() {
    if (node_.nvlink.empty() || gpus_.empty()) return;
    if (node_.nvlink_form == "pairs") {
      for (size_t i = 0; i + 1 < gpus_.size(); i += 2) {
        add_link(gpus_[i], gpus_[i + 1], node_.nvlink);
      }
      return;
    }
    const bool is_rack = node_.nvlink_form == "rack";
    int nvswitch = is_rack ? shared(PartKind::kNvSwitch) : -1;
    if (nvswitch < 0) nvswitch = add_part({.kind = PartKind::kNvSwitch, .name = "nvswitch"});
    if (is_rack) {
      cluster_.parts[static_cast<size_t>(nvswitch)].name = "rack.nvswitch";
      cluster_.parts[static_cast<size_t>(nvswitch)].node = -1;
    }
    for (const int gpu : gpus_) add_link(gpu, nvswitch, node_.nvlink);
  }

  // The part of a kind that belongs to no node. It is among the first, so that many nodes find it
  // in little time.
  int shared(PartKind kind) const {
    for (size_t i = 0; i < cluster_.parts.size(); ++i) {
      const ClusterPart& part = cluster_.parts[i];
      if (part.kind == kind && part.node == -1) return static_cast<int>(i);
    }
    return -1;
  }

  void add_nics() {
    for (int i = 0; i < node_.nics; ++i) {
      const int above = switches_.empty() ? cpu_of(i, node_.nics)
                                          : switches_[static_cast<size_t>(i) * switches_.size() /
                                                      static_cast<size_t>(node_.nics)];
      const int nic = add_part({.kind = PartKind::kNic,
                                .name = "nic" + std::to_string(i),
                                .package = package_of(above),
                                .numa_node = numa_of(above)});
      add_link(above, nic, node_.nic_pcie);
      add_link(nic, fabric(), node_.nic);
    }
  }

  int fabric() {
    const int found = shared(PartKind::kFabric);
    if (found >= 0) return found;
    cluster_.parts.push_back({.kind = PartKind::kFabric, .name = "fabric", .node = -1});
    return static_cast<int>(cluster_.parts.size()) - 1;
  }

  int package_of(int part) const { return cluster_.parts[static_cast<size_t>(part)].package; }
  int numa_of(int part) const { return cluster_.parts[static_cast<size_t>(part)].numa_node; }

  const RegularNode& node_;
  const Catalogue& catalogue_;
  const std::string& where_;
  Cluster& cluster_;
  int number_ = 0;
  std::string prefix_;
  std::vector<int> cpus_, switches_, gpus_;
};

void check_numbers(const RegularNode& node, const std::string& where) {
  if (node.gpus > 0 && node.gpu.empty()) {
    fail(ErrorKind::kInput, where, ": a node has gpus = ", node.gpus, " and no gpu, want its name");
  }
  if (node.gpus > 0 && node.pcie.empty()) {
    fail(ErrorKind::kInput, where, ": a node has GPUs and no pcie, want a link's name");
  }
  if (node.nics > 0 && node.nic_pcie.empty()) {
    fail(ErrorKind::kInput, where, ": a node has NICs and neither nic_pcie nor pcie, want a ",
         "link's name");
  }
  if (node.nics > 0 && node.nic.empty()) {
    fail(ErrorKind::kInput, where, ": a node has nics = ", node.nics, " and no nic, want the name ",
         "of their link into the network");
  }
  if (node.packages * node.numa_per_package > 1 && node.package_link.empty()) {
    fail(ErrorKind::kInput, where, ": a node of several NUMA nodes has no package_link, want a ",
         "link's name");
  }
  const std::string& form = node.nvlink_form;
  if (form != "switch" && form != "rack" && form != "pairs") {
    fail(ErrorKind::kInput, where, ": nvlink_form is '", form, "', want switch, rack or pairs");
  }
}

}  // namespace

int device_index(const std::string& name, const Catalogue& catalogue, const std::string& where,
                 Cluster& cluster) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    if (cluster.devices[i].name == name) return static_cast<int>(i);
  }
  cluster.devices.push_back(find_named(catalogue.devices, name, "device", where));
  return static_cast<int>(cluster.devices.size()) - 1;
}

void add_regular_nodes(const RegularNode& node, const Catalogue& catalogue,
                       const std::string& where, Cluster& cluster) {
  check_numbers(node, where);
  for (int i = 0; i < node.count; ++i) NodeBuilder(node, catalogue, where, cluster).build();
}

}  // namespace colibri
