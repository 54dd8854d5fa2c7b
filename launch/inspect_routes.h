// `inspect --routes`: what a record of routes says about the routers, layer by layer.
#pragma once

#include <string>

#include "launch/run_config.h"
#include "topology/route_file.h"

namespace colibri {

// The whole record as text: the choices of its first `num_tokens` tokens, then the summary and the
// verdict (docs/routes.md). Reads the file once, one block at a time.
std::string routes_text(RouteFileReader& reader, int64_t num_tokens);

// Prints that of options.routes; returns the exit code. Errors: those of RouteFileReader.
int inspect_routes(const InspectOptions& options);

}  // namespace colibri
