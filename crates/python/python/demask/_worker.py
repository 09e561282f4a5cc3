"""The process that renders chat templates of strangers' checkpoints, with limits of its own.

It loads the native half alone: numpy would reserve more memory than a worker may have.
"""

from __future__ import annotations

import sys

from . import _native

CODE = (
    "import importlib.util as u, sys; "
    "s = u.spec_from_file_location('demask._native', sys.argv[1]); "
    "m = u.module_from_spec(s); s.loader.exec_module(m); m.template_worker()"
)


def command() -> tuple[str, list[str]]:
    """The program and its arguments."""
    return sys.executable, ["-I", "-S", "-c", CODE, str(_native.__file__)]


def install() -> None:
    """From now on, templates are rendered there."""
    if sys.executable:
        _native.isolate_templates(*command())
