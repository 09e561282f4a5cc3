#!/usr/bin/env bash
# Every decoder of the field on every task of the embedded model. The grids run on validation problems and choose a
# configuration of each strategy; the test problems then see all strategies at their defaults and as chosen.
source "$(dirname "$0")/common.sh"
begin lab
CHOOSE=100 N=200; [ $QUICK = 1 ] && CHOOSE=40 N=100
run lab --grid --split validation --n $CHOOSE "${MODEL[@]}" --out "$OUT/grid"
WITH=(--with entropy:k=2 --with token-order:k=2)
while read -r strategy; do WITH+=(--with "$strategy"); done < "$OUT/grid/chosen.txt"
run lab --n $N "${WITH[@]}" "${MODEL[@]}" --out "$OUT/test"
