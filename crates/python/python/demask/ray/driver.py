"""Hands pieces to actors until all are done, whatever happens to nodes.

A piece whose actor dies runs again on another; one that takes much longer than the others is also given to an idle actor,
and the first to commit it wins. What is committed stays, so that a driver that dies continues when it is started again.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RaySystemError, RayTaskError

from ..progress import clock

Log = Callable[[str], None]


@dataclass
class Limits:
    """How work is spread and how much is borne."""

    actors: int | None = None
    """Most actors at a time; as many as the cluster has room for if ``None``."""
    cpus: float | None = None
    """Cores of each actor; all of its node if ``None``, or one where it has a GPU."""
    gpus: float = 0
    """GPUs of each actor."""
    attempts: int = 8
    """How often a piece may be lost before the run gives up."""
    straggler: float = 4.0
    """A piece that takes this many times the median is given to an idle actor too."""
    say_every: float = 10.0
    """Seconds between two lines of progress."""


@dataclass
class Node:
    """What one node has done."""

    pieces: int = 0
    seconds: float = 0.0
    lost: int = 0


@dataclass
class Running:
    """A piece on its way."""

    piece: int
    actor: Any
    node: str
    started: float


@dataclass
class State:
    """How far the run is."""

    waiting: deque[int]
    done: set[int] = field(default_factory=set)
    running: dict[Any, Running] = field(default_factory=dict)
    starting: dict[Any, Any] = field(default_factory=dict)
    idle: list[tuple[Any, str]] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)


LOST = (RayActorError, RaySystemError, ConnectionError)


def say(line: str) -> None:
    """A line on standard error."""
    print(line, file=sys.stderr, flush=True)


class Driver:
    """Runs pieces ``0 … count-1`` on actors of a class with ``node()`` and ``piece(index, count)``."""

    def __init__(self, worker: type, args: tuple[Any, ...], limits: Limits, log: Log = say) -> None:
        self.worker, self.args, self.limits, self.log = worker, args, limits, log
        self.began = time.monotonic()

    def run(self, pieces: list[int], count: int) -> State:
        """Every piece is done when this returns."""
        state = State(deque(pieces))
        self.began = said = time.monotonic()
        while len(state.done) < len(pieces):
            self._hire(state)
            self._assign(state, count)
            watched = [*state.running, *state.starting]
            ready, _ = ray.wait(watched, num_returns=1, timeout=1.0) if watched else ([], [])
            if not watched:
                time.sleep(1.0)
            for reference in ready:
                if reference in state.starting:
                    self._started(state, reference)
                else:
                    self._finished(state, reference)
            if time.monotonic() - said >= self.limits.say_every:
                said = time.monotonic()
                self.log(self.line(state, count))
        self.log(self.line(state, count))
        # A twin that is still at work, and an actor that never found room, are no longer needed.
        for actor in [a for a, _ in state.idle] + [r.actor for r in state.running.values()] + [*state.starting.values()]:
            ray.kill(actor)
        return state

    def one(self, method: str, *args: Any) -> Any:
        """A call on an actor of its own, again if that is lost."""
        for attempt in range(self.limits.attempts):
            actor = self._actor(self._shape()[0])
            try:
                return ray.get(getattr(actor, method).remote(*args))
            except RayTaskError as error:
                raise cause_of(error) from None
            except LOST as error:
                self.log(f"{method} was lost ({plainly(error)}); again, attempt {attempt + 2}")
            finally:
                ray.kill(actor)
        raise RuntimeError(f"{method} was lost {self.limits.attempts} times")

    def _shape(self) -> tuple[float, int]:
        """Cores of an actor, and how many actors the cluster has room for."""
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        sizes = [resources.get("CPU", 0.0) for resources in alive if resources.get("CPU", 0.0) >= 1]
        cpus = self.limits.cpus or (1.0 if self.limits.gpus else min(sizes, default=1.0))
        room = 0
        for resources in alive:
            by_cpu = resources.get("CPU", 0.0) // cpus
            by_gpu = resources.get("GPU", 0.0) // self.limits.gpus if self.limits.gpus else by_cpu
            room += int(min(by_cpu, by_gpu))
        return cpus, min(room, self.limits.actors or room)

    def _actor(self, cpus: float) -> Any:
        options = {"num_cpus": cpus, "num_gpus": self.limits.gpus, "max_restarts": 0}
        return ray.remote(self.worker).options(**options).remote(*self.args)

    def _hire(self, state: State) -> None:
        cpus, room = self._shape()
        have = len(state.idle) + len(state.running) + len(state.starting)
        wanted = min(room, len(state.waiting) + len(state.running))
        for _ in range(wanted - have):
            actor = self._actor(cpus)
            state.starting[actor.node.remote()] = actor

    def _started(self, state: State, reference: Any) -> None:
        actor = state.starting.pop(reference)
        try:
            node = ray.get(reference)
        except RayTaskError as error:
            raise cause_of(error) from None
        except LOST as error:
            self.log(f"an actor was lost while it loaded the model ({plainly(error)}); another is started")
            return
        state.nodes.setdefault(host(node), Node())
        state.idle.append((actor, node))

    def _assign(self, state: State, count: int) -> None:
        while state.idle and state.waiting:
            self._start(state, state.waiting.popleft(), count)
        if not state.idle or len(state.times) < 2:
            return
        patience = self.limits.straggler * median(state.times)
        pieces = [running.piece for running in state.running.values()]
        for running in list(state.running.values()):
            slow = time.monotonic() - running.started > patience and pieces.count(running.piece) == 1
            if slow and state.idle:
                self.log(f"piece {running.piece} takes long on {running.node}; also started elsewhere")
                self._start(state, running.piece, count)

    def _start(self, state: State, piece: int, count: int) -> None:
        actor, node = state.idle.pop(0)
        state.running[actor.piece.remote(piece, count)] = Running(piece, actor, node, time.monotonic())

    def _finished(self, state: State, reference: Any) -> None:
        running = state.running.pop(reference)
        piece, seconds = running.piece, time.monotonic() - running.started
        node = state.nodes.setdefault(host(running.node), Node())
        try:
            result = ray.get(reference)
        except LOST as error:
            node.lost += 1
            # It may only have lost its connection: then it must not keep its cores.
            ray.kill(running.actor)
            self._lost(state, running, error)
            return
        except RayTaskError as error:
            raise cause_of(error) from None
        except GetTimeoutError:
            state.running[reference] = running
            return
        state.idle.append((running.actor, running.node))
        if not result["first"]:
            self.log(f"piece {piece} was already there when {running.node} had made it; the first one stays")
        if piece not in state.done:
            state.done.add(piece)
            state.times.append(seconds)
            node.pieces += 1
            node.seconds += seconds

    def _lost(self, state: State, running: Running, error: BaseException) -> None:
        piece = running.piece
        again = [other for other in state.running.values() if other.piece == piece]
        if piece in state.done or again:
            return
        state.lost[piece] = state.lost.get(piece, 0) + 1
        if state.lost[piece] >= self.limits.attempts:
            raise RuntimeError(f"piece {piece} was lost {state.lost[piece]} times, the last time on {running.node}")
        self.log(f"piece {piece} was lost with {running.node} ({plainly(error)}); it runs again elsewhere")
        state.waiting.appendleft(piece)

    def line(self, state: State, count: int) -> str:
        """How far it is: pieces, rate, time left, and what each node did."""
        elapsed = max(1e-9, time.monotonic() - self.began)
        done = len(state.done)
        # A twin of a piece that is done is still at work sometimes.
        left = len(state.waiting) + len({r.piece for r in state.running.values()} - state.done)
        rate = done / elapsed
        eta = clock(left / rate) if rate else "?"
        nodes = ", ".join(
            f"{name} {node.pieces} pieces at {node.seconds / max(1, node.pieces):.1f} s"
            + (f", {node.lost} lost" if node.lost else "")
            for name, node in sorted(state.nodes.items())
        )
        return f"{count - left}/{count} pieces, {60 * rate:.1f} a minute, {eta} left; {nodes or 'no node yet'}"


def host(node: str) -> str:
    """The machine of ``machine:process``."""
    return node.rsplit(":", 1)[0]


def cause_of(error: RayTaskError) -> BaseException:
    """What an actor itself raised, without Ray's account of where."""
    cause: BaseException | None = getattr(error, "cause", None)
    return error if cause is None else cause


def plainly(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__
