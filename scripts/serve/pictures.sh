#!/usr/bin/env bash
# Retakes README's pictures from what is committed: docs/denoising.svg, docs/page-light.png, docs/page-phone-dark.png.
# Fails where an answer in them is wrong or the decoder is not the embedded model's default.
set -euo pipefail
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/chromium.sh"
docs=${1:-$repository/docs}
prompt="Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?"
for strategy in demask entropy; do
    answer=$("$DEMASK" generate -s "$strategy" --trace "$scratch/$strategy.jsonl" "$prompt")
    case $answer in
        *14*) ;;
        *) echo "$strategy is wrong: $answer" >&2; exit 1 ;;
    esac
done
"$DEMASK" trace view "$scratch/demask.jsonl" "$scratch/entropy.jsonl" --svg "$docs/denoising.svg" >/dev/null
start_server
export SHOTS=$docs
node "$repository/scripts/serve/pictures.mjs" "$url"
for picture in page-light page-phone-dark; do
    [ "$(stat -c %s "$docs/$picture.png")" -lt 300000 ] || { echo "$picture.png is larger than 300 KB" >&2; exit 1; }
done
