#!/bin/sh
# Every header compiles alone: check_headers.sh ROOT JOBS COMPILER FLAGS...
# A header that stands first in its own source file is proven by the build; the others are compiled
# here. Prints each that does not compile, with the compiler's first lines, and returns 1.
set -eu
cd "$1"
jobs=$2
shift 2

stands_first_in_own_source() {
  [ -f "${1%.h}.cc" ] && grep -m 1 '^#include' "${1%.h}.cc" | grep -qF "#include \"$1\""
}

for folder in base model topology transport kernels worker coordinator launch; do
  if [ -d "$folder" ]; then find "$folder" -name '*.h'; fi
done | sort | while read -r header; do
  stands_first_in_own_source "$header" || echo "$header"
done |
  # The header is the only text of an otherwise empty source.
  xargs -P "$jobs" -I '{}' sh -c '
    header=$1
    shift
    errors=$("$@" -fsyntax-only -x c++ -include "$header" /dev/null 2>&1) || {
      printf "%s does not compile alone:\n%s\n" "$header" "$errors" | head -n 12
      exit 1
    }' check '{}' "$@"
