// The catalogue's tables inside a TOML file. Only for .cc files of this folder.
#pragma once

#include "topology/catalogue.h"
#include "topology/toml_reader.h"

namespace colibri {

// The tables "device" and "link" of `root`; what else it holds is left to the caller.
Catalogue read_catalogue(TomlReader& root, const std::string& where);

}  // namespace colibri
