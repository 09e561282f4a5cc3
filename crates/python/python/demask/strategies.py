"""The strategies there are."""

from __future__ import annotations

from dataclasses import dataclass

from . import _native


@dataclass(frozen=True)
class Parameter:
    """A strategy's parameter."""

    key: str
    default: str
    help: str


@dataclass(frozen=True)
class Known:
    """A strategy of the package."""

    name: str
    aliases: list[str]
    summary: str
    source: str
    parameters: list[Parameter]


def strategies() -> list[Known]:
    """Every strategy of the package, as ``demask strategies`` lists them."""
    return [
        Known(name, aliases, summary, source, [Parameter(*parameter) for parameter in parameters])
        for name, aliases, summary, source, parameters in _native.strategies()
    ]


__all__ = ["Known", "Parameter", "strategies"]
