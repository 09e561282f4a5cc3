#!/usr/bin/env bash
# The fair comparison: twelve configurations of every decoder on the same validation problems (halving: what is far behind on a
# quarter of them is not tried further), one rule that chooses, then the test problems once, with fresh wording
# beside them; greedy and with the paper's sampling. The paper's own predictor (single head) is in every table: --paper FILE, else
# the one that ceiling.sh trained.
GIVEN=() PAPER=()
while [ $# -gt 0 ]; do
  case $1 in
    --paper) PAPER=(--dependency "paper=$2"); shift ;;
    *) GIVEN+=("$1") ;;
  esac
  shift
done
set -- "${GIVEN[@]}"
source "$(dirname "$0")/common.sh"
begin frontier
TRAINED=$RESULTS/ceiling/paper.safetensors
if [ ${#PAPER[@]} = 0 ] && [ -e "$TRAINED" ]; then PAPER=(--dependency "paper=$TRAINED"); fi
# The paper's rule at the paper's thresholds, whatever the checkpoint has for its own.
WITH=(--with demask:tau=0.04,gamma=0.9)
if [ ${#PAPER[@]} -gt 0 ]; then WITH+=(--with demask:dependency=paper,tau=0.04,gamma=0.9); fi
for sampling in greedy sampled; do
  HOW=(--temperature 0)
  if [ $sampling = sampled ]; then HOW=(--temperature 0.1 --top-p 0.9); fi
  run sweep --grid fair --halving --split validation --tasks "$CHOICE" --limit "$(size 6 100)" "${HOW[@]}" "${PAPER[@]}" \
    "${BENCH[@]}" "${MODEL[@]}" \
    --out "$OUT/$sampling/choice"
  TEST=$TASKS
  if [ "$TASKS" = all ]; then TEST=all,all:fresh; fi
  run lab --chosen "$OUT/$sampling/choice" "${WITH[@]}" --tasks "$TEST" --limit "$(size 20 500)" "${HOW[@]}" "${PAPER[@]}" \
    "${BENCH[@]}" "${MODEL[@]}" --out "$OUT/$sampling/test"
done
