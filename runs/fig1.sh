#!/usr/bin/env bash
# Figure 1: the paper's grids on validation problems; accuracy against steps, and the configurations to use.
source "$(dirname "$0")/common.sh"
begin fig1
run sweep --grid paper --tasks "$TUNED" --limit "$(size 40 500)" "${EVAL[@]}" --out "$OUT"
