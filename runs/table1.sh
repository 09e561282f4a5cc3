#!/usr/bin/env bash
# Table 1: every method on every task, one problem at a time as the paper's timings, parameters chosen by Figure 1.
source "$(dirname "$0")/common.sh"
begin table1
LIMIT=500; [ $QUICK = 1 ] && LIMIT=100
METHODS=(-s entropy -s entropy:k=2 -s top1 -s top1:k=2 -s token-order -s token-order:k=2)
METHODS+=(-s "$(chosen klass)" -s "$(chosen demask)")
run eval "${METHODS[@]}" --tasks all --limit $LIMIT --token-budget 1 "${SAMPLING[@]}" "${MODEL[@]}" --out "$OUT"
run table main "$OUT" --tuned arith --out "$OUT/table1"
run table main "$OUT" --tuned arith --forwards --out "$OUT/table1-forwards" > "$OUT/table1-forwards.txt"
