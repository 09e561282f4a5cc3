#!/usr/bin/env bash
# Figure 1: the paper's grids on validation problems; accuracy against steps, and the configurations to use.
source "$(dirname "$0")/common.sh"
begin fig1
LIMIT=500; [ $QUICK = 1 ] && LIMIT=100
run sweep --grid paper --tasks arith --limit $LIMIT "${SAMPLING[@]}" "${MODEL[@]}" --out "$OUT"
