#!/usr/bin/env bash
# Everything docs/results shows, into one folder: the paper's figures and tables, every decoder (frontier), DEMASK's options, its ceiling,
# a second backbone, the systems of the related work. Says first how long it will take; stopped, it goes on where it was. With --quick and the
# embedded model under an hour on two cores. `runs/publish.sh DIR` puts what this wrote into docs/results.
#   runs/all.sh [--quick] [--estimate] …     see runs/common.sh; --estimate stops after saying how long
GIVEN=() ONLY_ESTIMATE=0
for arg in "$@"; do
  if [ "$arg" = --estimate ]; then ONLY_ESTIMATE=1; else GIVEN+=("$arg"); fi
done
HERE=$(cd "$(dirname "$0")" && pwd)
set -- "${GIVEN[@]}"
source "$HERE/common.sh"
export DEMASK
mkdir -p "$RESULTS"
SCRIPTS=(fig1 table1 table2 fig_subadditivity beyond frontier ceiling second related)

: > "$RESULTS/estimate.txt"
for name in "${SCRIPTS[@]}"; do ESTIMATE=1 bash "$HERE/$name.sh" "${GIVEN[@]}" > /dev/null; done
awk '{ all += $1 } END { printf "decoding will take about %d minutes; what is trained for related.sh and sub-additivity come on top\n", (all + 59) / 60 }' \
  "$RESULTS/estimate.txt" >&2
if [ $ONLY_ESTIMATE = 1 ]; then exit; fi

: > "$RESULTS/times.txt"
START=$SECONDS
for name in "${SCRIPTS[@]}"; do
  began=$SECONDS
  echo "== $name" >&2
  bash "$HERE/$name.sh" "${GIVEN[@]}" | tee "$RESULTS/$name.txt"
  echo "$name took $((SECONDS - began)) s" | tee -a "$RESULTS/times.txt" >&2
done
echo "all took $((SECONDS - START)) s" | tee -a "$RESULTS/times.txt" >&2
echo "results are in $RESULTS" >&2
