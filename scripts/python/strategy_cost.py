"""What a strategy written in Python costs beside a step of a model: the same decoding, the same choices, both ways.

    python scripts/python/strategy_cost.py --model DIR [--dtype int8] [--length 256] [--prompt 256]

DIR is a checkpoint of the 7B shape, e.g. `demask synthesize DIR --layers 2`. A step of two layers takes less than a step of all
28 (selection, head and marginals do not depend on the layers), so the share that is measured there is an upper bound. The choices
of the Python strategies are those of top1:k=4. They decode by turns, a step each, since a machine that others use is not always
as fast. Prints medians: a step, its pass, its selection (in which logits that a strategy asks for are handed over), what its
marginals (in which they are kept) take longer than those of top1:k=4 beside it, and the share of these two in the step.
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
    arguments.add_argument("--steps", type=int, default=12, help="steps that are timed; the first is not")
    args = arguments.parse_args()
    model = demask.Model.load(args.model, dtype=args.dtype, by_ids=True) if args.model else demask.Model.embedded()
    prompt = [token for token in range(5, 5 + args.prompt) if token != model.mask_id]
    strategies = {"top1:k=4": "top1:k=4", "Python": Top(), "Python, with logits": Everything()}
    streams = [
        model.stream(prompt, strategy=strategy, max_new_tokens=args.length, dependency=False, eos="none")
        for strategy in strategies.values()
    ]
    rounds = [[step.record["seconds"] for step in steps] for steps, _ in zip(zip(*streams), range(args.steps + 1))][1:]
    for number, name in enumerate(strategies):
        own = [steps[number] for steps in rounds]
        step = np.median([seconds["forward"] + seconds["marginals"] + seconds["select"] for seconds in own])
        forward, select = (np.median([seconds[part] for seconds in own]) for part in ("forward", "select"))
        longer = np.median([steps[number]["marginals"] - steps[0]["marginals"] for steps in rounds])
        print(
            f"{name:<20} step {step:.4f} s, pass {forward:.4f} s, selection {select:.6f} s, marginals {longer:+.4f} s, "
            f"{100 * (select + max(longer, 0)) / step:.3f} % of a step"
        )


if __name__ == "__main__":
    main()
