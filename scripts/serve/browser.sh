#!/usr/bin/env bash
# The page in Chromium, as people use it. SHOTS=DIR also keeps screenshots, ONLY=WORD runs the tests with it in their names.
set -euo pipefail
source "$(dirname "$0")/common.sh"
model_args "$@"
source "$(dirname "$0")/chromium.sh"
# The same stage as a file, of two decodings.
for strategy in demask entropy; do
    "$DEMASK" generate ${model[@]+"${model[@]}"} -s "$strategy" --quiet -n 32 --trace "$scratch/$strategy.jsonl" --trace-dependency \
        "Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?" >/dev/null 2>&1
done
"$DEMASK" trace view ${model[@]+"${model[@]}"} "$scratch/demask.jsonl" "$scratch/entropy.jsonl" --html "$scratch/replay.html" >/dev/null 2>&1
start_server ${model[@]+"${model[@]}"}
export SHOTS=${SHOTS:-} REPLAY=$scratch/replay.html
node "$repository/scripts/serve/browser.mjs" "$url" ${ONLY:+"$ONLY"}
node "$repository/scripts/serve/opening.mjs" "$url" ${ONLY:+"$ONLY"}
