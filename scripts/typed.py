#!/usr/bin/env python3
"""Asks a model the prompts of tests/fixtures/typed and marks its answers.

    scripts/typed.py [--list test|dev|wide] [--demask PROGRAM] [--show] [-- ARGUMENTS OF demask generate]

Prints right/asked for each kind and in all; --show prints every wrong answer.
"""

import argparse
import json
import pathlib
import subprocess
import sys
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPED = ROOT / "tests" / "fixtures" / "typed"
sys.path.insert(0, str(TYPED))
from check import passed  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--list", choices=["test", "dev", "wide"], default="test")
parser.add_argument("--demask", default=str(ROOT / "target" / "release" / "demask"))
parser.add_argument("--show", action="store_true")
parser.add_argument("arguments", nargs="*", help="given to demask generate")
options = parser.parse_args()

asked, right = Counter(), Counter()
for line in (TYPED / options.list / "prompts.jsonl").read_text().splitlines():
    item = json.loads(line)
    command = [options.demask, "generate", *options.arguments, "--", item["prompt"]]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        sys.exit(f"{' '.join(command)} failed: {answer.stderr.strip()}")
    ok = passed(item["check"], answer.stdout.strip())
    asked[item["kind"]] += 1
    right[item["kind"]] += ok
    if options.show and not ok:
        print(f"{item['kind']}: {item['prompt']}\n  -> {answer.stdout.strip()}\n  wanted {item['check']}")
for kind in asked:
    print(f"{kind}: {right[kind]}/{asked[kind]}")
print(f"{sum(right.values())} passed, {sum(asked.values()) - sum(right.values())} failed")
