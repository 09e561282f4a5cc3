#!/usr/bin/env bash
# The systems of the paper's related work on one backbone: trains what each needs (and notes how long), chooses one configuration
# of each by one rule on the same validation problems, and decodes the test problems once, one at a time, so that seconds are
# comparable. Then the same on the distilled backbone. Stopped, it goes on where it was.
#   runs/related.sh [--quick | --try] [--estimate] [--validation N] [--model DIR] …     see runs/common.sh
#   --try            only to see that everything runs: 4 validation and 6 test problems a task, trainings of a few updates
#   --validation N   validation problems of each task (default: 60); --limit N is the number of test problems (default: 200)
#   --estimate       say how long it will take, and stop
# Without --model it is the embedded model. What a model has no assistant or head for is left out, and said.
GIVEN=() TRY=0 VALIDATION= ONLY_ESTIMATE=0
while [ $# -gt 0 ]; do
  case $1 in
    --try) TRY=1 ;;
    --validation) VALIDATION=$2; shift ;;
    --estimate) ONLY_ESTIMATE=1 ;;
    *) GIVEN+=("$1") ;;
  esac
  shift
done
set -- "${GIVEN[@]}"
source "$(dirname "$0")/common.sh"
if [ $ONLY_ESTIMATE = 0 ] && [ "${ESTIMATE:-0}" = 0 ]; then begin related; else OUT=$RESULTS/related; mkdir -p "$OUT"; fi
PARTS=$OUT/parts
mkdir -p "$PARTS"

# much TRY QUICK FULL: how much of something; --limit is the number of test problems and says nothing here.
much() { if [ $TRY = 1 ]; then echo "$1"; elif [ $QUICK = 1 ]; then echo "$2"; else echo "$3"; fi; }
CHOOSE=(--limit "${VALIDATION:-$(much 4 10 60)}")
JUDGE=(--limit "${LIMIT:-$(much 6 20 200)}" --token-budget 1)

# Distillation needs a folder; the embedded model's is part of this repository.
WHERE= OTHERS=()
for ((at = 0; at < ${#MODEL[@]}; at++)); do
  case ${MODEL[at]} in
    --model | -m) WHERE=${MODEL[at + 1]}; at=$((at + 1)) ;;
    --model=*) WHERE=${MODEL[at]#--model=} ;;
    --predictor) at=$((at + 1)) ;;
    --predictor=*) ;;
    *) OTHERS+=("${MODEL[at]}") ;;
  esac
done
FOLDER=("${MODEL[@]}")
if [ -z "$WHERE" ]; then WHERE=$ROOT/crates/tiny/checkpoint FOLDER+=(--model "$WHERE"); fi
# The weights that everything here is of, or the name of a model of the Hub.
WEIGHTS=$(if [ -d "$WHERE" ]; then cat "$WHERE"/model*.safetensors | cksum; else echo "$WHERE"; fi)

# timed NAME FILE ARGS…: a training that leaves FILE behind, and how long it took in all its sittings.
CLOCK=
account() {
  if [ -n "$CLOCK" ]; then echo $(($(cat "$CLOCK" 2> /dev/null || echo 0) + SECONDS - BEGAN)) > "$CLOCK"; fi
  CLOCK=
}
trap account EXIT
# A training that is stopped leaves its state and ends well; the script must not take that for the end of it.
STOPPED=0
trap 'STOPPED=1' INT TERM
timed() {
  local name=$1 made=$2
  shift 2
  if [ "${ESTIMATE:-0}" = 1 ]; then return; fi
  local said="$WEIGHTS ${*//"$PARTS"/parts}"
  # Finished is what was finished with these very words: another size, another model or a training that was stopped is not.
  if [ "$(cat "$made.finished" 2> /dev/null)" = "$said" ]; then note "$@"; else
    if [ -e "$made.finished" ]; then
      echo "$made was made otherwise than now asked for; give another --out, or remove $PARTS" >&2
      exit 1
    fi
    CLOCK=$made.seconds BEGAN=$SECONDS
    run "$@"
    account
    if [ "$STOPPED" = 1 ]; then exit 130; fi
    echo "$said" > "$made.finished"
  fi
  echo "$name: $(cat "$made.seconds") s" >> "$OUT/trained.txt"
}

# compare FOLDER GRID ARGS…: the grid on validation problems, then what was chosen on test problems, once.
compare() {
  local to=$1 grid=$ROOT/configs/$2.toml
  shift 2
  if [ "${ESTIMATE:-0}" = 1 ]; then expect "$grid" "$@"; return; fi
  run sweep --grid "$grid" --skip-missing --tasks "$CHOICE" --split validation "${CHOOSE[@]}" "$@" --out "$to/choice"
  run lab --chosen "$to/choice" --tasks "$TASKS" "${JUDGE[@]}" "$@" --out "$to/test"
}

# versus ARGS…: the same test records, told against DEMASK.
versus() {
  if [ "${ESTIMATE:-0}" = 1 ]; then return; fi
  local demask
  demask=$(grep -m1 '^demask' "$OUT/choice/chosen.txt") || { echo "no DEMASK among what was chosen" >&2; return; }
  rm -rf "$OUT/versus"
  cp -r "$OUT/test" "$OUT/versus"
  run lab --chosen "$OUT/choice" --reference "$demask" --tasks "$TASKS" "${JUDGE[@]}" "$@" --out "$OUT/versus"
}

