#!/usr/bin/env bash
# Ten minutes (or MINUTES=n) of a crowd: 64 clients whose answers must be those they get alone, clients that are killed,
# slow ones, overload, large bodies, and a SIGTERM while all of them are at it. Says what happened; fails if an answer
# differs, a slow connection outlives its limit, memory stays, or the end takes longer than its grace period.
#
#   DEMASK=target/release/demask scripts/serve/soak.sh        needs python3
set -euo pipefail
cd "$(dirname "$0")/../.."
DEMASK=${DEMASK:-${CARGO_TARGET_DIR:-target}/release/demask} MINUTES=${MINUTES:-10} \
    exec python3 scripts/serve/soak.py
