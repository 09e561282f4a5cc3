# Sourced: a wheel built from this checkout and a fresh Python with it. `fresh_python NAME PACKAGE…` makes $python.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$(mktemp -d)}
builder=${PYTHON:-python3}

# The wheel; built once for all scripts of a run that share TOOLS.
build_wheel() {
    wheel=$(ls "$tools"/wheels/demask-*.whl 2>/dev/null | head -1 || true)
    if [ -n "$wheel" ]; then return; fi
    "$builder" -m venv "$tools/maturin"
    "$tools/maturin/bin/pip" install -q "maturin>=1.9,<2"
    # `zig` makes a wheel for any Linux since 2014; without it the wheel is for this machine.
    local where=(--compatibility linux --auditwheel skip)
    if [ "${MANYLINUX:-}" = 1 ]; then
        "$tools/maturin/bin/pip" install -q "maturin[zig]>=1.9,<2"
        where=(--zig --compatibility manylinux2014)
    fi
    "$tools/maturin/bin/maturin" build --release --locked -m "$repository/crates/python/Cargo.toml" \
        "${where[@]}" --out "$tools/wheels"
    wheel=$(ls "$tools"/wheels/demask-*.whl)
}

fresh_python() {
    local name=$1
    shift
    build_wheel
    "$builder" -m venv --clear "$tools/$name"
    python=$tools/$name/bin/python
    "$python" -m pip install -q "$wheel" "$@"
}
