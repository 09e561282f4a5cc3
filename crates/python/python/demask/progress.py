"""A progress bar on standard error, in a terminal or a notebook, without a dependency."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Union

Callback = Callable[[int, int, str, str], None]
"""Called with how many are done, how many there are, what is counted, and a message."""
Progress = Union[bool, None, Callback]
"""``True`` draws a bar, ``False`` nothing, ``None`` draws where somebody sees it; or a callback."""


class Bar:
    """One line that is drawn over itself; nothing in the first second, so that short calls stay silent."""

    def __init__(self, quiet_seconds: float = 1.0) -> None:
        self.started = time.monotonic()
        self.quiet = quiet_seconds
        self.width = 0

    def __call__(self, done: int, total: int, unit: str, message: str) -> None:
        elapsed = time.monotonic() - self.started
        if elapsed < self.quiet:
            return
        share = done / total if total else 0.0
        filled = int(24 * min(share, 1.0))
        left = f", {clock(elapsed * (total - done) / done)} left" if 0 < done < total else ""
        line = f"{'█' * filled}{'░' * (24 - filled)} {done}/{total} {unit}{left} {message}".rstrip()
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def close(self) -> None:
        """Removes the line."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0


class Shown:
    """A bar while a call lasts: what the native half is given."""

    def __init__(self, progress: Progress) -> None:
        self.bar: Bar | None = None
        self.callback: Callback | None
        if callable(progress):
            self.callback = progress
        elif progress or (progress is None and somebody_sees()):
            self.bar = Bar()
            self.callback = self.bar
        else:
            self.callback = None

    def __enter__(self) -> Callback | None:
        return self.callback

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.close()


def somebody_sees() -> bool:
    """Whether standard error is a terminal or a notebook's cell."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
