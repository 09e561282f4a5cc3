#!/usr/bin/env bash
# Fetches the published masked models as wheels, converts them, and measures on them.
#   run.sh PYTHON DEMASK WORK REACTIONS.csv ANTIBODIES.csv [MODEL…]
# MODEL is rxnfp, rxnmapper, antiberty (default: all three). See README.md; what it found is in docs/results/real-weights.md.
# What is finished is not made again, so that it can be stopped at any time and started once more. RUN may name a command to
# put in front of everything that computes, for example "nice" or "taskset -c 1".
set -euo pipefail
if [ $# -lt 5 ]; then sed -n 2,6p "$0" >&2; exit 2; fi
python=$1 demask=$2 work=$3 reactions=$4 antibodies=$5
shift 5
models=${*:-rxnfp rxnmapper antiberty}
here=$(cd "$(dirname "$0")" && pwd)
run=${RUN:-}
mkdir -p "$work/wheels" "$work/data" "$work/results"

# once FILE COMMAND…: runs a command whose last act is to write FILE, unless FILE is there.
once() {
    local made=$1
    shift
    if [ -e "$made" ]; then echo "there: $made"; return; fi
    echo "making: $made"
    $run "$@"
}

fetch() { # package, version
    once "$work/wheels/$1-$2-py3-none-any.whl" "$python" -m pip download --quiet --no-deps --dest "$work/wheels" "$1==$2"
}
run='' fetch rxnfp 0.1.0
run='' fetch antiberty 0.1.3
run='' fetch rxnmapper 0.4.3
once "$work/models/rxnmapper/NOTICE" "$python" "$here/convert.py" "$work/wheels" "$work/models"
"$python" "$here/sequences.py" reactions "$reactions" "$work/data/reactions.txt"
"$python" "$here/sequences.py" antibodies "$antibodies" "$work/data/antibodies.txt"
"$python" "$here/sequences.py" split "$work/data/reactions.txt" "$work/data/reactions" 100 150
"$python" "$here/sequences.py" split "$work/data/antibodies.txt" "$work/data/antibodies" 100 150
for list in reactions antibodies; do
    "$python" "$here/sequences.py" split "$work/data/$list.txt" "$work/data/given-$list" 100 150 --given
done

# of MODEL: the list it reads, and how much of everything it is given: a pass of antiberty costs eight times as much.
of() {
    name=$1 list=reactions longest=90
    model=$work/models/$name out=$work/results/$name
    case $name in
    rxnfp) additive=40 cache="--max-tokens 80 --masks-per-response 7" share=0.5 fills=60 ;;
    rxnmapper) additive=20 cache="--max-tokens 80 --masks-per-response 7" share=0.5 fills=60 ;;
    antiberty)
        list=antibodies longest=160 additive=12 share=0.3 fills=8
        cache="--max-tokens 200 --masks-per-response 1 --limit 80"
        ;;
    *)
        echo "no model $name: rxnfp, rxnmapper or antiberty" >&2
        exit 2
        ;;
    esac
    data=$work/data/$list
    mkdir -p "$out"
}

# The forward against transformers' own.
for name in rxnfp rxnmapper antiberty; do
    of $name
    once "$model/expected.safetensors" "$python" "$here/expect.py" "$model" "$work/data/$list.txt"
done
# What failed, or compared nothing, is kept under another name and tried again the next time.
if [ ! -e "$work/results/parity.txt" ]; then
    part=$work/results/parity.part
    DEMASK_REAL_WEIGHTS=$(cd "$work/models" && pwd) cargo test --release --workspace --test bert -- --ignored --nocapture |
        tee "$part"
    if ! grep -q '^test result: ok\. [1-9]' "$part"; then
        echo "the forwards were not compared: see $part" >&2
        exit 1
    fi
    mv "$part" "$work/results/parity.txt"
fi

for name in $models; do
    of "$name"
    once "$out/sub-additivity/summary.csv" "$demask" validate sub-additivity --model "$model" --data "$data/held-out.jsonl" \
        --out "$out/sub-additivity" --limit "$additive" --masks-per-response 2

    # A cache of its own dependencies, and predictors trained on it. Both continue where they were stopped.
    # shellcheck disable=SC2086
    once "$out/cache.done" "$demask" tv-cache generate --model "$model" --data "$data/train.jsonl" --out "$out/cache" \
        $cache --gamma 0.97 --hidden i --responses-per-file 4
    touch "$out/cache.done"
    "$demask" tv-cache info "$out/cache"
    for size in paper predictor; do
        config=$here/predictor.toml
        if [ $size = paper ]; then config=$here/predictor-paper.toml; fi
        once "$out/$size.safetensors" "$demask" train predictor --model "$model" --cache "$out/cache" \
            --out "$out/$size.safetensors" --hidden-row i --config "$config"
    done

    # Infilling: settings are chosen on other sequences than they are told on; of antiberty, for want of time, a small grid is
    # told as a whole.
    fill() { # sequences, result, more flags
        once "$out/$2" "$python" "$here/infill.py" "$demask" "$model" "$data/$1.txt" --out "$out/$2" --share "$share" \
            --predictor "$out/predictor.safetensors" --longest "$longest" "${@:3}"
    }
    if [ "$name" != antiberty ]; then
        fill validation validation.json --limit 30
        fill held-out held-out.json --limit "$fills" --chosen "$out/validation.json"
    else
        fill held-out held-out.json --limit "$fills" --short
    fi

    # The bound: what follows an arrow, or the end of a chain.
    once "$out/bound/bound.csv" "$demask" validate bound --model "$model" --predictor "$out/predictor.safetensors" \
        --data "$work/data/given-$list/held-out.jsonl" --limit 5 -n 16 --chains 8 --eos none --out "$out/bound"
done
