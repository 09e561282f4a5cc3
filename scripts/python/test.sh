#!/usr/bin/env bash
# The Python package from this checkout: its wheel in a fresh venv, the types, the tests of everything but Ray and lm_eval.
set -euo pipefail
source "$(dirname "$0")/common.sh"
fresh_python package "[arrow]" pytest mypy
"$python" -c "import pyarrow" # tests are skipped without it
[ -z "${DEMASK:-}" ] || export DEMASK=$(realpath "$DEMASK")
cd "$repository/crates/python"
"$python" -m mypy --config-file pyproject.toml -p demask
# The stubs against the library itself: every name, signature and argument of both is the same.
"$python" -m mypy.stubtest demask._native
"$python" -m pytest -q tests --ignore tests/test_lm_eval.py --ignore tests/test_ray.py --ignore tests/test_s3.py "$@"
