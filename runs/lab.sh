#!/usr/bin/env bash
# Every decoder of the field on every task of the embedded model. The grids run on validation problems and choose a
# configuration of each strategy (DEMASK's on more of them, once for each start); the test problems then see all strategies at their
# defaults and as chosen.
source "$(dirname "$0")/common.sh"
begin lab
run lab --grid --split validation --limit "$(size 40 100)" "${MODEL[@]}" --out "$OUT/grid"
run sweep --grid "$ROOT/configs/lab-demask.toml" --split validation --limit "$(size 100 200)" "${MODEL[@]}" --out "$OUT/demask"
# The two-token baselines, and DEMASK at its most careful.
WITH=(--with entropy:k=2 --with token-order:k=2 --with demask:tau=0.3,gamma=0.95,start=confident)
while read -r strategy; do WITH+=(--with "$strategy"); done < <(
  # A chosen k of 1 is the default by another spelling.
  grep -v -e '^demask' -e ':k=1$' "$OUT/grid/chosen.txt"
  grep '^demask' "$OUT/demask/chosen.txt"
)
run lab --limit "$(size 200 200)" "${WITH[@]}" "${MODEL[@]}" --out "$OUT/test"
