#!/usr/bin/env bash
# Table 1: every method on every task, one problem at a time as the paper's timings, parameters chosen by Figure 1.
source "$(dirname "$0")/common.sh"
begin table1
KLASS=$(chosen klass)
DEPENDENCY=$(chosen demask)
METHODS=(-s entropy -s entropy:k=2 -s top1 -s top1:k=2 -s token-order -s token-order:k=2 -s "$KLASS" -s "$(sampled "$KLASS")" -s "$DEPENDENCY")
run eval "${METHODS[@]}" --tasks "$TASKS" "${LIMITED[@]}" --token-budget 1 "${EVAL[@]}" --out "$OUT"
run table main "$OUT" --tuned "$TUNED" --out "$OUT/table1"
run table main "$OUT" --tuned "$TUNED" --forwards --out "$OUT/table1-forwards" > "$OUT/table1-forwards.txt"
