#!/usr/bin/env bash
# The fair comparison on a second backbone, of another seed and size, on which nothing was developed: pre-trained in an hour on two
# cores, its predictor and stability head by the embedded model's commands and the paper's predictor beside them, then the same grid,
# rule and problems for every decoder.
source "$(dirname "$0")/common.sh"
begin second
TINY=$ROOT/crates/tiny/checkpoint BACKBONE=$OUT/backbone
if [ "${ESTIMATE:-0}" = 1 ]; then
  # The second backbone is smaller than the embedded one, whose time stands for its own.
  run sweep --grid fair --halving --split validation --limit "$(size 3 60)" --out "$OUT/choice"
  exit
fi
CONFIG=$ROOT/configs/pretrain-second.toml
if [ $QUICK = 1 ]; then
  sed -E 's/^steps = ([0-9]+)00$/steps = \1/' "$CONFIG" > "$OUT/quick.toml"
  CONFIG=$OUT/quick.toml
fi
run pretrain --config "$CONFIG" --tokenizer "$TINY" --out "$OUT/run"

# make ARGS…: what is made once.
make() { if [ -e "$OUT/made" ]; then note "$@"; else run "$@"; fi; }

if [ ! -e "$OUT/made" ]; then
  mkdir -p "$BACKBONE"
  cp "$OUT"/run/export/* "$BACKBONE/"
fi
make tv-cache generate --model "$BACKBONE" --data task:all --limit "$(size 100 1500)" --masks-per-response 2 --gamma 0.97 \
  --pad-to 24,32,48,64,104 --out "$OUT/cache"
make train predictor --model "$BACKBONE" --cache "$OUT/cache" --hidden-row both --config "$ROOT/configs/ceiling/paper.toml" \
  --out "$OUT/paper.safetensors"
make train predictor --model "$BACKBONE" --cache "$OUT/cache" --hidden-row i-1 --config "$ROOT/configs/predictor-tiny.toml" \
  --out "$OUT/predictor.safetensors"
make train stability --model "$BACKBONE" --predictor "$OUT/predictor.safetensors" --data task:all --limit "$(size 40 600)" --rounds 2 \
  --pad-to 24,32,48,64,104 --out "$OUT/heads.safetensors"
if [ ! -e "$OUT/made" ]; then
  cp "$OUT/heads.safetensors" "$BACKBONE/predictor.safetensors"
  touch "$OUT/made"
fi
PAPER=(--dependency "paper=$OUT/paper.safetensors")
run sweep --model "$BACKBONE" --grid fair --halving --split validation --tasks all --limit "$(size 3 60)" "${PAPER[@]}" --out "$OUT/choice"
run lab --model "$BACKBONE" --chosen "$OUT/choice" --tasks all --limit "$(size 10 200)" "${PAPER[@]}" --out "$OUT/test"
