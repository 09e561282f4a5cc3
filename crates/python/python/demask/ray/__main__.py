"""``python -m demask.ray tv-cache|eval|sweep|lab|validate …``: a command of ``demask`` on a Ray cluster."""

from __future__ import annotations

import argparse
import sys

import ray

from .. import _errors
from . import COMMANDS, Job, Limits, run


def parser() -> argparse.ArgumentParser:
    """Flags of this program; all others are the command's own."""
    own = argparse.ArgumentParser(prog="python -m demask.ray", description=__doc__, allow_abbrev=False)
    own.add_argument("command", choices=COMMANDS)
    own.add_argument("--address", default=None, help="the cluster: auto, or host:port; without it, this machine alone")
    own.add_argument("--out", "-o", required=True, help="a folder that all nodes see, or a URL such as s3://bucket/run")
    own.add_argument("--pieces", type=int, help="parts of an evaluation or sweep (a TV cache's are its files) [default: 64]")
    own.add_argument("--actors", type=int, help="most actors at a time [default: what the cluster has room for]")
    own.add_argument("--cpus-per-actor", type=float, help="cores of an actor [default: its node's]")
    own.add_argument("--gpus-per-actor", type=float, default=0, help="GPUs of an actor, which computes on them")
    own.add_argument("--device", help="where an actor computes [default: its GPUs, or its cores]")
    own.add_argument("--attempts", type=int, default=8, help="how often a piece may be lost")
    own.add_argument("--say-every", type=float, default=10.0, help="seconds between two lines of progress")
    own.add_argument("--model", "-m", help="checkpoint folder or Hub name [default: the embedded model]")
    own.add_argument("--dtype", help="precision of the weights")
    own.add_argument("--predictor", help="another dependency predictor")
    own.add_argument("--no-mmap", action="store_true", help="read the weights into memory")
    return own


def main() -> None:
    """Runs the program."""
    args, flags = parser().parse_known_args()
    if args.command in ("tv-cache", "validate") and flags[:1] in (["generate"], ["sub-additivity"]):
        flags = flags[1:]
    model = {"name": args.model, "dtype": args.dtype} if args.model else {}
    if args.predictor:
        model["predictor"] = args.predictor
    if args.device:
        model["device"] = args.device
    if args.model and args.no_mmap:
        model["mmap"] = False
    limits = Limits(
        actors=args.actors,
        cpus=args.cpus_per_actor,
        gpus=args.gpus_per_actor,
        attempts=args.attempts,
        say_every=args.say_every,
    )
    ray.init(address=args.address, log_to_driver=False, logging_level="warning")
    try:
        run(Job(args.command, tuple(flags), args.out, model), pieces=args.pieces, limits=limits)
    except _errors.Error as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, _errors.UsageError) else 1) from None
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
