#!/usr/bin/env bash
# Many clients at once: equal answers, overload, memory, throughput, malformed requests, clients that die.
# SECONDS_OF_LOAD sets how long the main part lasts [default: 60].
set -euo pipefail
source "$(dirname "$0")/common.sh"
model_args "$@"
need python3 python3
start_server --batch 2 --queue 4 ${model[@]+"${model[@]}"}
python3 "$repository/scripts/serve/load.py" "$url" "$server" 10 overload
kill "$server" && wait "$server" || true
start_server ${model[@]+"${model[@]}"}
python3 "$repository/scripts/serve/load.py" "$url" "$server" "${SECONDS_OF_LOAD:-60}" all
