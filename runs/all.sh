#!/usr/bin/env bash
# All tables and figures of the paper, into one folder; with --quick in under an hour on two cores with the embedded
# model. Stopped, it goes on where it was. `runs/publish.sh DIR` puts what this wrote into docs/results.
GIVEN=("$@")
HERE=$(cd "$(dirname "$0")" && pwd)
source "$HERE/common.sh"
export DEMASK
mkdir -p "$RESULTS"
: > "$RESULTS/times.txt"
START=$SECONDS
for name in fig1 table1 table2 fig_subadditivity; do
  began=$SECONDS
  echo "== $name" >&2
  bash "$HERE/$name.sh" "${GIVEN[@]}" | tee "$RESULTS/$name.txt"
  echo "$name took $((SECONDS - began)) s" | tee -a "$RESULTS/times.txt" >&2
done
echo "all took $((SECONDS - START)) s" | tee -a "$RESULTS/times.txt" >&2
echo "results are in $RESULTS" >&2
