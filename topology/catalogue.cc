#include "topology/catalogue.h"

#include <array>
#include <cstdio>

#include "topology/builtin_machines.h"
#include "topology/catalogue_toml.h"

namespace colibri {
namespace {

constexpr double kMost = 1e12;
constexpr double kBytesInGb = 1e9;

// What an operation costs where its own row is missing, out of the data sheet.
struct Defaults {
  double op_us = 0, gbps = 0, wide_gops = 0, narrow_gops = 0;

  OpCost cost(bool is_narrow) const {
    return {.fixed_us = op_us, .gbps = gbps, .gops = is_narrow ? narrow_gops : wide_gops};
  }
};

class DeviceReader {
 public:
  DeviceReader(const toml::table& table, const std::string& where, const std::string& name)
      : where_(where), path_("device." + name), reader_(table, where, path_) {
    device_.name = name;
  }

  DeviceSpec read() {
    const std::string kind = reader_.text("kind");
    if (kind != "gpu" && kind != "cpu") reader_.wrong("kind", "is '", kind, "', want gpu or cpu");
    device_.is_gpu = kind == "gpu";
    device_.memory_bytes =
        static_cast<int64_t>(kBytesInGb * reader_.sourced_or("memory_gb", 0, 1e6, 0));
    device_.peak_gbps = reader_.sourced("peak_gbps", 1e-3, kMost);
    const double read_share = reader_.sourced_or("read_share", 0.01, 1, 0.8);
    const double compute_share = reader_.sourced_or("compute_share", 0.01, 1, 0.6);
    const Defaults defaults{
        .op_us = reader_.sourced_or("op_us", 0, 1e6, 0),
        .gbps = device_.peak_gbps * read_share,
        .wide_gops = compute_share * reader_.sourced("wide_gops", 1e-3, kMost),
        .narrow_gops = compute_share * reader_.sourced("narrow_gops", 1e-3, kMost)};
    device_.exchange_us = reader_.sourced_or("exchange_us", 0, 1e6, 0);
    device_.exchange_us_per_peer = reader_.sourced_or("exchange_us_per_peer", 0, 1e6, 0);
    device_.exchange_sharpness = reader_.sourced_or("exchange_sharpness", 0.25, 64, 1);
    device_.exchange_tail = reader_.sourced_or("exchange_tail", 0, 64, 0);
    read_costs("wide", device_.wide, defaults.cost(false));
    read_costs("narrow", device_.narrow, defaults.cost(true));
    reader_.end();
    return device_;
  }

 private:
  void read_costs(const char* form, std::array<OpCost, kNumOpKinds>& costs,
                  const OpCost& fallback) {
    costs.fill(fallback);
    const toml::table* table = reader_.table_or_null(form);
    if (table == nullptr) return;
    TomlReader rows(*table, where_, path_ + "." + form);
    for (size_t i = 0; i < kNumOpKinds; ++i) {
      const char* name = to_string(static_cast<OpKind>(i));
      const toml::table* row = rows.table_or_null(name);
      if (row != nullptr) costs[i] = cost_of(*row, path_ + "." + form + "." + name, fallback);
    }
    rows.end();
  }

  OpCost cost_of(const toml::table& table, const std::string& path, const OpCost& fallback) {
    TomlReader row(table, where_, path);
    const auto value = [&](const char* key, double low, double high, double otherwise) {
      return row.has(key) ? row.number(key, low, high) : otherwise;
    };
    const OpCost cost{.fixed_us = value("fixed_us", 0, 1e9, fallback.fixed_us),
                      .gbps = value("gbps", 0, kMost, fallback.gbps),
                      .gops = value("gops", 0, kMost, fallback.gops),
                      .sharpness = value("sharpness", 1, 64, fallback.sharpness)};
    if (row.text("source").empty()) row.wrong("source", "is empty");
    row.end();
    return cost;
  }

