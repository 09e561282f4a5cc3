#!/usr/bin/env bash
# Makes the embedded model from nothing into FOLDER (about seventeen hours on two cores); every step continues where it was
# stopped. What FOLDER/tiny holds in the end is what crates/tiny/checkpoint holds.
#   runs/tiny.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/out/tiny}
cargo build --release --workspace --locked
demask=${CARGO_TARGET_DIR:-target}/release/demask
mkdir -p "$out"

# The backbone; its assistant is the same weights, taught to read from left to right again.
"$demask" pretrain --config configs/pretrain-tiny.toml --out "$out/run"
mkdir -p "$out/tiny"
cp "$out"/run/export/* "$out/tiny/"
"$demask" pretrain --config configs/assistant-tiny.toml --from "$out/tiny" --tokenizer "$out/tiny" --out "$out/causal"
# Only now: a checkpoint whose folder `assistant` is empty is refused.
mkdir -p "$out/tiny/assistant"
cp "$out"/causal/causal/{config.json,model.safetensors} "$out/tiny/assistant/"

# The dependency predictor, then its stability head.
"$demask" tv-cache generate --model "$out/tiny" --data task:all --limit 1500 --masks-per-response 2 --gamma 0.97 \
    --pad-to 24,32,48,64,104 --out "$out/cache"
"$demask" tv-cache info "$out/cache"
"$demask" train predictor --cache "$out/cache" --hidden-row i-1 --config configs/predictor-tiny.toml \
    --out "$out/predictor.safetensors"
"$demask" train stability --model "$out/tiny" --predictor "$out/predictor.safetensors" --data task:all --limit 600 \
    --rounds 2 --pad-to 24,32,48,64,104 --out "$out/heads.safetensors"
cp "$out/heads.safetensors" "$out/tiny/predictor.safetensors"

"$demask" train scope --model "$out/tiny" --out "$out/tiny"

# The default decoder, chosen on validation problems of all tasks among DEMASK's starts and thresholds.
"$demask" sweep --model "$out/tiny" --grid configs/tiny-default.toml --halving --split validation --tasks all --limit 60 \
    --out "$out/choice"
chosen=$(grep -m1 -o '^demask[^ ]*' "$out/choice/chosen.txt")
sed "s/\"strategy\": .*/\"strategy\": \"$chosen\"/; s/\"max_new_tokens\": .*/\"max_new_tokens\": 96,/" \
    crates/tiny/checkpoint/generation_config.json > "$out/tiny/generation_config.json"
echo "$out/tiny is the checkpoint; its default is $chosen"
