#!/usr/bin/env bash
# Real clusters of two nodes on loopback, with kills; and an S3 endpoint on loopback.
set -euo pipefail
source "$(dirname "$0")/common.sh"
fresh_python ray "[ray]" pytest "ray==2.60.0" s3fs "moto[server]"
"$python" -c "import moto, pyarrow, ray, s3fs" # tests are skipped without them
cd "$repository/crates/python"
"$python" -m pytest -q tests/test_ray.py tests/test_s3.py "$@"
