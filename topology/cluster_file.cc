#include "topology/cluster_file.h"

#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "topology/builtin_machines.h"
#include "topology/catalogue_toml.h"
#include "topology/node_groups.h"
#include "topology/regular_node.h"

namespace colibri {
namespace {

constexpr int kVersion = 1;
constexpr int64_t kMaxParts = 65536, kMaxNodes = 4096, kMaxLinks = 1 << 20;
constexpr int kMaxSwitchDepth = 32;

constexpr std::pair<PartKind, const char*> kKinds[] = {{PartKind::kCpu, "cpu"},
                                                       {PartKind::kGpu, "gpu"},
                                                       {PartKind::kPcieSwitch, "pcie-switch"},
                                                       {PartKind::kNvSwitch, "nvswitch"},
                                                       {PartKind::kNic, "nic"},
                                                       {PartKind::kFabric, "fabric"}};

const char* word_of(PartKind kind) {
  for (const auto& [each, word] : kKinds) {
    if (each == kind) return word;
  }
  fail(ErrorKind::kInternal, "PartKind value ", static_cast<int>(kind));
}

class ClusterReader {
 public:
  ClusterReader(std::string_view text, const std::string& where)
      : where_(where), root_(text, where) {}

  Cluster read() {
    const int64_t version = root_.whole("colibri_machine", 0, 1 << 30);
    if (version != kVersion) {
      fail(ErrorKind::kUnsupported, where_, ": version ", version, " of the form, want ", kVersion);
    }
    cluster_.name = root_.text("name");
    root_.text_or("about", "");
    catalogue_ = merged(builtin_catalogue(), read_catalogue(root_));
    std::vector<TomlReader> nodes = root_.tables("node"), parts = root_.tables("part");
    std::vector<TomlReader> joints = root_.tables("joint");
    root_.end();
    if (nodes.empty() == parts.empty()) {
      fail(ErrorKind::kInput, where_, ": want [[node]] tables, or [[part]] and [[joint]] tables");
    }
    for (TomlReader& node : nodes) read_node(node);
    for (TomlReader& part : parts) read_part(part);
    for (TomlReader& joint : joints) read_joint(joint);
    check_cluster(cluster_, where_);
    check_switches();
    return std::move(cluster_);
  }

 private:
  void read_node(TomlReader& r) {
    RegularNode node;
    node.count = static_cast<int>(r.whole_or("count", 1, kMaxNodes, 1));
    node.cpu = r.text("cpu");
    node.packages = static_cast<int>(r.whole_or("packages", 1, 64, 1));
    node.numa_per_package = static_cast<int>(r.whole_or("numa_per_package", 1, 64, 1));
    node.cores = static_cast<int>(r.whole("cores", 1, 4096));
    node.memory_bytes = static_cast<int64_t>(1e9 * r.number("memory_gb", 0, 1e6));
    node.package_link = r.text_or("package_link", "");
    node.numa_link = r.text_or("numa_link", "");
    node.gpus = static_cast<int>(r.whole_or("gpus", 0, 256, 0));
    node.gpu = r.text_or("gpu", "");
    node.gpus_per_switch = static_cast<int>(r.whole_or("gpus_per_switch", 1, 256, 1));
    node.pcie = r.text_or("pcie", "");
    node.nic_pcie = r.text_or("nic_pcie", node.pcie);
    node.nvlink = r.text_or("nvlink", "");
    node.nvlink_form = r.text_or("nvlink_form", "switch");
    node.nics = static_cast<int>(r.whole_or("nics", 0, 256, 0));
    node.nic = r.text_or("nic", "");
    r.end();
    if (cluster_.num_nodes() + node.count > kMaxNodes) {
      fail(ErrorKind::kInput, where_, ": ", cluster_.num_nodes() + node.count,
           " nodes, want at most ", kMaxNodes);
    }
    const int64_t cpus = int64_t{node.packages} * node.numa_per_package;
    check_size(node.count * (cpus + 2 * node.gpus + node.nics + 1),
               node.count * (cpus * (cpus - 1) / 2 + 3 * node.gpus + 2 * node.nics));
    add_regular_nodes(node, catalogue_, where_, cluster_);
  }

  // Before they are made: a few lines can ask for more than there is memory.
  void check_size(int64_t more_parts, int64_t more_links) const {
    const int64_t num_parts = static_cast<int64_t>(cluster_.parts.size()) + more_parts;
    const int64_t num_links = static_cast<int64_t>(cluster_.links.size()) + more_links;
    if (num_parts > kMaxParts) {
      fail(ErrorKind::kInput, where_, ": ", num_parts, " parts, want at most ", kMaxParts);
    }
    if (num_links > kMaxLinks) {
      fail(ErrorKind::kInput, where_, ": ", num_links, " links, want at most ", kMaxLinks);
    }
  }

  // Trees are printed and drawn by recursion.
  void check_switches() const {
    const std::vector<Above> above = parts_above(cluster_);
    std::vector<int> depth(above.size());
    for (size_t part = 0; part < above.size(); ++part) {  // a switch comes after those above it
      if (cluster_.parts[part].kind != PartKind::kPcieSwitch || above[part].part < 0) continue;
      depth[part] = depth[static_cast<size_t>(above[part].part)] + 1;
      if (depth[part] <= kMaxSwitchDepth) continue;
      fail(ErrorKind::kInput, where_, ": switch ", cluster_.parts[part].name, " hangs below ",
           kMaxSwitchDepth, " others, want fewer");
    }
  }

