#!/usr/bin/env bash
# The page in Chromium, as people use it. SHOTS=DIR also keeps screenshots.
set -euo pipefail
source "$(dirname "$0")/common.sh"
model_args "$@"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -z "$chromium" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "there is no Chromium; install it or name it with CHROMIUM=PATH" >&2
        exit 1
    fi
    apt-get update -q >/dev/null && apt-get install -qy chromium >/dev/null
    chromium=$(command -v chromium)
fi
mkdir -p "$tools/node"
if [ ! -d "$tools/node/node_modules/playwright-core" ]; then
    npm install --silent --no-audit --no-fund --prefix "$tools/node" playwright-core >/dev/null
fi
start_server ${model[@]+"${model[@]}"}
NODE_MODULES=$tools/node/node_modules CHROMIUM=$chromium SHOTS=${SHOTS:-} node "$repository/scripts/serve/browser.mjs" "$url"
