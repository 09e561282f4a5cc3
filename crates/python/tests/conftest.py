"""What all tests share: the model inside the package."""

from __future__ import annotations

import pytest

import demask

QUESTION = "Tom has 12 pens. Tom buys 7 more. Tom loses 5. How many pens does Tom have now?"


@pytest.fixture(scope="session")
def model() -> demask.Model:
    return demask.Model.embedded()
