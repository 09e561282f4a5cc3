#!/usr/bin/env bash
# TV caches in a bucket by the program itself: builds it with the feature object-store (its HTTP client changes features of what
# everything else is compiled with, so that is most of a build), and runs the tests against an S3 endpoint on loopback.
# DEMASK_STORE=FILE takes a program that is there. Not part of .ci/run: the public workflow has a job for it.
set -euo pipefail
source "$(dirname "$0")/common.sh"
if [ -z "${DEMASK_STORE:-}" ]; then
    programs=${CARGO_TARGET_DIR:-$repository/target}/release
    # What cargo built without the feature stays where it is.
    [ ! -e "$programs/demask" ] || cp -p "$programs/demask" "$programs/demask.without"
    cargo build --release --locked --manifest-path "$repository/Cargo.toml" -p demask-cli --features object-store
    DEMASK_STORE=$tools/demask-with-store
    mv "$programs/demask" "$DEMASK_STORE"
    [ ! -e "$programs/demask.without" ] || mv "$programs/demask.without" "$programs/demask"
fi
export DEMASK_STORE=$(realpath "$DEMASK_STORE")
fresh_python s3 "[ray]" pytest "ray==2.60.0" s3fs "moto[server]"
"$python" -c "import moto, pyarrow, ray, s3fs" # tests are skipped without them
cd "$repository/crates/python"
"$python" -m pytest -q tests/test_s3.py "$@"
