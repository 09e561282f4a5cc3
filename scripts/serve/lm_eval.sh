#!/usr/bin/env bash
# lm_eval on 20 arith problems in GSM8K's format, through both of OpenAI's routes; its accuracy must be the one
# `demask eval` reports for the same seed.
set -euo pipefail
source "$(dirname "$0")/common.sh"
seed=1234 problems=20 length=96 strategy=${STRATEGY:-entropy}
if [ $# -eq 0 ] && ! "$DEMASK" generate --max-new-tokens 1 "x" >/dev/null 2>&1; then
    echo "skipped: there is no embedded model; give --model DIR of one trained on the tasks" >&2
    exit 0
fi
python_with "lm_eval[api]==0.4.13"

mkdir "$scratch/tasks"
"$DEMASK" problems arith --limit $problems --format gsm8k >"$scratch/tasks/arith.jsonl"
for yaml in "$repository"/scripts/serve/lm_eval/*.yaml; do
    sed "s|arith.jsonl|$scratch/tasks/arith.jsonl|" "$yaml" >"$scratch/tasks/$(basename "$yaml")"
done

"$DEMASK" eval "$@" --tasks arith --limit $problems --seed $seed --max-new-tokens $length -s "$strategy" \
    --temperature 0 --out "$scratch/ours" >/dev/null
start_server --strategy "$strategy" "$@"
name=$(curl -sf "$url/v1/models" | "$python" -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')
run() {
    local kind=$1 path=$2 task=$3
    shift 3
    HF_HUB_OFFLINE=1 HF_DATASETS_CACHE=$scratch/datasets "$python" -m lm_eval run --model "$kind" \
        --model_args "model=$name,base_url=$url/v1/$path,num_concurrent=4,max_retries=1,tokenized_requests=False,tokenizer_backend=None,max_gen_toks=$length" \
        --tasks "$task" --include_path "$scratch/tasks" --output_path "$scratch/out" --log_samples --seed $seed "$@" \
        >"$scratch/$task.log" 2>&1 || { cat "$scratch/$task.log" >&2; exit 1; }
}
run local-completions completions demask_arith_raw
run local-chat-completions chat/completions demask_arith_chat --apply_chat_template
"$python" "$repository/scripts/serve/lm_eval/compare.py" "$scratch/ours" "$scratch/out"
