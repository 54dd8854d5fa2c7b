#!/usr/bin/env bash
# check.sh with made-up programs: one fails, one hangs, one finds no test, one skips all; the others pass.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/programs"

made_up() { printf '#!/bin/sh\n%s\n' "$2" >"$folder/programs/$1"; chmod +x "$folder/programs/$1"; }
for name in gpu_bench cuda_backend_test cuda_memory_test cuda_exchange_test gpu_promise_test colibri; do
  made_up $name "echo '| a table |'"
done
made_up cuda_kernels_test 'echo this broke; exit 3'
made_up cuda_rows_test 'exec sleep 30'
made_up cuda_products_test 'echo "[  PASSED  ] 0 tests."'
made_up nccl_comm_test 'echo "why not"; echo "[  SKIPPED ] Nccl.Test (0 ms)"; echo "[  PASSED  ] 0 tests."'
made_up gpu_bench 'echo "no cuBLASLt: not found"'

code=0
OUT=$folder/out COLIBRI_CHECK_STEP_S=2 "$here/check.sh" --simulated --programs "$folder/programs" \
  --data "$folder" >"$folder/said" 2>&1 || code=$?

wanted() { grep -qF "$1" "$folder/said" || { echo "check.sh does not say: $1"; code=-1; }; }
[ "$code" = 1 ] || echo "exit code $code, want 1"
wanted '| cuda_kernels_test | FAIL: exit code 3'
wanted '    this broke'
wanted '| cuda_rows_test | FAIL: not done after 2 s |'
wanted '| cuda_products_test | FAIL: no test of this name |'
wanted '| cuda_dense_test | skipped: no cuBLASLt |'
wanted '1 skipped (why not)'
wanted '| nccl_two_ranks | skipped: ranks of the stand-in are processes'
wanted '| cuda_exchange_test | PASS in '
wanted '| a table |'
wanted 'check.sh: FAIL'
[ "$code" = 1 ] || { cat "$folder/said"; exit 1; }
# Without a GPU nothing else is tried.
made_up gpu_bench 'echo no GPU; exit 1'
code=0
OUT=$folder/out "$here/check.sh" --simulated --programs "$folder/programs" --data "$folder" >"$folder/said" 2>&1 ||
  code=$?
wanted 'no GPU that gpu_bench can use'
[ "$code" = 1 ] || { cat "$folder/said"; exit 1; }
