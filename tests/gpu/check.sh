#!/usr/bin/env bash
# Checks colibri on one GPU and measures it, in under eight minutes, without network or MPI.
#   ./check.sh                             in the folder that tests/gpu/pack.sh made
#   tests/gpu/check.sh --programs build/cuda --data .       with programs built here
#   ... --simulated                        the same steps with tiny sizes, on the simulated device
# Steps fail or run out of time on their own; all are tried. The tables come last, logs of all steps lie
# in $OUT (gpu-check where it is not set). Ends with 1 when a step failed.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
programs=$here/bin data=$here simulated=no
while [ $# -gt 0 ]; do
  case "$1" in
    --programs) programs=$(cd "$2" && pwd) || exit 2; shift 2 ;;
    --data) data=$(cd "$2" && pwd) || exit 2; shift 2 ;;
    --simulated) simulated=yes; shift ;;
    *) echo "check.sh: unknown option '$1'; want --programs DIR, --data DIR or --simulated" >&2; exit 2 ;;
  esac
done
out=${OUT:-$PWD/gpu-check}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
cd "$data" || exit 2  # packed programs look for configs/ and tests/data/ where they start
if [ -d "$here/lib" ]; then
  export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  # The packed compiler's libraries where the machine has none or older ones.
  if ! ldd "$programs/gpu_bench" >/dev/null 2>&1 || ldd "$programs/gpu_bench" 2>&1 | grep -q 'not found'; then
    export LD_LIBRARY_PATH="$here/lib/compiler:$LD_LIBRARY_PATH"
  fi
fi

budget_s=460  # for all steps
names=() results=() failed=0

record() { names+=("$1"); results+=("$2"); printf '%-28s %s\n' "$1" "$2"; }
skip() { record "$1" "skipped: $2"; }

# A test program that ran nothing has not passed.
passed() {
  local name=$1 log=$2 result=$3 num_skipped
  num_skipped=$(grep -c '^\[  SKIPPED \] .* ms)' "$log")
  if [ "$num_skipped" -gt 0 ]; then
    result="$result, $num_skipped skipped ($(grep -B 1 -m 1 '^\[  SKIPPED \]' "$log" | head -n 1))"
  elif grep -q '^\[  PASSED  \] 0 tests' "$log"; then
    record "$name" "FAIL: no test of this name"
    failed=1
    return 1
  fi
  record "$name" "$result"
}

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 log="$out/$1.log" start=$SECONDS code
  shift 2
  limit=${COLIBRI_CHECK_STEP_S:-$limit}
  if [ "$limit" -gt $((budget_s - SECONDS)) ]; then limit=$((budget_s - SECONDS)); fi
  if [ "$limit" -lt 1 ]; then
    record "$name" "FAIL: no time left"
    failed=1
    return 1
  fi
  timeout -k 5 "$limit" "$@" >"$log" 2>&1
  code=$?
  case $code in
    0) passed "$name" "$log" "PASS in $((SECONDS - start)) s"; return ;;
    124 | 137) record "$name" "FAIL: not done after $limit s" ;;
    *) record "$name" "FAIL: exit code $code after $((SECONDS - start)) s" ;;
  esac
  failed=1
  tail -n 15 "$log" | sed 's/^/    /'
  return 1
}

# tests NAME SECONDS FILTER: a test program, of which the simulated device runs what FILTER names.
tests() {
  local filter='*'
  if [ "$simulated" = yes ]; then filter=$3; fi
  step "$1" "$2" "$programs/$1" "--gtest_filter=$filter"
}

tool() {
  command -v "$1" && return
  local folder
  for folder in "${CUDA_PATH:-/usr/local/cuda}/bin" /usr/local/cuda/bin; do
    if [ -x "$folder/$1" ]; then echo "$folder/$1"; return; fi
  done
}

clocks() {
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,power.limit,temperature.gpu \
    --format=csv 2>&1
}

tiny=()
if [ "$simulated" = yes ]; then tiny=(--tiny); fi

# 1. Is there a GPU, and what is it.
if command -v nvidia-smi >/dev/null; then clocks | tee "$out/machine.log"; fi
if ! step facts 60 "$programs/gpu_bench" "${tiny[@]}" --facts; then
  echo "check.sh: no GPU that gpu_bench can use; the rest is left out" >&2
  exit 1
