#!/bin/sh
# Fetches the weights of three wheels, converts them, and measures on them.
#   run.sh PYTHON DEMASK WORK REACTIONS.csv ANTIBODIES.csv
# See README.md; what it found is in docs/results/real-weights.md. Caches and trainings that are there are not made again.
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

"$python" "$here/sequences.py" split "$work/data/reactions.txt" "$work/data/reactions" 100 150
"$python" "$here/sequences.py" split "$work/data/reactions.txt" "$work/data/given" 100 150 --given
"$python" "$here/sequences.py" split "$work/data/antibodies.txt" "$work/data/antibodies" 100 150

additivity() { # model, sequences, how many of them, masks of each
    mkdir -p "$work/results/$1"
    "$demask" validate sub-additivity --model "$work/models/$1" --data "$work/data/$2/held-out.jsonl" \
        --out "$work/results/$1/sub-additivity" --limit "$3" --masks-per-response "$4"
}
additivity rxnfp reactions 40 2
additivity rxnmapper reactions 20 2
additivity antiberty antibodies 12 2

# rxnfp: a cache, two predictors, and decoders whose settings are chosen on the validation sequences.
model=$work/models/rxnfp out=$work/results/rxnfp data=$work/data/reactions
"$demask" tv-cache generate --model "$model" --data "$data/train.jsonl" --out "$out/cache" --max-tokens 80 \
    --masks-per-response 7 --gamma 0.97 --hidden i --responses-per-file 16
"$demask" tv-cache info "$out/cache"
"$demask" train predictor --cache "$out/cache" --out "$out/paper.safetensors" --hidden-row i \
    --config "$here/predictor-paper.toml"
"$demask" train predictor --cache "$out/cache" --out "$out/predictor.safetensors" --hidden-row i \
    --config "$here/predictor.toml"
"$python" "$here/infill.py" "$demask" "$model" "$data/validation.txt" --out "$out/validation.json" \
    --predictor "$out/predictor.safetensors" --longest 90 --limit 30
"$python" "$here/infill.py" "$demask" "$model" "$data/held-out.txt" --out "$out/held-out.json" \
    --predictor "$out/predictor.safetensors" --longest 90 --limit 60 --chosen "$out/validation.json"
"$demask" validate bound --model "$model" --predictor "$out/predictor.safetensors" --data "$work/data/given/held-out.jsonl" \
    --limit 5 -n 16 --chains 8 --eos none --out "$out/bound"

# rxnmapper without a predictor.
"$python" "$here/infill.py" "$demask" "$work/models/rxnmapper" "$data/held-out.txt" --share 0.3 --longest 90 --limit 30 \
    --strategies "entropy:k=1;threshold:threshold=0.9;threshold:threshold=0.5;eb:gamma=0.2;eb:gamma=0.8" \
    --out "$work/results/rxnmapper/held-out.json"
