#!/usr/bin/env bash
# Runs an example with its interpreter and looks for the demo's verse and for $WANTED in what it prints.
#   WANTED=TEXT example.sh INTERPRETER FILE ARGUMENTS...      77: there is no such interpreter here
set -euo pipefail

if ! command -v "$1" >/dev/null; then
  echo "skipped: there is no $1 here"
  exit 77
fi
said=$("$@")
echo "$said"
for wanted in "I'll to my prisoner in the innocent" "$WANTED"; do
  grep -qF "$wanted" <<<"$said" || { echo "want: $wanted"; exit 1; }
done
