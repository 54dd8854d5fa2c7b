#!/usr/bin/env bash
# The first thing to run: installs what is missing, builds, and lets the demo model write on three ranks.
#   ./launch/demo.sh [PROMPT]
set -euo pipefail
cd "$(dirname "$0")/.."
source launch/setup.sh

prompt=${1:-ROMEO:}
colibri_setup build
colibri_say "building (build/release)"
cmake --preset release -DCOLIBRI_TESTS=off >/dev/null
cmake --build build/release --target colibri
colibri_say "the demo model (5 million parameters, 16 experts) on 3 ranks goes on from: $prompt"
exec build/release/colibri generate --ranks 3 --model configs/models/demo --prompt "$prompt" \
  --max-tokens 120
