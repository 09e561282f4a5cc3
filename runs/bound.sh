#!/usr/bin/env bash
# What the theorem bounds: how far what DEMASK unmasks together is from the model's own joint distribution, beside τ.
source "$(dirname "$0")/common.sh"
begin bound
run validate bound --data "$TEXTS" --limit "$(size 60 300)" "${MODEL[@]}" --out "$OUT"
