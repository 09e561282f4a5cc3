#!/usr/bin/env python3
"""Runs every recorded trace of the fixtures through the command line and compares it pass by pass.

    traces.py DEMASK [FIXTURES] [--only NAME,…] [--device DEVICE] [--verbose]

DEMASK is the program, FIXTURES a folder laid out like tests/fixtures (the default), for example one with other recordings
of the same kind. --device is the command's own: candle runs what a GPU would run. The spelling of every run is that of
docs/models.md and docs/strategies.md; --verbose prints it. What a command line cannot repeat (draws made by a formula of
the recordings instead of a generator) is counted as skipped, with the reason. The status is 1 if any trace differs.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from spelling import RUNS, Skip


def answer(command, verbose):
    if verbose:
        print(" ", " ".join(map(str, command)))
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demask")
    here = Path(__file__).resolve().parents[2] / "tests/fixtures"
    parser.add_argument("fixtures", nargs="?", type=Path, default=here)
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--device")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    # candle's products of a few rows wake threads that have less to do than waking takes.
    device = ["--device", args.device, "--threads", 1] if args.device else []
    wrong = 0
    for name in args.only.split(","):
        folder = args.fixtures / name
        if not (folder / "expected.json").exists():
            print(f"{name:14} not there")
            continue
        expected, right, skipped, differ = json.loads((folder / "expected.json").read_text()), 0, Counter(), []
        for what, trace, prepare in RUNS[name](args.fixtures, expected):
            try:
                flags, compare = prepare(trace)
                problem = compare(answer([args.demask, *flags, *device, "--json"], args.verbose), trace)
            except Skip as reason:
                skipped[str(reason)] += 1
                continue
            except ValueError as error:
                problem = str(error)
            if problem:
                differ.append(f"{what}: {problem}")
            else:
                right += 1
        wrong += len(differ)
        left = "".join(f", {count} skipped ({reason})" for reason, count in skipped.items())
        print(f"{name:14} {right} the same, {len(differ)} different{left}")
        for line in differ[:5]:
            print("   ", line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
