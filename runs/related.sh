#!/usr/bin/env bash
# The systems of the paper's related work on one backbone: trains what each needs (with the time it takes), chooses a
# configuration of each by one rule on the same validation problems, and decodes the test problems one at a time, so that
# seconds are comparable. Then the same strategies on the distilled backbone.
#   runs/related.sh --model DIR [--assistant DIR] …     see runs/common.sh; without --assistant, apd and copula are left out
source "$(dirname "$0")/common.sh"
begin related
PARTS=$OUT/parts
mkdir -p "$PARTS"

# timed NAME ARGS…: runs a training and notes how long it took.
timed() {
  local name=$1 began=$SECONDS
  shift
  run "$@"
  echo "$name: $((SECONDS - began)) s" >> "$OUT/trained.txt"
}

: > "$OUT/trained.txt"
timed "TV cache with divergences" tv-cache generate --data "$TEXTS" --limit "$(size 200 2000)" --divergence "${MODEL[@]}" --out "$PARTS/tv"
timed "mi: predictor of information" train predictor --cache "$PARTS/tv" --target kl --out "$PARTS/information.safetensors"
timed "adjust: layer" train adjust --limit "$(size 200 2000)" --steps "$(size 200 2000)" "${MODEL[@]}" --out "$PARTS/sampler.safetensors"
timed "policy: GRPO" train policy --steps "$(size 40 400)" "${MODEL[@]}" --out "$PARTS/policy.safetensors"
timed "policy: what is finally written" train policy --target final --limit "$(size 200 2000)" "${MODEL[@]}" --out "$PARTS/final.safetensors"
timed "codd: prior" train prior --limit "$(size 500 4000)" "${MODEL[@]}" --out "$PARTS/prior.safetensors"

WITH=(--information "$PARTS/information.safetensors" --sampler-layer "$PARTS/sampler.safetensors" --prior "$PARTS/prior.safetensors")
# One rule for everybody: the fastest within one standard error of the best, on the same problems.
run sweep --grid "$ROOT/configs/related.toml" --tasks "$TASKS" --split validation --limit "$(size 40 100)" \
  "${EVAL[@]}" "${WITH[@]}" --policy "$PARTS/policy.safetensors" --out "$OUT/grid"
CHOSEN=()
if [ -f "$OUT/grid/chosen.txt" ]; then mapfile -t CHOSEN < "$OUT/grid/chosen.txt"; fi
STRATEGIES=()
for strategy in "${CHOSEN[@]}"; do STRATEGIES+=(--strategy "$strategy"); done
run eval --tasks "$TASKS" "${LIMITED[@]}" --token-budget 1 "${STRATEGIES[@]}" --strategy entropy \
  "${EVAL[@]}" "${WITH[@]}" --policy "$PARTS/policy.safetensors" --out "$OUT/test"
# Learn2PD's rule is the same network with other weights.
run eval --tasks "$TASKS" "${LIMITED[@]}" --token-budget 1 --strategy policy:mode=threshold \
  "${EVAL[@]}" --policy "$PARTS/final.safetensors" --out "$OUT/learn2pd"
timed "distillation" train distill --limit "$(size 200 2000)" --steps "$(size 100 1000)" "${MODEL[@]}" --out "$PARTS/distilled"
run eval --tasks "$TASKS" "${LIMITED[@]}" --token-budget 1 --strategy entropy --strategy threshold --strategy entropy-threshold \
  --temperature 0.1 --top-p 0.9 --seed 0 --model "$PARTS/distilled/export" --out "$OUT/distilled"
