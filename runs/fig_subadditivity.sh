#!/usr/bin/env bash
# Figure 2: the slack of the sub-additivity assumption by size of the set.
source "$(dirname "$0")/common.sh"
begin fig_subadditivity
run validate sub-additivity --data "$TEXTS" --limit "$(size 1000 5000)" --masks-per-response 5 "${MODEL[@]}" --out "$OUT"
