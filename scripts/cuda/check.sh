#!/usr/bin/env bash
# Type-checks the features `cuda` and `flash-attn` on a machine without a GPU and without a CUDA toolkit: the compiler comes from PyPI.
# Where it cannot be had, one line says so and nothing fails.
#
# candle's quantised and mixture kernels (mmq_*, mmvq_*, moe_*) take minutes each, and this project calls none of them:
# here they are empty objects. So are the kernels of flash attention, which take hours together, and the headers that they are
# made of (CUTLASS, which candle's build script clones) are not fetched: what calls them is type-checked. The public workflow builds
# `cuda` whole.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() {
    echo "the feature cuda was not checked: $1"
    exit 0
}

if [ -z "${TOOLS:-}" ]; then
    TOOLS=$(mktemp -d)
    trap 'rm -rf "$TOOLS"' EXIT
fi
VERSION=${CUDA_VERSION:-13.4}
"${CARGO:-cargo}" fetch --locked -q --target "$(rustc -vV | sed -n 's/^host: //p')" || skip "the crates it needs cannot be fetched"
python3 -m venv "$TOOLS/cuda" 2>/dev/null || skip "python3 cannot make a virtual environment"
packages=()
for package in nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime; do
    packages+=("$package==$VERSION.*")
done
# The headers of CCCL have numbers of their own.
"$TOOLS/cuda/bin/python" -m pip install -q "${packages[@]}" "nvidia-cuda-cccl==${VERSION%%.*}.*" nvidia-curand ||
    skip "the toolkit $VERSION cannot be installed from PyPI"
toolkit=$(find "$TOOLS/cuda/lib" -type d -path '*nvidia/cu*' -name 'cu1*' | head -n 1)
[ -x "$toolkit/bin/nvcc" ] || skip "PyPI's packages hold no bin/nvcc"

# The same toolkit under another root, whose nvcc leaves those kernels out.
root=$TOOLS/cuda-root
mkdir -p "$root/bin"
for part in "$toolkit"/*; do
    [ "$(basename "$part")" = bin ] || ln -sfn "$part" "$root/$(basename "$part")"
done
for program in "$toolkit"/bin/*; do
    ln -sfn "$program" "$root/bin/$(basename "$program")"
done
rm -f "$root/bin/nvcc"
cat >"$root/bin/nvcc" <<WRAPPER
#!/usr/bin/env bash
for word in "\$@"; do
    case \$word in
    *mmq_*.cu | *mmvq_*.cu | *moe_*.cu | *flash_*.cu)
        # -o OBJECT or --output-file OBJECT
        while [ \$# -gt 0 ]; do
            case \$1 in
            -o | --output-file) exec cc -x c -c /dev/null -o "\$2" ;;
            esac
            shift
        done
        ;;
    esac
done
exec "$toolkit/bin/nvcc" "\$@"
WRAPPER
# The clone of headers that nothing here is compiled with.
cat >"$root/bin/git" <<'WRAPPER'
#!/usr/bin/env bash
case ${1:-} in
clone) mkdir -p "${@: -1}/include" ;;
esac
WRAPPER
chmod +x "$root/bin/nvcc" "$root/bin/git"
"$root/bin/nvcc" --version | tail -n 2

export CUDAFORGE_HOME=$TOOLS/cudaforge PATH=$root/bin:$PATH CUDA_HOME=$root CUDA_PATH=$root CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}
# A folder of its own: the feature changes candle, and what was built without it would be built again.
for feature in cuda flash-attn; do
    CARGO_TARGET_DIR=$TOOLS/cuda-target "${CARGO:-cargo}" check --release --locked -p demask-cli --features "$feature"
    echo "the feature $feature type-checks with toolkit $VERSION"
done
