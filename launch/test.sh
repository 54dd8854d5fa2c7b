#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; ctest's summary comes last.
#   ./launch/test.sh          what CI runs
#   ./launch/test.sh --full   also the long ones: a minute of fuzzing a target, gigabytes of experts,
#                             the page in a browser, and nvcc's build where there is an nvcc
set -euo pipefail
cd "$(dirname "$0")/.."
source launch/setup.sh

full=no
case "${1:-}" in
  "") ;;
  --full) full=yes ;;
  *) echo "unknown option '$1'; want nothing or --full" >&2; exit 2 ;;
esac

if [ "$full" = yes ]; then colibri_setup full; else colibri_setup tests; fi
export CTEST_OUTPUT_ON_FAILURE=1
# The simulated and the release build compile most files with the same words: once is enough.
export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
export CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
jobs=$(nproc)

# sanitized PRESET TARGET...: builds these test programs under a sanitizer and runs their cases.
sanitized() {
  local preset=$1
  shift
  colibri_say "$preset: $*"
  cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" --target "$@"
  for program in "$@"; do timeout 600 "build/$preset/$program" --gtest_brief=1; done
}

sanitized debug base_test transport_test topology_test coordinator_test tokenizer_test \
  json_fields_test safetensors_test config_test config_keys_test checkpoint_test \
  checkpoint_files_test fixtures_test fp8_test weight_loader_test matrix_loads_test \
  random_source_test container_format_test container_test convert_resume_test launch_test family_test \
  chat_template_test chat_template_limits_test chat_template_oracle_test http_server_test
sanitized tsan base_test transport_test
if [ "$full" = yes ]; then sanitized tsan http_server_test; fi

# New inputs for a minute a target; what a target finds is left in build/fuzz and fails the run.
fuzz() {
  local target name
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release \
    -DCOLIBRI_TESTS=on -DCOLIBRI_MPI=off -DCOLIBRI_SANITIZE=address \
    -DCOLIBRI_ONLY="base;model;topology;transport;fuzz" >/dev/null
  for target in safetensors_fuzz config_fuzz container_fuzz tokenizer_fuzz chat_template_fuzz \
    wire_fuzz cluster_fuzz loads_fuzz placement_fuzz; do
    name=${target%_fuzz}
    colibri_say "fuzzing $name"
    cmake --build build/fuzz --target "$target"
    mkdir -p "build/fuzz/corpus/$name"
    "build/fuzz/$target" -max_total_time=60 -print_final_stats=1 -artifact_prefix=build/fuzz/ \
      "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name"
  done
}
if [ "$full" = yes ]; then
  fuzz
  export FULL_TESTS=1
fi

# The GPU's part for all architectures, without warnings; its tests where there is a GPU too.
with_nvcc() {
  local nvcc= candidate
  for candidate in "$(command -v nvcc || true)" "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" \
    /usr/local/cuda/bin/nvcc; do
    if [ -z "$nvcc" ] && [ -x "$candidate" ]; then nvcc=$candidate; fi
  done
  if [ -z "$nvcc" ]; then
    colibri_say "cuda: skipped, no nvcc in PATH, \$CUDA_PATH/bin or /usr/local/cuda/bin"
    return 0
  fi
  colibri_say "cuda: with $nvcc"
  cmake --preset cuda -DCMAKE_CUDA_COMPILER="$nvcc" >/dev/null
  cmake --build build/cuda --target gpu_programs
  if ! nvidia-smi -L >/dev/null 2>&1; then
    colibri_say "cuda: tests skipped, nvidia-smi finds no GPU; the machine code is looked at"
    tests/gpu/machine_code.sh build/cuda >build/cuda/machine_code.md || [ $? = 77 ]
    return 0
  fi
  ctest --test-dir build/cuda -L cuda -j 1 --no-tests=error
}
if [ "$full" = yes ]; then with_nvcc; fi

# The GPU's sources on a simulated one: kernels, models, ranks.
colibri_say "simulated GPUs"
cmake --preset cuda-simulated >/dev/null
cmake --build build/cuda-simulated --target cuda_tests
ctest --test-dir build/cuda-simulated -L cuda -j "$jobs" --no-tests=error

colibri_say "release: everything"
cmake --preset release -DCOLIBRI_TESTS=on >/dev/null
cmake --build build/release
ctest --test-dir build/release -j "$jobs" --no-tests=error
