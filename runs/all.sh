#!/usr/bin/env bash
# All tables and figures of the paper, into one folder; with --quick in under an hour on two cores with the embedded
# model. `runs/publish.sh DIR` puts what this wrote into docs/results.
HERE=$(cd "$(dirname "$0")" && pwd)
source "$HERE/common.sh"
export DEMASK
ARGS=(--out "$RESULTS" "${MODEL[@]}")
[ $QUICK = 1 ] && ARGS+=(--quick)
START=$SECONDS
for name in fig1 table1 table2 fig_subadditivity; do
  began=$SECONDS
  echo "== $name" >&2
  bash "$HERE/$name.sh" "${ARGS[@]}" | tee "$RESULTS/$name.txt"
  echo "$name took $((SECONDS - began)) s" | tee -a "$RESULTS/times.txt" >&2
done
echo "all took $((SECONDS - START)) s; results are in $RESULTS" | tee -a "$RESULTS/times.txt" >&2
