#!/usr/bin/env bash
# The page in Chromium, as people use it. SHOTS=DIR also keeps screenshots.
set -euo pipefail
source "$(dirname "$0")/common.sh"
model_args "$@"
if [ -z "${CHROMIUM:-}" ]; then
    need chromium chromium fonts-dejavu-core
    CHROMIUM=$(command -v chromium)
fi
need npm nodejs npm
mkdir -p "$tools/node"
if [ ! -d "$tools/node/node_modules/playwright-core" ]; then
    npm install --silent --no-audit --no-fund --prefix "$tools/node" playwright-core >/dev/null
fi
start_server ${model[@]+"${model[@]}"}
NODE_MODULES=$tools/node/node_modules CHROMIUM=$CHROMIUM SHOTS=${SHOTS:-} node "$repository/scripts/serve/browser.mjs" "$url"
