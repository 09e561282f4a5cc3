"""The wheel as it was installed: one library, types, docstrings, and numpy as its only need."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import demask


def test_one_copy_of_the_code_one_dependency_and_types() -> None:
    package = metadata.distribution("demask")
    files = [str(file) for file in package.files or []]
    assert [file for file in files if file.endswith((".so", ".pyd"))] == ["demask/_native.abi3.so"]
    assert {"demask/py.typed", "demask/_native.pyi"} <= set(files)
    needs = package.requires or []
    assert [need for need in needs if "extra ==" not in need] == ["numpy>=1.24"]
    tags = [line for line in (package.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    assert tags and all(tag.startswith("Tag: cp310-abi3-") for tag in tags), tags
    if os.environ.get("MANYLINUX", "1") == "1":
        assert any("manylinux_2_17" in tag or "manylinux2014" in tag for tag in tags), tags
    scripts = {entry.name: entry.value for entry in package.entry_points if entry.group == "console_scripts"}
    assert scripts == {"demask": "demask.__main__:main"}


def test_the_command_lies_beside_python() -> None:
    program = Path(sys.executable).with_name("demask")
    assert program.stat().st_size < 2000, "a few lines that call the library"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"demask {demask.__version__}\n"


def test_everything_public_says_what_it_is() -> None:
    for name in demask.__all__:
        thing = getattr(demask, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert inspect.getdoc(thing), name
        members = vars(thing).items() if inspect.isclass(thing) else []
        for key, member in members:
            if not key.startswith("_") and (inspect.isfunction(member) or isinstance(member, (property, classmethod))):
                assert inspect.getdoc(member), f"{name}.{key}"
