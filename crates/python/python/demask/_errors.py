"""Exceptions of the package: the library's own sentences."""

from __future__ import annotations

from ._native import Error


class UsageError(Error, ValueError):
    """The call itself can be repaired: a name, a value or a length is wrong."""


__all__ = ["Error", "UsageError"]
