#include "topology/catalogue.h"

#include <algorithm>
#include <array>
#include <optional>

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

OpCost read_cost(TomlReader& row, const OpCost& fallback) {
  const OpCost cost{.fixed_us = row.number_or("fixed_us", 0, 1e9, fallback.fixed_us),
                    .gbps = row.number_or("gbps", 0, kMost, fallback.gbps),
                    .gops = row.number_or("gops", 0, kMost, fallback.gops),
                    .sharpness = row.number_or("sharpness", 1, 64, fallback.sharpness),
                    .cached_gbps = row.number_or("cached_gbps", 0, kMost, 0),
                    .piece_us = row.number_or("piece_us", 0, 1e9, 0),
                    .value_ns = row.number_or("value_ns", 0, 1e9, 0)};
  if (row.text("source").empty()) row.wrong("source", "is empty");
  row.end();
  return cost;
}

void read_costs(std::optional<TomlReader> rows, std::array<OpCost, kNumOpKinds>& costs,
                const OpCost& fallback) {
  costs.fill(fallback);
  if (!rows) return;
  for (size_t i = 0; i < kNumOpKinds; ++i) {
    auto row = rows->table(to_string(static_cast<OpKind>(i)));
    if (row) costs[i] = read_cost(*row, fallback);
  }
  rows->end();
}

DeviceSpec read_device(TomlReader& reader, const std::string& name) {
  DeviceSpec device{.name = name};
  const std::string kind = reader.text("kind");
  if (kind != "gpu" && kind != "cpu") reader.wrong("kind", "is '", kind, "', want gpu or cpu");
  device.is_gpu = kind == "gpu";
  device.memory_bytes =
      static_cast<int64_t>(kBytesInGb * reader.sourced_or("memory_gb", 0, 1e6, 0));
  device.peak_gbps = reader.sourced("peak_gbps", 1e-3, kMost);
  const double read_share = reader.sourced_or("read_share", 0.01, 1, 0.8);
  const double compute_share = reader.sourced_or("compute_share", 0.01, 1, 0.6);
  const Defaults defaults{
      .op_us = reader.sourced_or("op_us", 0, 1e6, 0),
      .gbps = device.peak_gbps * read_share,
      .wide_gops = compute_share * reader.sourced("wide_gops", 1e-3, kMost),
      .narrow_gops = compute_share * reader.sourced("narrow_gops", 1e-3, kMost)};
  device.cache_bytes = kBytesInGb * reader.sourced_or("cache_gb", 0, 1e3, 0);
  device.exchange_us = reader.sourced_or("exchange_us", 0, 1e6, 0);
  device.exchange_us_per_peer = reader.sourced_or("exchange_us_per_peer", 0, 1e6, 0);
  device.exchange_sharpness = reader.sourced_or("exchange_sharpness", 0.25, 64, 1);
  device.exchange_tail = reader.sourced_or("exchange_tail", 0, 64, 0);
  device.exchange_uncached = reader.sourced_or("exchange_uncached", 1, 1e3, 1);
  device.counts_us = reader.sourced_or("counts_us", 0, 1e6, 0);
  read_costs(reader.table("wide"), device.wide, defaults.cost(false));
  read_costs(reader.table("narrow"), device.narrow, defaults.cost(true));
  reader.end();
  return device;
}

LinkSpec read_link(TomlReader& reader) {
  LinkSpec link;
  link.nominal_gbps = reader.sourced("nominal_gbps", 1e-6, kMost);
  link.gbps = reader.sourced("gbps", 1e-6, kMost);
  link.latency_us = reader.sourced("latency_us", 0, 1e6);
  reader.end();
  return link;
}

}  // namespace

Catalogue read_catalogue(TomlReader& root) {
  Catalogue catalogue;
  if (auto devices = root.table("device")) {
    for (const std::string& name : devices->keys()) {
      TomlReader device = *devices->table(name);
      catalogue.devices[name] = read_device(device, name);
    }
  }
  if (auto links = root.table("link")) {
    for (const std::string& name : links->keys()) {
      TomlReader link = *links->table(name);
      catalogue.links[name] = read_link(link);
    }
  }
  return catalogue;
}

Catalogue parse_catalogue(std::string_view text, const std::string& where) {
  TomlReader root(text, where);
  Catalogue catalogue = read_catalogue(root);
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
  text += sourced("cache_gb", device.cache_bytes / kBytesInGb);
  text += sourced("exchange_us", device.exchange_us);
  text += sourced("exchange_us_per_peer", device.exchange_us_per_peer);
  text += sourced("exchange_sharpness", device.exchange_sharpness);
  text += sourced("exchange_tail", device.exchange_tail);
  text += sourced("exchange_uncached", device.exchange_uncached);
  text += sourced("counts_us", device.counts_us);
  for (const bool is_narrow : {false, true}) {
    text += "[device." + toml_quoted(device.name) + (is_narrow ? ".narrow]\n" : ".wide]\n");
    for (size_t i = 0; i < kNumOpKinds; ++i) {
      const OpCost& cost = device.cost(static_cast<OpKind>(i), is_narrow);
      text += std::string(to_string(static_cast<OpKind>(i))) +
              " = {fixed_us = " + toml_number(cost.fixed_us) +
              ", gbps = " + toml_number(cost.gbps) + ", gops = " + toml_number(cost.gops) +
              ", sharpness = " + toml_number(cost.sharpness) +
              ", cached_gbps = " + toml_number(cost.cached_gbps) +
              ", piece_us = " + toml_number(cost.piece_us) +
              ", value_ns = " + toml_number(cost.value_ns) + from;
    }
  }
  return text;
}

}  // namespace colibri
