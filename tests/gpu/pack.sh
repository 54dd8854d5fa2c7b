#!/usr/bin/env bash
# Builds what tests/gpu/check.sh runs and packs it for a GPU machine that has a driver and nothing else:
# programs without MPI, libcolibri_cuda.so, the shared libraries that they need, the models. cuBLASLt and
# NCCL are too large to ship; they are used where the machine has them (LD_LIBRARY_PATH, $CUDA_PATH or
# /usr/local/cuda).
#   tests/gpu/pack.sh [ARCHITECTURE]     90 where not given; 80, 90 or 100. Needs nvcc of CUDA 12.8, no GPU
# The folder is build/gpu-bundle; run check.sh there.
set -euo pipefail
cd "$(dirname "$0")/../.."

architecture=${1:-90}
build=build/gpu bundle=build/gpu-bundle
programs="colibri gpu_bench gpu_promise_test cuda_backend_test cuda_kernels_test cuda_rows_test
  cuda_products_test cuda_exchange_test cuda_dense_test cuda_memory_test cuda_model_test nccl_comm_test"

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOLIBRI_TESTS=on -DCOLIBRI_MPI=off \
  -DCOLIBRI_CUDA=on -DCMAKE_CUDA_ARCHITECTURES="$architecture-real" -DCOLIBRI_TESTED_DIR=. \
  -DCMAKE_CUDA_FLAGS=--compress-mode=size >/dev/null
cmake --build "$build" --target gpu_programs

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/tests/data" "$bundle/configs/models"
for program in $programs libcolibri_cuda.so; do
  cp "$build/$program" "$bundle/bin/"
  strip "$bundle/bin/$program"
done
# All shared libraries but those of the C library, which belongs to the machine.
for program in "$bundle"/bin/*; do ldd "$program"; done | awk '/=> \// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} "$bundle/lib/"
# The compiler's own only where the machine's are too old: they ask for a newer C library than the rest.
mkdir "$bundle/lib/compiler"
mv "$bundle"/lib/libstdc++.so.* "$bundle"/lib/libgcc_s.so.* "$bundle/lib/compiler/"
cp -r tests/data/models "$bundle/tests/data/"
cp -r configs/models/demo "$bundle/configs/models/"
cp tests/gpu/check.sh "$bundle/"

bytes=$(du -sb "$bundle" | cut -f 1)
newest_c=$(objdump -T "$bundle"/bin/* "$bundle"/lib/*.so* | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sort -uV | tail -n 1)
echo "$bundle: $((bytes / 1048576)) MiB for sm_$architecture; the machine's C library must know $newest_c"
if [ "$bytes" -gt $((64 << 20)) ]; then
  echo "pack.sh: more than 64 MiB" >&2
  exit 1
fi
