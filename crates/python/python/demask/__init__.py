"""Decode, train and evaluate masked-diffusion language models, with dependency-guided parallel unmasking.

>>> import demask
>>> model = demask.Model.embedded()
>>> out = model.generate("Tom has 12 pens. Tom buys 7 more. How many pens does Tom have now?")
>>> out.forwards < 128
True

``docs/python.md`` of the repository tells more.
"""

from __future__ import annotations

from . import _worker, tv_cache
from ._errors import Error, UsageError
from ._native import __version__, set_threads
from .commands import Records, evaluate, sub_additivity, sweep, train_predictor
from .model import Model, options
from .output import Commit, Output, Step, Stream
from .strategies import strategies
from .strategy import Selection, Strategy, StrategyStep

_worker.install()

__all__ = [
    "Commit",
    "Error",
    "Model",
    "Output",
    "Records",
    "Selection",
    "Step",
    "Strategy",
    "StrategyStep",
    "Stream",
    "UsageError",
    "__version__",
    "evaluate",
    "options",
    "set_threads",
    "strategies",
    "sub_additivity",
    "sweep",
    "train_predictor",
    "tv_cache",
]