  const std::string& where_;
  std::string path_;
  TomlReader reader_;
  DeviceSpec device_;
};

LinkSpec read_link(const toml::table& table, const std::string& where, const std::string& name) {
  TomlReader reader(table, where, "link." + name);
  LinkSpec link;
  link.nominal_gbps = reader.sourced("nominal_gbps", 1e-6, kMost);
  link.gbps = reader.sourced("gbps", 1e-6, kMost);
  link.latency_us = reader.sourced("latency_us", 0, 1e6);
  reader.end();
  return link;
}

const toml::table& table_of(const toml::node& node, const std::string& where,
                            const std::string& name) {
  if (node.is_table()) return *node.as_table();
  fail(ErrorKind::kInput, where, " line ", node.source().begin.line, ": ", name,
       " is no table, want [", name, "]");
}

}  // namespace

Catalogue read_catalogue(TomlReader& root, const std::string& where) {
  Catalogue catalogue;
  if (const toml::table* devices = root.table_or_null("device")) {
    for (const auto& [key, node] : *devices) {
      const std::string name(key.str());
      catalogue.devices[name] =
          DeviceReader(table_of(node, where, "device." + name), where, name).read();
    }
  }
  if (const toml::table* links = root.table_or_null("link")) {
    for (const auto& [key, node] : *links) {
      const std::string name(key.str());
      catalogue.links[name] = read_link(table_of(node, where, "link." + name), where, name);
    }
  }
  return catalogue;
}

Catalogue parse_catalogue(std::string_view text, const std::string& where) {
  const toml::table table = parse_toml(text, where);
  TomlReader root(table, where, "");
  Catalogue catalogue = read_catalogue(root, where);
  root.end();
  return catalogue;
}

const Catalogue& builtin_catalogue() {
  static const Catalogue catalogue =
      parse_catalogue(builtin_parts(), "configs/machines/parts.toml");
  return catalogue;
}

Catalogue merged(const Catalogue& base, const Catalogue& more) {
  Catalogue all = more;
  all.devices.insert(base.devices.begin(), base.devices.end());
  all.links.insert(base.links.begin(), base.links.end());
  return all;
}

std::string device_text(const DeviceSpec& device, const std::string& source) {
  const std::string from = ", source = " + toml_quoted(source) + "}\n";
  const auto sourced = [&](const char* key, double value) {
    return std::string(key) + " = {value = " + toml_number(value) + from;
  };
  std::string text = "[device." + toml_quoted(device.name) + "]\n";
  text += device.is_gpu ? "kind = \"gpu\"\n" : "kind = \"cpu\"\n";
  text += sourced("memory_gb", static_cast<double>(device.memory_bytes) / kBytesInGb);
  text += sourced("peak_gbps", device.peak_gbps);
  // Every operation has a row below; these are asked for all the same.
  text += sourced("wide_gops", std::max(1.0, device.cost(OpKind::kDense, false).gops));
  text += sourced("narrow_gops", std::max(1.0, device.cost(OpKind::kDense, true).gops));
  text += sourced("exchange_us", device.exchange_us);
  text += sourced("exchange_us_per_peer", device.exchange_us_per_peer);
  text += sourced("exchange_sharpness", device.exchange_sharpness);
  text += sourced("exchange_tail", device.exchange_tail);
  for (const bool is_narrow : {false, true}) {
    text += "[device." + toml_quoted(device.name) + (is_narrow ? ".narrow]\n" : ".wide]\n");
    for (size_t i = 0; i < kNumOpKinds; ++i) {
      const OpCost& cost = device.cost(static_cast<OpKind>(i), is_narrow);
      text += std::string(to_string(static_cast<OpKind>(i))) +
              " = {fixed_us = " + toml_number(cost.fixed_us) +
              ", gbps = " + toml_number(cost.gbps) + ", gops = " + toml_number(cost.gops) +
              ", sharpness = " + toml_number(cost.sharpness) + from;
    }
  }
  return text;
}

}  // namespace colibri
