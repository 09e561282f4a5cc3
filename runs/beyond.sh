#!/usr/bin/env bash
# What DEMASK's options beyond the paper change: each against plain DEMASK over the same thresholds.
source "$(dirname "$0")/common.sh"
begin beyond
run sweep --grid "$ROOT/configs/beyond.toml" --split validation --limit "$(size 20 200)" "${MODEL[@]}" --out "$OUT"
