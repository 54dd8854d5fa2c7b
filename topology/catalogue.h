// The catalogue of devices and links that machine files name: configs/machines/parts.toml, which
// the program carries inside, and tables of the same form in a machine file itself, which win.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "topology/device_spec.h"

namespace colibri {

struct LinkSpec {
  double nominal_gbps = 0;  // data sheet, one direction
  double gbps = 0;          // that large messages reach
  double latency_us = 0;
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

struct Catalogue {
  std::map<std::string, DeviceSpec> devices;
  std::map<std::string, LinkSpec> links;
  friend bool operator==(const Catalogue&, const Catalogue&) = default;
};

// Of TOML text with tables [device.NAME] and [link.NAME] (docs/placement.md). A number without its
// source is refused. `where` (a path) begins every message. Errors: kInput naming line, key, what
// came and what was wanted.
Catalogue parse_catalogue(std::string_view text, const std::string& where);

// The one that the program carries. Made at the first call; thread safe.
const Catalogue& builtin_catalogue();

// `more` over `base`: names of `more` win.
Catalogue merged(const Catalogue& base, const Catalogue& more);

// The TOML of a device with every number; parse_catalogue() of it gives the same device. `source`
// stands beside each number.
std::string device_text(const DeviceSpec& device, const std::string& source);

}  // namespace colibri
