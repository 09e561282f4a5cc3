#!/usr/bin/env bash
# Figure 2: the slack of the sub-additivity assumption by size of the set.
source "$(dirname "$0")/common.sh"
begin fig_subadditivity
EXAMPLES=5000; [ $QUICK = 1 ] && EXAMPLES=1000
run validate sub-additivity --data task:all --examples $EXAMPLES --masks-per-response 5 "${MODEL[@]}" --out "$OUT"
