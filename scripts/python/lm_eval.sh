#!/usr/bin/env bash
# lm_eval's own command line with a model of the package: 20 problems, the same accuracy as `demask eval`; likelihoods.
set -euo pipefail
source "$(dirname "$0")/common.sh"
fresh_python lm_eval "[lm-eval]" pytest
"$python" -c "import lm_eval" # its tests are skipped without it
cd "$repository/crates/python"
"$python" -m pytest -q tests/test_lm_eval.py "$@"
