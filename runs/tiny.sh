#!/usr/bin/env bash
# Makes the embedded model from nothing into FOLDER (many hours on two cores); every step continues where it was
# stopped. The weights in crates/tiny/checkpoint are older; their MODEL_CARD.md says so.
#   runs/tiny.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/out/tiny}
cargo build --release --workspace --locked
demask=${CARGO_TARGET_DIR:-target}/release/demask
mkdir -p "$out"

"$demask" pretrain --config configs/pretrain-tiny.toml --out "$out/run"
"$demask" tv-cache generate --model "$out/run/export" --data task:all --limit 4000 --pad-to 24,32,48,64 --out "$out/cache"
"$demask" tv-cache info "$out/cache"
"$demask" train predictor --cache "$out/cache" --hidden-row i-1 --config configs/predictor-tiny.toml \
    --out "$out/predictor.safetensors"

mkdir -p "$out/tiny"
cp "$out"/run/export/* "$out/tiny/"
cp "$out/predictor.safetensors" "$out/tiny/"
"$demask" train scope --model "$out/tiny" --out "$out/tiny"
echo "$out/tiny is a checkpoint folder; crates/tiny/checkpoint differs from it in generation_config.json (max_new_tokens, strategy)"