# expect GRID ARGS…: seconds of a comparison: the whole grid on the validation problems, one configuration of each method and the
# baseline on the test problems, by what a decoding takes that needs no part which is still to be trained.
EACH=0 PROBLEMS=0
expect() {
  local grid=$1 methods said
  shift
  said=$("$DEMASK" sweep --grid "$grid" --skip-missing --tasks "$CHOICE" "${CHOOSE[@]}" --dry-run "$@" --out "$OUT/none" 2> /dev/null |
    sed -n 's/.* on \([0-9]*\) problems*: \([0-9]*\) decodings*, about \([0-9]*\) s by.*/\1 \2 \3/p') || true
  if [ -n "$said" ]; then read -r PROBLEMS EACH < <(awk '{ print $1, $3 / $2 }' <<< "$said"); fi
  methods=$(grep -c '^\[\[grid\]\]' "$grid")
  awk -v each="$EACH" -v n="$PROBLEMS" -v methods="$methods" -v choose="${CHOOSE[1]}" -v judge="${JUDGE[1]}" \
    'BEGIN { print int(each * n * (6 * methods + 1 + judge / choose * (methods + 1))) }' >> "$RESULTS/estimate.txt"
}

everything() {
  if [ "${ESTIMATE:-0}" = 0 ]; then : > "$OUT/trained.txt"; fi
  # Like the predictor that DEMASK has (runs/tiny.sh): as many responses and masks, the same network, of
  # either hidden row the better one.
  local network=(--config "$ROOT/configs/predictor-tiny.toml")
  local cached=(--data "$TEXTS" --limit "$(much 48 300 1500)" --masks-per-response 2 --gamma 0.97 --pad-to 24,32,48,64,104)
  if [ $TRY = 1 ]; then network=(--epochs 1 --validation 0.2); fi
  timed "MI: cache of divergences" "$PARTS/tv" tv-cache generate "${cached[@]}" --divergence "${MODEL[@]}" --out "$PARTS/tv"
  timed "MI: predictor of information" "$PARTS/information.safetensors" train predictor --cache "$PARTS/tv" --target kl \
    "${network[@]}" "${MODEL[@]}" --out "$PARTS/information.safetensors"
  timed "ADJUST: layer" "$PARTS/sampler.safetensors" train adjust --limit "$(much 8 100 600)" --steps "$(much 4 100 800)" \
    "${MODEL[@]}" --out "$PARTS/sampler.safetensors"
  timed "policy: by reward (GRPO)" "$PARTS/policy.safetensors" train policy --limit "$(much 8 200 2000)" --steps "$(much 2 20 60)" \
    --batch "$(much 1 4 4)" --group "$(much 2 8 8)" --held "$(much 4 24 48)" "${MODEL[@]}" --out "$PARTS/policy.safetensors"
  timed "Learn2PD: what is finally written" "$PARTS/final.safetensors" train policy --target final --limit "$(much 8 100 600)" \
    --steps "$(much 4 200 300)" "${MODEL[@]}" --out "$PARTS/final.safetensors"
  timed "CoDD: prior" "$PARTS/prior.safetensors" train prior --limit "$(much 24 500 2000)" --steps "$(much 4 100 400)" \
    "${MODEL[@]}" --out "$PARTS/prior.safetensors"
  timed "dParallel: distillation" "$PARTS/distilled" train distill --limit "$(much 8 100 600)" --steps "$(much 2 50 400)" \
    --batch-tokens "$(much 512 2048 4096)" "${FOLDER[@]}" --out "$PARTS/distilled"
  local student=(--model "$PARTS/distilled/export")
  # A third of the responses: the table is about the methods on the backbone itself.
  timed "dParallel: cache for DEMASK on it" "$PARTS/student-tv" tv-cache generate "${cached[@]/#1500/500}" \
    "${student[@]}" --out "$PARTS/student-tv"
  timed "dParallel: DEMASK's predictor on it" "$PARTS/student.safetensors" train predictor --cache "$PARTS/student-tv" \
    "${network[@]}" "${student[@]}" --out "$PARTS/student.safetensors"

  # What stands in for a trained part while it is only asked how long all will take: nothing.
  local with=() policy=() final=() predictor=() how=("${BENCH[@]}" --temperature 0.1 --top-p 0.9 --seed 0 "${OTHERS[@]}")
  if [ "${ESTIMATE:-0}" = 0 ]; then
    policy=(--policy "$PARTS/policy.safetensors") final=(--policy "$PARTS/final.safetensors")
    predictor=(--predictor "$PARTS/student.safetensors")
    with=(--information "$PARTS/information.safetensors" --sampler-layer "$PARTS/sampler.safetensors" --prior "$PARTS/prior.safetensors")
  fi
  compare "$OUT" related "${EVAL[@]}" "${with[@]}" "${policy[@]}"
  versus "${EVAL[@]}" "${with[@]}" "${policy[@]}"
  compare "$OUT/learn2pd" related-learn2pd "${EVAL[@]}" "${final[@]}"
  if [ "${ESTIMATE:-0}" = 1 ]; then student=("${MODEL[@]}"); fi
  compare "$OUT/distilled" related-distilled "${how[@]}" "${student[@]}" "${predictor[@]}"
}

if [ $ONLY_ESTIMATE = 1 ]; then
  : > "$RESULTS/estimate.txt"
  ESTIMATE=1 everything
  awk '{ all += $1 } END { printf "decoding will take about %d minutes", (all + 59) / 60 }' "$RESULTS/estimate.txt"
  # Reckoned of the parts' passes and updates for the embedded model on one core of an AMD EPYC (Zen 4); trained.txt will tell.
  echo "; what is trained, reckoned and not tried, about $(much 3 25 120) minutes more on one core"
  exit
fi
everything
