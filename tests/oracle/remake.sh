#!/usr/bin/env bash
# Remakes every oracle fixture with the pinned packages, in a virtual environment of its own.
# usage: tests/oracle/remake.sh [VENV_DIR] [-- arguments of make_fixtures.py]
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$here/../../build/oracle-venv"
if [[ $# -gt 0 && $1 != "--" ]]; then
  venv="$1"
  shift
fi
if [[ ${1:-} == "--" ]]; then
  shift
fi

if [[ ! -x "$venv/bin/python" ]]; then
  echo "making the virtual environment $venv"
  python3 -m venv "$venv"
fi
echo "installing the pinned packages (torch is several GB when it comes with CUDA)"
"$venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
echo "making the fixtures"
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "$here/make_fixtures.py" "$@"
