"""The command ``demask``: the program of the repository, without a second copy of its code."""

from __future__ import annotations

import signal
import sys

from . import _native, _worker


def main() -> None:
    """Runs the command line."""
    # Ctrl-C and a closed pipe end the program as they end any other.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.flush()
    raise SystemExit(_native.main(["demask", *sys.argv[1:]], _worker.command()))


if __name__ == "__main__":
    main()
