#!/usr/bin/env bash
# What the compiler made of the AVX-512-VNNI product, on any machine: no instruction may have become a call (an
# intrinsic in a closure that was not inlined does), and LLVM's model of a CPU tells how much of the peak the register
# tile reaches when its operands are in the first-level cache.
#
# DEMASK  a build of the program with symbols [default: built with cargo]
# CPU     of llvm-mca [default: icelake-server]
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -z "${DEMASK:-}" ]; then
    (cd "$repository" && cargo build --release --workspace --locked --quiet)
    DEMASK=${CARGO_TARGET_DIR:-$repository/target}/release/demask
fi
if ! command -v llvm-mca >/dev/null || ! command -v objdump >/dev/null || ! command -v python3 >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "this script needs llvm-mca, objdump and python3" >&2
        exit 1
    fi
    apt-get update -q >/dev/null && apt-get install -qy --no-install-recommends llvm binutils python3 >/dev/null
fi
objdump -d --no-show-raw-insn -M intel "$DEMASK" >"$scratch/all.s"
python3 "$(dirname "$0")/inspect.py" "$scratch/all.s" "$scratch/tile.s"
iterations=20
cycles=$(llvm-mca -mcpu="${CPU:-icelake-server}" -iterations=$iterations "$scratch/tile.s" |
    sed -n 's/^Total Cycles: *//p')
products=$(grep -c vpdpbusd "$scratch/tile.s")
awk -v c="$cycles" -v p="$products" -v i=$iterations -v cpu="${CPU:-icelake-server}" 'BEGIN {
    printf "%s: %d VPDPBUSD of a tile, 128 deep, in %.0f cycles; two a cycle would be the peak: %.0f %%\n", cpu, p, c / i, 50 * p * i / c
}'
