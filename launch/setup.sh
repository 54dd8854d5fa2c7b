#!/usr/bin/env bash
# Installs what the build needs from Debian's packages, if it is missing. Sourced by demo.sh and test.sh.
#   colibri_setup build   compiler and libraries
#   colibri_setup tests   these and what the tests need
#   colibri_setup full    these, a fuzzing compiler and a browser

colibri_say() { printf '== %s\n' "$*" >&2; }

colibri_packages() {
  echo g++ cmake ninja-build libopenmpi-dev openmpi-bin libhwloc-dev libspdlog-dev \
    nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libpcre2-dev libutf8proc-dev \
    libxxhash-dev libboost1.81-dev prometheus-cpp-dev pkg-config
  [ "$1" != build ] && echo libgtest-dev binutils libboost-context1.81-dev ccache
  [ "$1" = full ] && echo clang libclang-rt-dev chromium
  return 0
}

# The words of $@ that dpkg does not know as installed.
colibri_missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

colibri_setup() {
  local missing root=()
  missing=$(colibri_missing $(colibri_packages "$1"))
  if [ -z "$missing" ]; then
    colibri_say "all packages are there"
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    colibri_say "no apt-get here; install yourself:" $missing
    return 3
  fi
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { colibri_say "want root or sudo to install:" $missing; return 3; }
    root=(sudo)
  fi
  colibri_say "installing" $missing
  "${root[@]}" apt-get update -q >/dev/null
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends \
    $missing >/dev/null
}
