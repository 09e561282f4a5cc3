#!/usr/bin/env bash
# The Python package from this checkout: its wheel in a fresh venv, what it asks of a system, the types, the tests of everything
# but Ray and lm_eval.
set -euo pipefail
source "$(dirname "$0")/common.sh"
fresh_python package "[arrow]" pytest mypy gguf auditwheel
"$python" -c "import gguf, pyarrow" # tests are skipped without them
[ -z "${DEMASK:-}" ] || export DEMASK=$(realpath "$DEMASK")
cd "$repository/crates/python"
# Every versioned symbol is in the glibc of 2014.
if [ "${MANYLINUX:-1}" = 1 ]; then
    "$python" -m auditwheel show "$wheel" | tee "$tools/auditwheel.txt"
    grep -q "manylinux_2_17_" "$tools/auditwheel.txt"
fi
"$python" -m mypy --config-file pyproject.toml -p demask
# The stubs against the library itself: every name, signature and argument of both is the same.
"$python" -m mypy.stubtest demask._native
"$python" -m pytest -q tests --ignore tests/test_lm_eval.py --ignore tests/test_ray.py --ignore tests/test_s3.py "$@"
