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
# The ceiling first: it trains the paper's predictor, which the frontier has in its tables.
SCRIPTS=(fig1 table1 table2 fig_subadditivity bound beyond ceiling frontier second related)
# Of benchmarks the paper's own results and the comparison: the others are about small models and generated tasks.
if [ $BENCHMARKS = 1 ]; then SCRIPTS=(fig1 table1 table2 fig_subadditivity bound frontier); fi

# What is missing is told before the first forward pass: data, the leave to run programs, a predictor.
case $TEXTS in
  /*|./*|*.jsonl|*.parquet) [ -e "$TEXTS" ] || { echo "$TEXTS does not exist; --texts has the responses of Figure 2" >&2; exit 1; } ;;
esac
: > "$RESULTS/estimate.txt"
estimate eval -s demask --tasks "$TASKS" --limit 1 "${EVAL[@]}" --out "$RESULTS/none"
estimate sweep --only demask --tasks "$TUNED" --limit 1 "${EVAL[@]}" --out "$RESULTS/none"

: > "$RESULTS/estimate.txt"
for name in "${SCRIPTS[@]}"; do ESTIMATE=1 bash "$HERE/$name.sh" "${GIVEN[@]}" > /dev/null; done
awk '{ all += $1 } END { printf "decoding will take about %d minutes; on top come sub-additivity, the bound and what ceiling.sh, related.sh and second.sh (an hour on two cores, without --quick) train\n", (all + 59) / 60 }' \
  "$RESULTS/estimate.txt" >&2
if [ $ONLY_ESTIMATE = 1 ]; then exit; fi

# What a script took in all its sittings.
CLOCK=
account() {
  if [ -n "$CLOCK" ]; then echo $(($(cat "$CLOCK" 2> /dev/null || echo 0) + SECONDS - BEGAN)) > "$CLOCK"; fi
  CLOCK=
}
trap account EXIT
rm -f "$RESULTS/times.txt"
for name in "${SCRIPTS[@]}"; do
  echo "== $name" >&2
  CLOCK=$RESULTS/$name.seconds BEGAN=$SECONDS
  bash "$HERE/$name.sh" "${GIVEN[@]}" | tee "$RESULTS/$name.txt"
  account
  echo "$name took $(cat "$RESULTS/$name.seconds") s" >&2
done
ALL=0
for name in "${SCRIPTS[@]}"; do
  took=$(cat "$RESULTS/$name.seconds") ALL=$((ALL + $(cat "$RESULTS/$name.seconds")))
  echo "$name took $took s"
done > "$RESULTS/times.txt"
echo "all took $ALL s" | tee -a "$RESULTS/times.txt" >&2
echo "results are in $RESULTS" >&2
