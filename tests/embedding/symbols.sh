#!/usr/bin/env bash
# What others see of libcolibri: the functions that colibri.h declares, no more and no fewer; and no MPI.
#   symbols.sh COLIBRI.H LIBCOLIBRI.SO LIBCOLIBRI.A
set -euo pipefail

declared=$(grep -oE '\bcolibri_[a-z_]+\(' "$1" | tr -d '(' | sort -u)
# In the shared library's dynamic table; in the archive but for what g++ makes unique, which is renamed.
shared=$(nm -D --defined-only "$2" | awk '{print $NF}' | sort -u)
static=$(nm -g --defined-only "$3" | awk 'NF == 3 && $3 !~ /^libcolibri\./ {print $3}' | sort -u)
failed=0
for kind in shared static; do
  if ! difference=$(diff <(echo "$declared") <(echo "${!kind}")); then
    echo "colibri.h (<) and the $kind library (>):"
    echo "$difference"
    failed=1
  fi
done
if readelf -d "$2" | grep -E 'NEEDED.*(mpi|cuda|nccl)'; then
  echo "the shared library needs what a host program may not have"
  failed=1
fi
exit $failed
