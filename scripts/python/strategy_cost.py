"""What a strategy written in Python costs beside a step of a model: the same decoding, the same choices, both ways.

    python scripts/python/strategy_cost.py --model DIR [--dtype int8] [--length 256] [--prompt 256]

DIR is a checkpoint of the 7B shape, e.g. `demask synthesize DIR --layers 2`. A step of two layers takes less than a step of all
28, so the share that is measured there is an upper bound. The choices of the Python strategy are those
of top1:k=4. Prints the seconds of selection in both, and Python's share of a step.
"""

from __future__ import annotations

import argparse

import numpy as np

import demask


class Top(demask.Strategy):
    """top1:k=4, in Python."""

    def select(self, step: demask.StrategyStep) -> np.ndarray:
        return np.argsort(-step.top1, kind="stable")[:4]


class Everything(Top):
    """The same, and sees the logits too: the most that can be asked for."""

    logits = True


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model")
    arguments.add_argument("--dtype", help="precision of the weights, as stored if left out")
    arguments.add_argument("--length", type=int, default=64)
    arguments.add_argument("--prompt", type=int, default=64)
    arguments.add_argument("--steps", type=int, default=6, help="steps that are timed")
    args = arguments.parse_args()
    model = demask.Model.load(args.model, dtype=args.dtype, by_ids=True) if args.model else demask.Model.embedded()
    prompt = [token for token in range(5, 5 + args.prompt) if token != model.mask_id]
    for name, strategy in (("top1:k=4", "top1:k=4"), ("Python", Top()), ("Python, with logits", Everything())):
        stream = model.stream(prompt, strategy=strategy, max_new_tokens=args.length, dependency=False, eos="none")
        steps = [step.record["seconds"] for step, _ in zip(stream, range(args.steps))]
        whole = [sum(seconds[key] for key in ("forward", "marginals", "select")) for seconds in steps]
        select = [seconds["select"] for seconds in steps]
        print(
            f"{name:<20} step {np.median(whole):8.4f} s, selection {np.median(select):.6f} s, "
            f"{100 * np.median(select) / np.median(whole):.3f} % of a step"
        )


if __name__ == "__main__":
    main()
