#!/usr/bin/env bash
# Table 2: DEMASK and KLASS without EOS filling on a canvas longer than the answers, and the same with filling.
source "$(dirname "$0")/common.sh"
begin table2
LIMIT=500; [ $QUICK = 1 ] && LIMIT=100
METHODS=(-s "$(chosen demask)" -s "$(chosen klass)")
COMMON=(--tasks all --limit $LIMIT --token-budget 1 --max-new-tokens 96 "${SAMPLING[@]}")
run eval "${METHODS[@]}" "${COMMON[@]}" --eos none "${MODEL[@]}" --out "$OUT/without"
run eval "${METHODS[@]}" "${COMMON[@]}" --eos fill-after "${MODEL[@]}" --out "$OUT/with"
run table eos "$OUT/without" --out "$OUT/table2"
run table main "$OUT/with" --out "$OUT/table2-filled"
