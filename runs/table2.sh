#!/usr/bin/env bash
# Table 2: DEMASK and KLASS without EOS filling, and the same with filling. The embedded model's tasks get a canvas that
# is longer than their answers; benchmarks have one.
source "$(dirname "$0")/common.sh"
begin table2
KLASS=$(chosen klass)
DEPENDENCY=$(chosen demask)
COMMON=(-s "$DEPENDENCY" -s "$KLASS" -s "$(sampled "$KLASS")" --tasks "$TASKS" "${LIMITED[@]}" --token-budget 1 "${EVAL[@]}")
[ "$TASKS" != all ] || COMMON+=(--max-new-tokens 128)
run eval "${COMMON[@]}" --eos none --out "$OUT/without"
run eval "${COMMON[@]}" --eos fill-after --out "$OUT/with"
run table eos "$OUT/without" --out "$OUT/table2"
run table main "$OUT/with" --out "$OUT/table2-filled"
