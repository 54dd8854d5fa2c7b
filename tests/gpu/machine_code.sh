#!/usr/bin/env bash
# What nvcc made of the kernels: registers, spills, tensor-core products and 16-byte loads of every
# kernel and architecture, as a Markdown table; faults go to stderr and end with 1.
#   tests/gpu/machine_code.sh BUILD_DIR [cuobjdump]      BUILD_DIR: of COLIBRI_CUDA=on
# Wants cuobjdump: the argument, $COLIBRI_CUOBJDUMP, PATH, $CUDA_PATH/bin or /usr/local/cuda/bin. Without
# it (some toolkits lack it; PyPI's nvidia-cuda-cuobjdump has it) it says so and ends with 77.
set -euo pipefail

build=${1:?want the build directory}
archive=$build/kernels/libcolibri_cuda_kernels.a
if [ ! -f "$archive" ]; then
  echo "machine code: skipped, $archive is not there; build colibri_cuda_kernels with COLIBRI_CUDA=on" >&2
  exit 77
fi
cuobjdump=
for candidate in "${2:-}" "${COLIBRI_CUOBJDUMP:-}" "$(command -v cuobjdump || true)" \
  "${CUDA_PATH:-/usr/local/cuda}/bin/cuobjdump" /usr/local/cuda/bin/cuobjdump; do
  if [ -z "$cuobjdump" ] && [ -n "$candidate" ] && [ -x "$candidate" ]; then cuobjdump=$candidate; fi
done
if [ -z "$cuobjdump" ]; then
  echo "machine code: skipped, no cuobjdump in PATH, \$CUDA_PATH/bin or /usr/local/cuda/bin" >&2
  exit 77
fi
# It calls nvdisasm, which may lie beside it only.
export PATH="$(dirname "$(readlink -f "$cuobjdump")"):$PATH"

# "regs ARCH MANGLED REGISTERS STACK" and "sass ARCH MANGLED MMA WIDE ASYNC LOCAL", a line a kernel.
resources() {
  "$cuobjdump" --dump-resource-usage "$archive" | awk '
    /^arch = / { arch = $3 }
    / Function / { name = $2; sub(/:$/, "", name) }
    /REG:/ { match($0, /REG:[0-9]+/); reg = substr($0, RSTART + 4, RLENGTH - 4)
             match($0, /STACK:[0-9]+/); print "regs", arch, name, reg, substr($0, RSTART + 6, RLENGTH - 6) }'
}
instructions() {
  "$cuobjdump" --dump-sass "$archive" | awk '
    function flush() { if (name != "") print "sass", arch, name, mma, wide, async, local_; name = "" }
    /^\tcode for / { flush(); arch = $3 }
    /^\t\tFunction : / { flush(); name = $3; mma = wide = async = local_ = 0; next }
    / [IHQ]MMA\./ || / OMMA\./ { ++mma }
    / LDG\.[A-Z0-9.]*128/ { ++wide }
    / LDGSTS\.[A-Z0-9.]*128/ { ++async }
    / (LDL|STL)[. ]/ { ++local_ }
    END { flush() }'
}

# Names without namespaces, return types and parameters, as one word each.
short_names() {
  c++filt | sed -E 's/unsigned short/bf16/g; s/colibri::(cuda::)?//g; s/\(DType\)6/q8/g; s/\(DType\)7/q4/g
    s/\(bool\)1/true/g; s/\(bool\)0/false/g; s/ void / /; s/>\(.*\) ([0-9 ]+)$/> \1/; s/\(.*\) ([0-9 ]+)$/ \1/
    s/, ?/,/g; s/ >/>/g'
}

{ resources; instructions; } | short_names | awk '
  $1 == "regs" { key = $2 " " $3; regs[key] = $4; stack[key] = $5; archs[$2]; names[$3] }
  $1 == "sass" { key = $2 " " $3; mma[key] = $4; wide[key] = $5; async[key] = $6; spill[key] = $7; names[$3] }
  function fault(what) { print "machine code: " what | "cat >&2"; ++faults }
  # "a/b/c", or "a" where all are alike.
  function joined(values, name,   i, text, all) {
    all = 1
    for (i = 1; i <= n; ++i) {
      text = text (i > 1 ? "/" : "") values[sorted[i] " " name]
      if (values[sorted[i] " " name] != values[sorted[1] " " name]) all = 0
    }
    return all ? values[sorted[1] " " name] : text
  }
  END {
    n = split("sm_80 sm_90 sm_100 sm_120", order, " ")
    m = 0
    for (i = 1; i <= n; ++i) if (order[i] in archs) sorted[++m] = order[i]
    n = m
    if (n == 0) { fault("no kernels found"); exit 1 }
    heads = sorted[1]
    for (i = 2; i <= n; ++i) heads = heads "/" substr(sorted[i], 4)
    print "| kernel | registers " heads " | spills | tensor products | 16-byte loads | asynchronous |"
    print "|---|---:|---:|---:|---:|---:|"
    sorter = "sort"
    for (name in names) {
      print "| `" name "` | " joined(regs, name) " | " joined(spill, name) " | " joined(mma, name) " | " \
            joined(wide, name) " | " joined(async, name) " |" | sorter
      for (i = 1; i <= n; ++i) {
        key = sorted[i] " " name
        if (spill[key] != 0) fault(name " of " sorted[i] " reads or writes local memory " spill[key] " times")
        if (name ~ /(quantised|bf16)_?[a-z]*_kernel/ && name ~ /^(ffn|matmul|batched)/) {
          if (mma[key] == 0) fault(name " of " sorted[i] " has no tensor-core product")
          if (name ~ /true>$/ && wide[key] + async[key] == 0) fault(name " of " sorted[i] " has no 16-byte load")
        }
      }
    }
    close(sorter)
    exit faults > 0
  }'