  void read_part(TomlReader& r) {
    check_size(1, 0);
    ClusterPart part;
    part.kind = read_kind(r);
    part.name = r.text("name");
    part.node = static_cast<int>(r.whole("node", -1, kMaxNodes - 1));
    part.package = static_cast<int>(r.whole_or("package", -1, 1 << 20, -1));
    part.numa_node = static_cast<int>(r.whole_or("numa", -1, 1 << 20, -1));
    if (part.kind == PartKind::kCpu || part.kind == PartKind::kGpu) {
      part.device = device_index(r.text("device"), catalogue_, where_, cluster_);
    }
    if (part.kind == PartKind::kCpu) {
      part.num_cores = static_cast<int>(r.whole("cores", 1, 1 << 20));
      part.memory_bytes = r.whole("memory_bytes", 0, int64_t{1} << 60);
    }
    part.address = r.text_or("address", "");
    r.end();
    number_of_[part.name] = static_cast<int>(cluster_.parts.size());
    cluster_.parts.push_back(std::move(part));
  }

  static PartKind read_kind(TomlReader& r) {
    const std::string word = r.text("kind");
    for (const auto& [kind, each] : kKinds) {
      if (word == each) return kind;
    }
    r.wrong("kind", "is '", word, "', want cpu, gpu, pcie-switch, nvswitch, nic or fabric");
  }

  int end_of(TomlReader& r, const char* key) {
    const std::string name = r.text(key);
    for (size_t i = number_of_.size(); i < cluster_.parts.size(); ++i) {
      number_of_[cluster_.parts[i].name] = static_cast<int>(i);
    }
    const auto found = number_of_.find(name);
    if (found == number_of_.end()) r.wrong(key, "is '", name, "', want the name of a part");
    return found->second;
  }

  void read_joint(TomlReader& r) {
    ClusterLink link;
    link.a = end_of(r, "a");
    link.b = end_of(r, "b");
    link.kind = r.text("kind");
    const auto known = catalogue_.links.find(link.kind);
    const bool is_known = known != catalogue_.links.end();
    if (!is_known && !r.has("gbps")) {
      r.wrong("kind", "is '", link.kind, "', which is not in the catalogue, and gbps is missing");
    }
    link.gbps = r.has("gbps") ? r.number("gbps", 1e-6, 1e12) : known->second.gbps;
    link.latency_us = r.has("latency_us") ? r.number("latency_us", 0, 1e6)
                      : is_known          ? known->second.latency_us
                                          : 0;
    r.end();
    cluster_.links.push_back(std::move(link));
  }

  const std::string& where_;
  TomlReader root_;
  Catalogue catalogue_;
  Cluster cluster_;
  std::map<std::string, int> number_of_;
};

std::string part_text(const Cluster& cluster, const ClusterPart& part) {
  std::string text = "\n[[part]]\nkind = \"" + std::string(word_of(part.kind)) + "\"\n";
  text += "name = " + toml_quoted(part.name) + "\nnode = " + std::to_string(part.node) + "\n";
  if (part.package >= 0) text += "package = " + std::to_string(part.package) + "\n";
  if (part.numa_node >= 0) text += "numa = " + std::to_string(part.numa_node) + "\n";
  if (part.device >= 0) {
    text +=
        "device = " + toml_quoted(cluster.devices[static_cast<size_t>(part.device)].name) + "\n";
  }
  if (part.kind == PartKind::kCpu) {
    text += "cores = " + std::to_string(part.num_cores) +
            "\nmemory_bytes = " + std::to_string(part.memory_bytes) + "\n";
  }
  if (!part.address.empty()) text += "address = " + toml_quoted(part.address) + "\n";
  return text;
}

std::string read_machine_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::file_size(path, error) > (uintmax_t{4} << 20) || error) {
    fail(ErrorKind::kInput, "--machine ", path, ": ", error ? error.message() : "more than 4 MiB",
         "; want a machine file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& where) {
  return ClusterReader(text, where).read();
}

std::string cluster_text(const Cluster& cluster, const std::string& source) {
  std::string text = "colibri_machine = " + std::to_string(kVersion) +
                     "\nname = " + toml_quoted(cluster.name) + "\n";
  for (const DeviceSpec& device : cluster.devices) text += "\n" + device_text(device, source);
  for (const ClusterPart& part : cluster.parts) text += part_text(cluster, part);
  for (const ClusterLink& link : cluster.links) {
    text += "\n[[joint]]\na = " + toml_quoted(cluster.parts[static_cast<size_t>(link.a)].name) +
            "\nb = " + toml_quoted(cluster.parts[static_cast<size_t>(link.b)].name) +
            "\nkind = " + toml_quoted(link.kind) + "\ngbps = " + toml_number(link.gbps) +
            "\nlatency_us = " + toml_number(link.latency_us) + "\n";
  }
  return text;
}

Cluster find_cluster(const std::string& name_or_path) {
  for (const BuiltinMachine& machine : builtin_machines()) {
    if (machine.name == name_or_path) return parse_cluster(machine.text, name_or_path);
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(name_or_path, error)) {
    return parse_cluster(read_machine_file(name_or_path), name_or_path);
  }
  std::string known;
  for (const std::string& name : cluster_names()) known += (known.empty() ? "" : ", ") + name;
  fail(ErrorKind::kInput, "--machine '", name_or_path, "' is no file and no machine known here; ",
       "known are ", known);
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const BuiltinMachine& machine : builtin_machines()) names.emplace_back(machine.name);
  return names;
}

}  // namespace colibri
