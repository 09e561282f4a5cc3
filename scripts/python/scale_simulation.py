"""The cost model of docs/scale.md against Ray: the real driver, actors that sleep as long as the passes of a piece would take.

    python scripts/python/scale_simulation.py [--actors 8] [--pieces 96] [--pass-seconds 0.002]

Pieces are those of a TV cache: responses of a fixed length, masks drawn as the cache draws them, |M| + 1 passes each. The model
says when the last piece ends if nothing but passes took time (pieces in order, each to the first free actor); what the run takes
beyond that is what Ray and the driver cost. Actors are started before the clock, as a model is loaded before the first piece.
"""

from __future__ import annotations

import argparse
import heapq
import time

import numpy as np
import ray

from demask.ray.driver import Driver, Limits, State

RESPONSE, MASKS = 64, 5


def passes(piece: int, responses: int) -> int:
    """Forward passes of a piece: for every mask of every response, one and one more for each masked position."""
    drawn = np.random.default_rng(piece).uniform(size=(responses, MASKS))
    return int((np.maximum(2, np.round(drawn * RESPONSE)) + 1).sum())


class Sleeper:
    """An actor whose passes only take time."""

    def __init__(self, seconds: float, responses: int) -> None:
        self.seconds, self.responses = seconds, responses

    def node(self) -> str:
        return "here:0"

    def piece(self, index: int, count: int) -> dict[str, object]:
        time.sleep(self.seconds * passes(index, self.responses))
        return {"first": True}


class Timed(Driver):
    """Starts its clock when all actors are there."""

    ready = 0.0

    def _assign(self, state: State, count: int) -> None:
        if not self.ready:
            if len(state.idle) < (self.limits.actors or 1):
                return
            self.ready = time.monotonic()
        super()._assign(state, count)


def predicted(times: list[float], actors: int) -> float:
    """When the last piece ends."""
    free = [0.0] * actors
    for seconds in times:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--actors", type=int, nargs="+", default=[2, 4, 8])
    arguments.add_argument("--pieces", type=int, default=96)
    arguments.add_argument("--responses", type=int, default=4)
    arguments.add_argument("--pass-seconds", type=float, default=0.004)
    args = arguments.parse_args()
    times = [args.pass_seconds * passes(piece, args.responses) for piece in range(args.pieces)]
    print(f"{args.pieces} pieces of {np.mean(times):.2f} s, {sum(times):.0f} s in all")
    for actors in args.actors:
        ray.init(num_cpus=actors, include_dashboard=False, log_to_driver=False, logging_level="error")
        limits = Limits(actors=actors, cpus=1, straggler=1e9, say_every=1e9)
        driver = Timed(Sleeper, (args.pass_seconds, args.responses), limits, log=lambda line: None)
        driver.run(list(range(args.pieces)), args.pieces)
        took, model = time.monotonic() - driver.ready, predicted(times, actors)
        print(f"{actors:4} actors: model {model:7.2f} s, measured {took:7.2f} s, {100 * (took / model - 1):+.1f} %")
        ray.shutdown()


if __name__ == "__main__":
    main()
