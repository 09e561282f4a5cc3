#!/usr/bin/env bash
# The real OpenAI Python client against a running server.
set -euo pipefail
source "$(dirname "$0")/common.sh"
model_args "$@"
python_with openai
start_server ${model[@]+"${model[@]}"}
"$python" "$repository/scripts/serve/openai_client.py" "$url/v1"
