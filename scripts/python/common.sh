# Sourced: a wheel built from this checkout and a fresh Python with it. `fresh_python NAME EXTRAS PACKAGE…` makes $python, a
# Python with the package (and its extras, as in demask[EXTRAS]) and these packages.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=${TOOLS:-$(mktemp -d)}
# What was not asked for goes away again.
[ -n "${TOOLS:-}" ] || trap 'rm -rf "$tools"' EXIT
builder=${PYTHON:-python3}

# The wheel of the checkout as it is now, or WHEEL=FILE. Scripts of a run that share TOOLS share the builder; what has not
# changed since, cargo does not compile again, and a wheel that lies there from an earlier state is never taken.
#
# Only the last link goes through zig, against the glibc of 2014: everything else is what cargo has compiled for the workspace
# already, and maturin looks at every symbol of the result. With MANYLINUX=0 the wheel is for this machine, and zig is not needed.
build_wheel() {
    if [ -n "${WHEEL:-}" ]; then wheel=$(realpath "$WHEEL") && return; fi
    local bin=$tools/maturin/bin where=(--compatibility linux --auditwheel skip) link=()
    [ -x "$bin/maturin" ] || { "$builder" -m venv "$tools/maturin" && "$bin/pip" install -q "maturin>=1.9,<2"; }
    if [ "${MANYLINUX:-1}" = 1 ]; then
        "$bin/python" -c "import ziglang" 2>/dev/null || "$bin/pip" install -q "ziglang>=0.13"
        printf '#!/bin/sh\nexec %q zig cc -- -g -target %s "$@"\n' "$bin/maturin" "$(uname -m)-linux-gnu.2.17" >"$tools/zigcc"
        chmod +x "$tools/zigcc"
        where=(--compatibility manylinux2014) link=(-C "linker=$tools/zigcc")
    fi
    rm -rf "$tools/wheels"
    PATH=$bin:$PATH "$bin/maturin" build --release --locked -m "$repository/crates/python/Cargo.toml" \
        "${where[@]}" --out "$tools/wheels" -- "${link[@]}"
    wheel=$(echo "$tools"/wheels/demask-*.whl)
}

fresh_python() {
    local name=$1 extras=$2
    shift 2
    build_wheel
    "$builder" -m venv --clear "$tools/$name"
    python=$tools/$name/bin/python
    "$python" -m pip install -q "$wheel$extras" "$@"
}
