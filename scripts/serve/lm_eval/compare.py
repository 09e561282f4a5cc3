"""The accuracy of both lm_eval runs against our own runner's: the number, and each problem's verdict."""

import json
import pathlib
import sys

ours, theirs = map(pathlib.Path, sys.argv[1:3])
samples = [json.loads(line) for line in (ours / "records.jsonl").read_text().splitlines() if line.strip()]
samples = [sample for sample in samples if "correct" in sample]
accuracy = sum(sample["correct"] for sample in samples) / len(samples)
assert len(samples) == 20, len(samples)
failed = False
for path in sorted(theirs.rglob("results_*.json")):
    for task, result in json.loads(path.read_text())["results"].items():
        reported = result["exact_match,flexible-extract"]
        print(f"{task}: lm_eval {reported:.4f}, demask eval {accuracy:.4f}")
        failed |= abs(reported - accuracy) > 1e-9
sys.exit("the accuracies differ" if failed else 0)
