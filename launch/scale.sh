#!/usr/bin/env bash
# A scaling experiment: every combination of ranks, batch, placement, exchange and routing, measured by `colibri bench`, predicted by the
# simulator, side by side.
#   ./launch/scale.sh --out DIR [options] -- [arguments of bench: --model DIR or --shape NAME, --weights, -p, -n, ...]
#
#   --ranks "1 2"                 numbers of ranks                                  --placements "contiguous round-robin auto"
#   --batches "1 16"              sequences at once                                 --routings "model uniform zipf:1.0"
#   --exchanges "auto"            transports: auto local mpi nccl
#   --scaling strong|weak|both    weak: the batch grows with the ranks (default strong)
#   --machine FILE                machine file to predict with (default: calibrated for each number of ranks and round, into DIR)
#   --start colibri|mpirun|srun   who starts the ranks (default colibri, its --ranks)
#   --repetitions 5               of each test                                      --rounds 1  of all of it, each with a calibration of
#                                 its own: on a machine that others use too, take three or more; medians are compared
# DIR gets points/*.json (raw samples, machine facts, command), scaling.md and scaling.svg. Points that are there already are kept, so
# that a run can go on. Variables: COLIBRI_PROGRAM (default build/release/colibri), COLIBRI_MPI_TYPE (srun's --mpi, default pmix).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=${COLIBRI_PROGRAM:-$root/build/release/colibri}
mpi=${COLIBRI_MPI_TYPE:-pmix}
unset COLIBRI_PROGRAM COLIBRI_MPI_TYPE

out= machine= start=colibri scaling=strong repetitions=5 rounds=1
ranks="1 2" batches="1" placements="contiguous" exchanges="auto" routings="model"

die() {
  echo "scale.sh: $1" >&2
  exit 2
}
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
  [ "$#" -ge 2 ] || die "$1 wants a value"
  case $1 in
    --out) out=$2 ;;
    --ranks) ranks=$2 ;;
    --batches) batches=$2 ;;
    --placements) placements=$2 ;;
    --exchanges) exchanges=$2 ;;
    --routings) routings=$2 ;;
    --scaling) scaling=$2 ;;
    --machine) machine=$2 ;;
    --start) start=$2 ;;
    --repetitions) repetitions=$2 ;;
    --rounds) rounds=$2 ;;
    *) die "'$1' is not known; see the head of this file" ;;
  esac
  shift 2
done
[ "$#" -gt 0 ] && shift
[ -n "$out" ] || die "--out is missing, want a directory"
case $start in colibri | mpirun | srun) ;; *) die "--start is '$start', want colibri, mpirun or srun" ;; esac
case $scaling in strong | weak | both) ;; *) die "--scaling is '$scaling', want strong, weak or both" ;; esac
[ -x "$program" ] || die "$program is not there; build it with: cmake --preset release && cmake --build build/release"
[ "$#" -gt 0 ] || die "want arguments of bench behind --, as: -- --shape demo -p 0 -n 32"
mkdir -p "$out/points"

# run RANKS ARGUMENTS...: colibri on so many ranks.
run() {
  local count=$1
  shift
  if [ "$count" -eq 1 ]; then
    "$program" "$@"
    return
  fi
  case $start in
    colibri) "$program" "$@" --ranks "$count" ;;
    mpirun)
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun -n "$count" --oversubscribe --bind-to none --enable-recovery --quiet "$program" "$@"
      ;;
    srun)
      srun -n "$count" --mpi="$mpi" --cpu-bind=none --gpu-bind=none --mem-bind=none --kill-on-bad-exit=0 \
        "$program" "$@"
      ;;
  esac
}

# The words of --weights and --dense-weights among bench's arguments: a calibration takes the same.
formats=()
args=("$@")
for ((i = 0; i + 1 < ${#args[@]}; ++i)); do
  case ${args[i]} in --weights | --dense-weights | --kv-dtype | --device | --threads) formats+=("${args[i]}" "${args[i + 1]}") ;; esac
done

[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds is '$rounds', want a count"

# measure RANKS BATCH PLACEMENT EXCHANGE ROUTING ARGUMENTS...: one point, unless it is there.
measure() {
  local count=$1 batch=$2 placement=$3 exchange=$4 routing=$5
  shift 5
  local name="r$count-b$batch-${placement//[^A-Za-z0-9.-]/_}-$exchange-${routing//[^A-Za-z0-9.-]/_}-round$round"
  local file=$out/points/$name.json prediction=$machine
  [ -e "$file" ] && return
  if [ -z "$prediction" ]; then
    prediction=$out/machine-r$count-round$round.toml
    [ -e "$prediction" ] || run "$count" bench --calibrate "$prediction" "${formats[@]}" >&2
  fi
  local transport=$exchange
  [ "$count" -eq 1 ] && transport=auto
  echo "scale.sh: $name" >&2
  run "$count" bench "$@" -b "$batch" -r "$repetitions" --placement "$placement" --transport "$transport" \
    --routing "$routing" --predict "$prediction" --format json >"$file.part"
  mv "$file.part" "$file"
}

for ((round = 1; round <= rounds; ++round)); do
  for count in $ranks; do
    for routing in $routings; do
      for exchange in $exchanges; do
        for placement in $placements; do
          for batch in $batches; do
            [ "$scaling" = weak ] || measure "$count" "$batch" "$placement" "$exchange" "$routing" "$@"
            [ "$scaling" = strong ] || measure "$count" $((batch * count)) "$placement" "$exchange" "$routing" "$@"
          done
        done
      done
    done
  done
done
"$program" simulate --points "$out/points" --svg "$out/scaling.svg" | tee "$out/scaling.md"
