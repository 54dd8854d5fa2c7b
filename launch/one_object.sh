#!/usr/bin/env bash
# Makes an archive of one object in which only the functions of colibri.h have names for others.
#   LD= NM= OBJCOPY= AR= one_object.sh ARCHIVE.a OBJECTS-AND-ARCHIVES...
set -euo pipefail

archive=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
object=$scratch/libcolibri.o

# Of an archive only what is needed comes along. Groups would be merged with the host program's of the same name.
"$LD" -r --force-group-allocation -o "$object" --start-group "$@" --end-group
# What g++ marks unique in the process stays global whatever objcopy is told, so it gets names of its own.
"$NM" "$object" | awk '$2 == "u" {print $3, "libcolibri." $3}' >"$scratch/unique"
"$OBJCOPY" --redefine-syms="$scratch/unique" --wildcard --keep-global-symbol='colibri_*' "$object"
rm -f "$archive"
"$AR" rcs "$archive" "$object"
