"""What all tests share: the model inside the package, and a Ctrl-C that arrives."""

from __future__ import annotations

import signal

import pytest

import demask

QUESTION = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?"

# A shell's background jobs ignore SIGINT, and Python keeps it so: what a test interrupts would run to its end.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def model() -> demask.Model:
    return demask.Model.embedded()
