#!/usr/bin/env bash
# What DEMASK's options beyond the paper change: each against plain DEMASK over the same thresholds.
source "$(dirname "$0")/common.sh"
begin beyond
N=200; [ $QUICK = 1 ] && N=60
run sweep --grid "$ROOT/configs/beyond.toml" --split validation --limit $N "${MODEL[@]}" --out "$OUT"
