#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests; ctest's summary comes last.
#   ./launch/test.sh          what CI runs
#   ./launch/test.sh --full   also the long ones: fuzzing with new inputs, every point of the invariance product
set -euo pipefail
cd "$(dirname "$0")/.."
source launch/setup.sh

full=no
case "${1:-}" in
  "") ;;
  --full) full=yes ;;
  *) echo "unknown option '$1'; want nothing or --full" >&2; exit 2 ;;
esac

colibri_setup tests
export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)

# sanitized PRESET TARGET...: builds these test programs under a sanitizer and runs their cases.
sanitized() {
  local preset=$1
  shift
  colibri_say "$preset: $*"
  cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" --target "$@"
  for program in "$@"; do "build/$preset/$program" --gtest_brief=1; done
}

sanitized debug base_test transport_test topology_test coordinator_test tokenizer_test \
  json_fields_test safetensors_test config_test config_keys_test checkpoint_test \
  checkpoint_files_test fixtures_test family_test
sanitized tsan base_test transport_test

colibri_say "release: everything"
cmake --preset release -DCOLIBRI_TESTS=on >/dev/null
cmake --build build/release
[ "$full" = yes ] && export FULL_TESTS=1
ctest --test-dir build/release -j "$jobs" --no-tests=error
