# Sourced behind common.sh: sets CHROMIUM and NODE_MODULES to a browser and to what drives it, installing what is missing.
if [ -z "${CHROMIUM:-}" ]; then
    need chromium chromium fonts-dejavu-core
    CHROMIUM=$(command -v chromium)
fi
need npm nodejs npm
mkdir -p "$tools/node"
if [ ! -d "$tools/node/node_modules/axe-core" ]; then
    npm install --silent --no-audit --no-fund --prefix "$tools/node" playwright-core axe-core >/dev/null
fi
export NODE_MODULES=$tools/node/node_modules CHROMIUM
