// The text form of a machine (docs/placement.md), and the machines that the program carries.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "topology/catalogue.h"
#include "topology/cluster.h"

namespace colibri {

// TOML. `where` (a path) begins every message. Errors: kInput naming line, key, what came and what
// was wanted; kUnsupported for another version of the form.
Cluster parse_cluster(std::string_view text, const std::string& where);

// The text of a machine, with the devices it uses inside and `source` beside their numbers. What is
// parsed of it is the same machine, but that memory sizes of devices are whole bytes of decimal GB.
std::string cluster_text(const Cluster& cluster, const std::string& source);

// --machine: a file, or the name of a machine that the program carries ("8xh200"). kInput for an
// unknown name, with all names.
Cluster find_cluster(const std::string& name_or_path);

// Names of the machines inside the program, in order of the alphabet.
std::vector<std::string> cluster_names();

}  // namespace colibri
