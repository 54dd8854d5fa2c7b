#!/usr/bin/env bash
# cmake --install, then programs that know nothing but what was installed.
#   installed.sh BUILD_DIR SOURCE_DIR HOST.CC
set -euo pipefail

build=$1
source=$2
host=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
model=$source/configs/models/demo
cmake --install "$build" --prefix "$scratch/usr" >/dev/null
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$scratch/usr" -name colibri.pc)")
libs=$(pkg-config --variable=libdir colibri)
flags="-Wall -Wextra -pedantic -Werror"

cc -std=c99 $flags "$source/examples/c/generate.c" $(pkg-config --cflags --libs colibri) -lpthread \
  -o "$scratch/shared"
LD_LIBRARY_PATH=$libs "$scratch/shared" "$model" | tee "$scratch/said"
grep -q "^I'll to my prisoner in the innocent" "$scratch/said"

# The archive, in a C++ program with templates and a locale of its own.
c++ -std=c++17 $flags "$host" $(pkg-config --cflags colibri) \
  "$libs/libcolibri.a" $(pkg-config --static --libs colibri | sed 's/-lcolibri//') -o "$scratch/static"
"$scratch/static" "$model" | tee "$scratch/said"
grep -q "^I'll to my prisoner in the innocent" "$scratch/said"

# And through CMake.
mkdir "$scratch/project"
cat >"$scratch/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(host LANGUAGES CXX)
find_package(colibri REQUIRED)
add_executable(host $host)
target_link_libraries(host PRIVATE colibri::colibri)
END
cmake -S "$scratch/project" -B "$scratch/project/build" -DCMAKE_PREFIX_PATH="$scratch/usr" >/dev/null
cmake --build "$scratch/project/build" >/dev/null
"$scratch/project/build/host" "$model" >/dev/null
