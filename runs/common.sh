# Shared by the scripts of this folder: flags, the command, a log of what was run.
#   --quick      the embedded model's size: fewer problems
#   --out DIR    where results go (default: results)
# Anything else goes to every command, for example --model DIR --predictor FILE.
# DEMASK names the command (default: cargo run of this repository).
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
QUICK=0
RESULTS=results
MODEL=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) QUICK=1 ;;
    --out) RESULTS=$2; shift ;;
    *) MODEL+=("$1") ;;
  esac
  shift
done
if [ -z "${DEMASK:-}" ]; then
  cargo build --release --quiet --manifest-path "$ROOT/Cargo.toml"
  DEMASK="${CARGO_TARGET_DIR:-$ROOT/target}/release/demask"
fi
# The paper's sampling: temperature 0.1, top-p 0.9.
SAMPLING=(--temperature 0.1 --top-p 0.9 --seed 0)

# begin NAME: the folder of one result, with a log of its commands.
begin() {
  OUT=$RESULTS/$1
  mkdir -p "$OUT"
  { echo "# $1, $("$DEMASK" --version)"; nproc | sed 's/^/# cores: /'; } > "$OUT/config.txt"
}

# run ARGS…: runs the command and notes it.
run() {
  echo "demask $*" >> "$OUT/config.txt"
  "$DEMASK" "$@"
}

# chosen NAME: the configuration that Figure 1's sweep chose for a strategy.
chosen() {
  local file=$RESULTS/fig1/chosen.txt
  [ -f "$file" ] || { echo "run runs/fig1.sh first: it chooses the configurations (no $file)" >&2; exit 1; }
  grep -E "^$1(:|\$)" "$file"
}
