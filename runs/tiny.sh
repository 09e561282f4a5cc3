#!/usr/bin/env bash
# Makes the embedded model from nothing into FOLDER (about four hours on two cores); every step continues where it was
# stopped. crates/tiny/checkpoint was made so; its MODEL_CARD.md says what has changed since.
#   runs/tiny.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/out/tiny}
cargo build --release --workspace --locked
demask=${CARGO_TARGET_DIR:-target}/release/demask
mkdir -p "$out"

"$demask" pretrain --config configs/pretrain-tiny.toml --out "$out/run1" --stop-at 3000
"$demask" pretrain --config configs/pretrain-tiny-2.toml --from "$out/run1/export" --tokenizer "$out/run1/tokenizer" \
    --out "$out/run2"
"$demask" pretrain --config configs/pretrain-tiny-3.toml --from "$out/run2/export" --tokenizer "$out/run1/tokenizer" \
    --out "$out/run3"
"$demask" pretrain --config configs/pretrain-tiny-4.toml --from "$out/run3/export" --tokenizer "$out/run1/tokenizer" \
    --out "$out/run4" --stop-at 2000
"$demask" pretrain --config configs/pretrain-tiny-5.toml --from "$out/run4/export" --tokenizer "$out/run1/tokenizer" \
    --out "$out/run5"
"$demask" tv-cache generate --model "$out/run5/export" --data task:all --limit 4000 --pad-to 24,32,48,64 --out "$out/cache"
"$demask" tv-cache info "$out/cache"
"$demask" train predictor --cache "$out/cache" --hidden-row i-1 --config configs/predictor-tiny.toml \
    --out "$out/predictor.safetensors"

mkdir -p "$out/tiny"
cp "$out"/run5/export/* "$out/tiny/"
cp "$out/predictor.safetensors" "$out/tiny/"
echo "$out/tiny is a checkpoint folder; crates/tiny/checkpoint differs from it in generation_config.json (max_new_tokens, strategy)"
