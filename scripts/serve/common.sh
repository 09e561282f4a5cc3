# Sourced by the scripts beside it: the program, a folder for what is installed, and a server on a free port.
#
# DEMASK      the program [default: built with cargo]
# TOOLS       folder for virtual environments and packages [default: a temporary one, removed at the end]
# Arguments   go to `demask serve`, e.g. --model DIR; without any the embedded model is served, or the toy fixture

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
tools=${TOOLS:-$scratch/tools}
server=

finish() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
    rm -rf "$scratch"
}
trap finish EXIT

if [ -z "${DEMASK:-}" ]; then
    (cd "$repository" && cargo build --release --workspace --locked --quiet)
    DEMASK=${CARGO_TARGET_DIR:-$repository/target}/release/demask
fi

# need COMMAND PACKAGE…: installs what is missing, where that can be done.
need() {
    if command -v "$1" >/dev/null; then return; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "this script needs $1" >&2
        exit 1
    fi
    shift
    apt-get update -q >/dev/null && apt-get install -qy --no-install-recommends "$@" >/dev/null
}

# The toy fixture with a chat template, for as long as there is no embedded model.
toy() {
    mkdir -p "$scratch/toy"
    cp "$repository"/tests/fixtures/dream-toy/* "$scratch/toy"
    cp "$scratch/toy/predictor_row_i_minus_1.safetensors" "$scratch/toy/predictor.safetensors"
    sed -i 's/^{/{"chat_template": "{% for m in messages %}{{ m.content }} {% endfor %}<sep>", /' "$scratch/toy/tokenizer_config.json"
}

# model_args ARGUMENT…: sets `model` to the arguments, to nothing for an embedded model, or to the toy.
model_args() {
    model=("$@")
    if [ $# -eq 0 ] && ! "$DEMASK" generate --max-new-tokens 1 "x" >/dev/null 2>&1; then
        toy
        model=(--model "$scratch/toy")
    fi
}

# start_server ARGUMENT…: serves and sets `url`.
start_server() {
    : >"$scratch/server.log" # On a busy machine it is read before the server has opened it.
    "$DEMASK" serve --port 0 "$@" 2>"$scratch/server.log" &
    server=$!
    for _ in $(seq 300); do
        url=$(sed -n 's|.*page \(http://[^ ]*\)/ .*|\1|p' "$scratch/server.log")
        if [ -n "$url" ]; then return; fi
        if ! kill -0 "$server" 2>/dev/null; then cat "$scratch/server.log" >&2; exit 1; fi
        sleep 0.1
    done
    echo "the server did not start" >&2
    exit 1
}

# python_with PACKAGE…: sets `python` to an environment that has them.
python_with() {
    need python3 python3 python3-venv
    mkdir -p "$tools"
    python=$tools/venv/bin/python
    if [ ! -x "$python" ]; then python3 -m venv "$tools/venv"; fi
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}
