#!/usr/bin/env python3
"""Infilling quality against forward passes, on real sequences and real weights.

    infill.py DEMASK MODEL SEQUENCES --out FILE [--share 0.5] [--given] [--longest N] [--limit N] [--short | --strategies "a;b,c"]
    infill.py … --chosen FILE --within 0.02,0.1

A share of the tokens of every sequence (with --given: of what a reaction makes, behind >>) is masked, seeded by its number;
`demask serve` fills them in with each strategy. Told of each: forward passes per sequence, tokens decided per pass, how many
of the held-out tokens came back, and the mean pseudo-log-likelihood of the tokens that were filled in: log p of each when it
alone is masked, by transformers' forward; how far that is from the first strategy's (one token at a time), and the standard
error of this difference over sequences.

--chosen reads the FILE that a run on other sequences wrote, and takes of every decoder the setting with the fewest passes
whose likelihood there was at most so much below the first strategy's.
"""

import argparse
import json
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import pstdev

from common import Theirs, mask_some, read_lines

STRATEGIES = [
    "entropy:k=1",
    *(f"threshold:threshold={p}" for p in (0.97, 0.9, 0.8, 0.7, 0.6, 0.5)),
    *(f"eb:gamma={gamma}" for gamma in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)),
    *(f"demask:tau={tau},gamma={gamma}" for gamma in (0, 0.5, 0.9) for tau in (0.1, 0.3, 1, 3)),
]

# Four settings a decoder: where the whole grid costs too much.
SHORT = [
    "entropy:k=1",
    *(f"threshold:threshold={p}" for p in (0.97, 0.9, 0.7, 0.5)),
    *(f"eb:gamma={gamma}" for gamma in (0.1, 0.4, 0.8, 1.6)),
    *(f"demask:tau={tau},gamma=0" for tau in (0.1, 0.3, 1, 3)),
]


def choose(about, within):
    """The first strategy, and of each decoder the setting with the fewest passes that lost at most `within`."""
    first, *others = about["rows"]
    chosen = [first["strategy"]]
    for decoder in dict.fromkeys(row["strategy"].split(":")[0] for row in others):
        for loss in within:
            good = [row for row in others if row["strategy"].split(":")[0] == decoder and row["lost"] <= loss]
            if good:
                chosen.append(min(good, key=lambda row: (row["passes"], row["lost"]))["strategy"])
    return list(dict.fromkeys(chosen))


class Server:
    """`demask serve` on a free port."""

    def __init__(self, program, model, extra):
        command = [program, "serve", "--port", "0", "--model", model, *extra]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"API (http://\S+)", line)
            if found:
                self.address = found.group(1)
                return
        sys.exit(f"{program} serve did not start")

    def fill(self, tokens, strategy):
        body = {"tokens": tokens, "strategy": strategy, "temperature": 0, "eos": "none", "seed": 0}
        request = urllib.request.Request(f"{self.address}/infill", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request))
        return answer["token_ids"], answer["demask"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demask")
    parser.add_argument("model")
    parser.add_argument("sequences")
    parser.add_argument("--out", required=True)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--given", action="store_true")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--longest", type=int, default=160)
    parser.add_argument("--strategies", default=";".join(STRATEGIES))
    parser.add_argument("--short", action="store_true", help="fewer settings")
    parser.add_argument("--chosen", help="take the strategies of this run that are best")
    parser.add_argument("--within", default="0.02,0.1", help="by these losses of likelihood")
    parser.add_argument("--predictor")
    args = parser.parse_args()
    strategies = SHORT if args.short else args.strategies.split(";")
    if args.chosen:
        strategies = choose(json.loads(Path(args.chosen).read_text()), [float(loss) for loss in args.within.split(",")])
    theirs = Theirs(args.model)
    lines = read_lines(args.sequences)
    canvases = []
    for number, ids in enumerate(map(theirs.encode, lines)):
        if ids is None or len(ids) > args.longest or len(canvases) == args.limit:
            continue
        first = ids.index(theirs.vocab[">>"]) + 1 if args.given else 1
        canvases.append((ids, *mask_some(ids, theirs.mask, args.share, number, first)))
    masked = sum(len(positions) for _, _, positions in canvases)
    print(f"{len(canvases)} sequences, {masked} tokens masked")
    server = Server(args.demask, args.model, ["--predictor", args.predictor] if args.predictor else [])
    known, rows, base = {}, [], None

    def likelihood(ids, positions):
        key = (tuple(ids), tuple(positions))
        if key not in known:
            known[key] = theirs.pseudo_log_likelihood(ids, positions)
        return known[key]

    original = sum(likelihood(ids, positions) for ids, _, positions in canvases)
    print(f"the held-out originals: {original / masked:.3f} per token")
    try:
        for strategy in strategies:
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda canvas: server.fill(canvas[1], strategy), canvases))
            passes = sum(cost["forwards"] for _, cost in answers)
            same = sum(filled[position] == ids[position]
                       for (ids, _, positions), (filled, _) in zip(canvases, answers) for position in positions)
            likelihoods = [likelihood(filled, positions) for (_, _, positions), (filled, _) in zip(canvases, answers)]
            base = base or likelihoods
            losses = [before - now for before, now in zip(base, likelihoods)]
            row = {"strategy": strategy, "passes": passes / len(canvases), "per_pass": masked / passes,
                   "agreement": same / masked, "pll": sum(likelihoods) / masked, "lost": sum(losses) / masked,
                   "error": pstdev(losses) * len(losses) ** 0.5 / masked}
            rows.append(row)
            print("{strategy:28} {passes:6.2f} passes  {per_pass:5.2f} tokens/pass  agreement {agreement:.4f}  "
                  "PLL {pll:.4f}  lost {lost:.4f} ± {error:.4f}".format(**row), flush=True)
    finally:
        server.close()
    about = {"model": Path(args.model).name, "sequences": len(canvases), "masked": masked, "share": args.share,
             "original_pll": original / masked, "rows": rows}
    Path(args.out).write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
