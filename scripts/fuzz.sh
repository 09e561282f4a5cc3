#!/usr/bin/env bash
# Mutated inputs against every reader, for as long as one likes.
#
#   scripts/fuzz.sh              an hour for each reader
#   scripts/fuzz.sh 60           a minute for each
#   scripts/fuzz.sh million      a million inputs over all readers, with a summary (docs/reliability.md has one)
#   FUZZ_SEED=7 scripts/fuzz.sh  other inputs
#
# An input that ends the process is left in $FUZZ_FOLDER (default: a temporary folder, which is named).
set -euo pipefail
cd "$(dirname "$0")/.."
export FUZZ_FOLDER=${FUZZ_FOLDER:-$(mktemp -d)}
# The test binary: built here, or one that is there already.
BINARY=${FUZZ_BINARY:-$(cargo test --release --workspace --locked --no-run --test fuzz --message-format=json 2>/dev/null |
    grep -o '"executable":"[^"]*fuzz-[^"]*"' | cut -d'"' -f4 | tail -1)}
TARGETS=$("$BINARY" --list --format terse | sed -n 's/: test$//p')

# Inputs of the long run: what is quick to read gets more of them.
share() {
    case $1 in
        *::trace_file) echo 400000 ;;
        *::predictor) echo 150000 ;;
        *::index) echo 120000 ;;
        *::spelling | *::config) echo 80000 ;;
        *::grid_file) echo 60000 ;;
        *::journal | *::safetensors | *::tokenizer_settings) echo 30000 ;;
        *::chat_template | *::tokenizer) echo 15000 ;;
        *::request_body) echo 10000 ;;
        *::gguf) echo 3000 ;;
        *) echo 5000 ;;
    esac
}

for target in $TARGETS; do
    case ${1:-3600} in
        million) export FUZZ_EXECUTIONS; FUZZ_EXECUTIONS=$(share "$target") ;;
        *) export FUZZ_SECONDS=${1:-3600} ;;
    esac
    if ! "$BINARY" --exact "$target" --nocapture >"$FUZZ_FOLDER/said" 2>&1; then
        echo "$target failed; its input is in $FUZZ_FOLDER, and the last it said was:"
        tail -5 "$FUZZ_FOLDER/said"
        exit 1
    fi
    grep executions "$FUZZ_FOLDER/said"
done | tee "$FUZZ_FOLDER/log"
awk '{ sum += $2 } END { print sum " executions in all" }' "$FUZZ_FOLDER/log"
rm -rf "$FUZZ_FOLDER"
