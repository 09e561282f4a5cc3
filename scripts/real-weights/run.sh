#!/bin/sh
# Fetches the weights of three wheels, converts them, and measures on them.
#   run.sh PYTHON DEMASK WORK REACTIONS.csv ANTIBODIES.csv
# See README.md; what it found is in docs/results/real-weights.md.
set -eu
if [ $# -ne 5 ]; then sed -n 2,4p "$0" >&2; exit 2; fi
python=$1 demask=$2 work=$3 reactions=$4 antibodies=$5
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work/wheels" "$work/data"
for package in rxnfp==0.1.0 antiberty==0.1.3 rxnmapper==0.4.3; do
    "$python" -m pip download --quiet --no-deps --dest "$work/wheels" "$package"
done
"$python" "$here/convert.py" "$work/wheels" "$work/models"
"$python" "$here/sequences.py" reactions "$reactions" "$work/data/reactions.txt"
"$python" "$here/sequences.py" antibodies "$antibodies" "$work/data/antibodies.txt"

"$python" "$here/expect.py" "$work/models/rxnfp" "$work/data/reactions.txt"
"$python" "$here/expect.py" "$work/models/rxnmapper" "$work/data/reactions.txt"
"$python" "$here/expect.py" "$work/models/antiberty" "$work/data/antibodies.txt"
DEMASK_REAL_WEIGHTS=$(cd "$work/models" && pwd) cargo test --release -p demask-model --test bert -- --ignored --nocapture

measure() { # model, sequences, how they are split and masked, what of them goes into the cache
    "$python" "$here/sequences.py" split "$work/data/$2.txt" "$work/data/$2" 150 $3
    out=$work/results/$1 data=$work/data/$2
    mkdir -p "$out"
    "$demask" validate sub-additivity --model "$work/models/$1" --data "$data/held-out.jsonl" --out "$out/sub-additivity" \
        --limit 100 --masks-per-response 3
    "$demask" tv-cache generate --model "$work/models/$1" --data "$data/train.jsonl" --out "$out/cache" $4
    "$demask" train predictor --cache "$out/cache" --out "$out/predictor.safetensors" --hidden-row i --epochs 60 \
        --validation 0.2 --batch 8
    "$python" "$here/infill.py" "$demask" "$work/models/$1" "$data/held-out.txt" --out "$out/infill.json" \
        --predictor "$out/predictor.safetensors" --share 0.5 $3
    "$demask" validate bound --model "$work/models/$1" --predictor "$out/predictor.safetensors" --data "$data/held-out.jsonl" \
        --limit 10 -n 24 --strategy demask --eos none --out "$out/bound"
}
measure rxnfp reactions --given "--max-tokens 80 --masks-per-response 6"
measure rxnmapper reactions --given "--max-tokens 80 --masks-per-response 6"
measure antiberty antibodies "" "--limit 200 --masks-per-response 5"
