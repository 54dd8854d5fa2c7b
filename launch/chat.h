// The verb `chat`.
#pragma once

#include "launch/rank_context.h"

namespace colibri {

// Runs on every rank; returns the exit code. Rank 0 reads lines of stdin, each a turn of one
// conversation, and writes the answers to stdout as they come. /reset begins anew, /exit or the end
// of stdin leaves with 0. INT ends the answer under way, a second one before the next line leaves.
// Errors: kInput for a model without a chat template, and, where stdin is no terminal, for a
// conversation that its template or the context does not take; at a terminal those are told, and
// the turn is forgotten.
int chat(const RunConfig& config, RankContext& context);

}  // namespace colibri
