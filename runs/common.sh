# Shared by the scripts of this folder: flags, the command, a log of what was run.
#   --quick          the embedded model's size: fewer problems
#   --out DIR        where results go (default: results, with --quick results-quick: one folder holds one size)
#   --limit N        another number of problems of each task, and of responses of Figure 2
#   --tasks LIST     tasks of the tables (default: all, those of the embedded model)
#   --tuned TASK     the task that parameters are chosen on (default: arith)
#   --texts DATA     responses of Figure 2 (default: task:all)
#   --protocol P, --data [TASK=]FILE, --allow-code-execution     for tasks that are benchmarks; see docs/benchmarks.md. Most
#                    have no questions to choose on, so that everything is chosen on --tuned
# Anything else goes to every command, for example --model DIR --predictor FILE.
# DEMASK names the command (default: built from this repository).
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
QUICK=0 RESULTS= LIMIT= TASKS=all TUNED=arith TEXTS=task:all
MODEL=() BENCH=()
while [ $# -gt 0 ]; do
  case $1 in
    --quick) QUICK=1 ;;
    --out) RESULTS=$2; shift ;;
    --limit) LIMIT=$2; shift ;;
    --tasks) TASKS=$2; shift ;;
    --tuned) TUNED=$2; shift ;;
    --texts) TEXTS=$2; shift ;;
    --protocol|--data) BENCH+=("$1" "$2"); shift ;;
    --allow-code-execution) BENCH+=("$1") ;;
    *) MODEL+=("$1") ;;
  esac
  shift
done
if [ -z "$RESULTS" ]; then RESULTS=results; [ $QUICK = 0 ] || RESULTS=results-quick; fi
if [ -z "${DEMASK:-}" ]; then
  cargo build --release --workspace --locked --quiet --manifest-path "$ROOT/Cargo.toml"
  DEMASK="${CARGO_TARGET_DIR:-$ROOT/target}/release/demask"
fi
# The paper's sampling: temperature 0.1, top-p 0.9.
EVAL=("${BENCH[@]}" --temperature 0.1 --top-p 0.9 --seed 0 "${MODEL[@]}")

# CHOICE: the tasks that configurations of every decoder are chosen on.
CHOICE=$TASKS BENCHMARKS=0
case $TASKS in *gsm8k*|*mmlu*|*humaneval*|*mbpp*|*countdown*|*sudoku*) CHOICE=$TUNED BENCHMARKS=1 ;; esac

# size QUICK FULL: how many of something.
size() {
  if [ -n "$LIMIT" ]; then echo "$LIMIT"; elif [ $QUICK = 1 ]; then echo "$1"; else echo "$2"; fi
}

# LIMITED: problems of each task of a table; a whole benchmark at full size.
LIMITED=(--limit "$(size 60 500)")
if [ $QUICK = 0 ] && [ -z "$LIMIT" ] && [ "$TASKS" != all ]; then LIMITED=(); fi

# begin NAME: the folder of one result, with a log of its commands.
begin() {
  OUT=$RESULTS/$1
  mkdir -p "$OUT"
  local cores; cores=$(nproc)
  echo "# $1, $("$DEMASK" --version), $cores core$([ "$cores" = 1 ] || echo s)" > "$OUT/config.txt"
}

# run ARGS…: runs the command and notes it. With ESTIMATE=1 it only asks how long it would take, and adds that to the total.
run() {
  if [ "${ESTIMATE:-0}" = 1 ]; then
    estimate "$@"
    return
  fi
  note "$@"
  "$DEMASK" "$@"
}

# note ARGS…: into the log of commands.
note() {
  # Where the results went is nobody's business but the one who ran it.
  local said=${*//"$RESULTS/"/results/}
  echo "demask ${said//"$ROOT/"/}" >> "$OUT/config.txt"
}

# estimate ARGS…: seconds of a command that decodes, into FILE; what a sweep has still to choose stands for its defaults. What
# would fail later fails here.
estimate() {
  local args=() skip=0 arg said
  case $1 in eval|sweep|lab) ;; *) return ;; esac
  for arg in "$@"; do
    if [ $skip = 1 ]; then skip=0; continue; fi
    if [ "$arg" = --chosen ]; then skip=1; continue; fi
    args+=("$arg")
  done
  said=$("$DEMASK" "${args[@]}" --dry-run 2>&1) || { echo "demask ${args[*]}" >&2; tail -n 3 <<< "$said" >&2; exit 1; }
  sed -n 's/.*about \([0-9]*\) s by.*/\1/p' <<< "$said" >> "$RESULTS/estimate.txt"
}

# sampled SPELLING: KLASS with drawn tokens, as the paper samples for all methods; its own code writes the most probable ones.
sampled() { case $1 in *:*) echo "$1,tokens=sampled" ;; *) echo "$1:tokens=sampled" ;; esac; }

# chosen NAME: the configuration that Figure 1's sweep chose for a strategy.
chosen() {
  local file=$RESULTS/fig1/chosen.txt
  if [ "${ESTIMATE:-0}" = 1 ]; then echo "$1"; return; fi
  grep -sE "^$1(:|\$)" "$file" || { echo "run runs/fig1.sh first: it chooses the $1 to use (not in $file)" >&2; exit 1; }
}