fi
cat "$out/facts.log"
has_cublaslt=yes
if grep -q '^no cuBLASLt' "$out/facts.log"; then has_cublaslt=no; fi

# 2. Kernels against the CPU backend, whole models, promise 1.
tests cuda_backend_test 60 '*'
tests cuda_memory_test 60 '*'
tests cuda_kernels_test 60 'CudaRmsNorm.*:CudaRoundRows.*'
tests cuda_rows_test 90 'CudaKvWrite.*:CudaCombine.*'
tests cuda_products_test 90 '*MatMulTakesStride*'
tests cuda_exchange_test 60 'CudaLocateResults.*'
if [ "$has_cublaslt" = yes ]; then
  tests cuda_dense_test 90 'DenseProducts.MultiplyAs*'
else
  skip cuda_dense_test "no cuBLASLt"
fi
tests nccl_comm_test 60 '*MovesBytes*'
if [ "$simulated" = yes ]; then
  skip cuda_model_test "takes a minute on the simulated device"
else
  tests cuda_model_test 120
fi
if [ "$simulated" = yes ]; then
  step gpu_promise_test 180 "$programs/gpu_promise_test" \
    '--gtest_filter=*OneRank*SmallModel/bf16*:*AFew*SmallModel/q4*'
  skip nccl_two_ranks "ranks of the stand-in are processes, and these are threads"
else
  step gpu_promise_test 180 "$programs/gpu_promise_test" '--gtest_filter=-*TwoRanksOfNccl*'
  # Ranks are threads of one process: without MPI there is no other way between processes.
  NCCL_MULTI_RANK_GPU_ENABLE=1 step nccl_two_ranks 60 "$programs/gpu_promise_test" \
    '--gtest_filter=*TwoRanksOfNccl*'
fi

# 3. Speed. Clocks are left as they are found.
for part in experts products attention; do
  step "bench_$part" 90 "$programs/gpu_bench" "${tiny[@]}" "$part"
done
bench_model() {
  local weights=$1
  shift
  step "bench_model_$weights" 90 "$programs/colibri" bench --device cuda --transport local --weights "$weights" "$@"
}
if [ "$simulated" = yes ]; then
  bench_model bf16 --shape demo --layers 1 --scale-vocab -p 2 -n 2 -b 1 -r 1 --no-probes
else
  for weights in bf16 q8 q4; do
    bench_model "$weights" --shape qwen3-30b-a3b --layers 4 --scale-vocab -p 512 -n 64 -b 1,8,32 -r 3
  done
fi

# 4. Memory errors and races in the small tests.
sanitizer=$(tool compute-sanitizer)
if [ "$simulated" = yes ]; then
  skip sanitizer "the simulated device has its own"
elif [ -z "$sanitizer" ]; then
  skip sanitizer "no compute-sanitizer in PATH, \$CUDA_PATH/bin or /usr/local/cuda/bin"
else
  for kind in memcheck synccheck racecheck; do
    step "sanitizer_$kind" 60 "$sanitizer" --tool "$kind" --error-exitcode 9 \
      "$programs/cuda_kernels_test"
  done
  step sanitizer_memcheck_products 60 "$sanitizer" --tool memcheck --error-exitcode 9 \
    "$programs/cuda_products_test" '--gtest_filter=CudaQuantised*EveryWidth*:CudaBf16*EveryWidth*'
fi

# 5. Everything once more, for a document.
{
  printf '\n'
  if [ -f "$out/machine.log" ]; then cat "$out/machine.log"; clocks | tail -n +2; fi
  printf '\n| step | result |\n|---|---|\n'
  for i in "${!names[@]}"; do printf '| %s | %s |\n' "${names[$i]}" "${results[$i]}"; done
  printf '\n'
  cat "$out"/facts.log "$out"/bench_*.log
} 2>/dev/null | tee "$out/report.md"
if [ "$failed" = 1 ]; then echo "check.sh: FAIL" && exit 1; fi
echo "check.sh: PASS in $SECONDS s"
