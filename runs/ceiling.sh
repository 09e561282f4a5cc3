#!/usr/bin/env bash
# How far dependency carries: the paper's rule with the true D (its ceiling, at |M| passes more a step), with the paper's single head,
# with each step from it to the embedded model's predictor, of which three are trained from three seeds, and with no dependency at
# all. One configuration of each is chosen by one rule on the same validation problems and run on the same test problems once.
source "$(dirname "$0")/common.sh"
begin ceiling
CACHE=$OUT/cache
WITH=()
run tv-cache generate --data "$TEXTS" --limit "$(size 300 1500)" --masks-per-response 2 --gamma 0.97 --pad-to 24,32,48,64,104 "${MODEL[@]}" \
  --out "$CACHE"

# predictor NAME CONFIG SEED [ROW]: one of the predictors, unless it is there; what its training says is kept.
predictor() {
  local file=$OUT/$1.safetensors
  WITH+=(--dependency "$1=$file")
  if [ "${ESTIMATE:-0}" = 1 ]; then return; fi
  local how=(train predictor --cache "$CACHE" --hidden-row "${4:-i-1}" --config "$ROOT/configs/$2.toml" --seed "$3" "${MODEL[@]}" --out "$file")
  if [ -e "$file" ]; then note "${how[@]}"; else run "${how[@]}" | tee "$OUT/$1.txt"; fi
}
# The paper does not say which row; its head is better off with the other one here.
predictor paper ceiling/paper 1 both
predictor heads ceiling/heads 1
predictor layers ceiling/layers 1
for seed in 1 2 3; do predictor "certain$seed" predictor-tiny "$seed"; done
if [ "${ESTIMATE:-0}" = 1 ]; then WITH=(--skip-missing); fi

run sweep --grid "$ROOT/configs/ceiling/grid.toml" --split validation --tasks "$CHOICE" --limit "$(size 5 40)" "${WITH[@]}" "${BENCH[@]}" "${MODEL[@]}" \
  --out "$OUT/choice"
if [ "${ESTIMATE:-0}" = 1 ]; then exit; fi
run lab --chosen "$OUT/choice" --tasks "$TASKS" --limit "$(size 10 200)" "${WITH[@]}" "${BENCH[@]}" "${MODEL[@]}" --out "$OUT/test"
