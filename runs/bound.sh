#!/usr/bin/env bash
# What the theorem bounds: how far what DEMASK unmasks together is from the model's own joint distribution, beside τ.
source "$(dirname "$0")/common.sh"
begin bound
# Few: every set takes as many passes as it has chains times positions.
run validate bound --data "$TEXTS" --limit "$(size 4 60)" "${MODEL[@]}" --out "$OUT"
