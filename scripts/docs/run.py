#!/usr/bin/env python3
"""Runs the commands that README and the documents show, as they are printed.

A fenced block whose info string is `sh run` is run by bash, those of one document in one scratch folder, one after the
other; `sh run model` needs nothing but a folder called DIR, which is a copy of the toy checkpoint. Everything else is
checked as far as that goes without running: a line that begins with `demask` must be a command this program has, with
flags it knows. The program is $DEMASK.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```", re.M | re.S)


def blocks(document):
    """(line, words of the info string, text) of every fenced block of shell."""
    text = document.read_text()
    for match in FENCE.finditer(text):
        indent, language, words, body = match.groups()
        if language in ("sh", "console", ""):
            line = text.count("\n", 0, match.start()) + 1
            yield line, words.split(), "\n".join(row.removeprefix(indent) for row in body.splitlines())


def scratch(program, words, folder):
    """A folder with what a block may ask for, and the environment it runs in."""
    if "model" in words and not (folder / "DIR").exists():
        shutil.copytree(REPOSITORY / "tests/fixtures/dream-toy", folder / "DIR")
    (folder / "bin").mkdir(exist_ok=True)
    link = folder / "bin/demask"
    if not link.exists():
        link.symlink_to(program)
        # Where a document builds the program first, it is there already.
        cargo = folder / "bin/cargo"
        cargo.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift || exit 1; done\nshift\nexec demask "$@"\n')
        cargo.chmod(0o755)
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}


def run(program, document, line, words, text, folder):
    """What a block printed, where it failed."""
    begun = time.monotonic()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=scratch(program, words, folder), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )
    took = time.monotonic() - begun
    print(f"{'ok  ' if done.returncode == 0 else 'FAIL'}  {document.name}:{line}, {took:.1f} s", flush=True)
    return None if done.returncode == 0 else f"{document}:{line}\n{text}\n{done.stdout}"


def known(program, cache, words):
    """Whether the program has this command and its flags; None, or what it lacks."""
    path = []
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        answer = help_of(program, cache, (*path, word))
        if answer is None:
            break
        path.append(word)
    if not path:
        return f"there is no command {words[:1]}"
    text = help_of(program, cache, tuple(path))
    for flag in (word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2):
        if not re.search(rf"{re.escape(flag)}\b", text):
            return f"{' '.join(path)} has no {flag}"
    return None


def help_of(program, cache, path):
    if path not in cache:
        told = subprocess.run([program, *path, "--help"], capture_output=True, text=True)
        # A command's first argument is answered with the command's own help.
        usage = re.search(r"^Usage: demask(?:\.exe)? (.*)$", told.stdout, re.M)
        own = usage and usage.group(1).split()[: len(path)] == list(path)
        cache[path] = told.stdout if told.returncode == 0 and own else None
    return cache[path]


def commands(text):
    """The words of every line that calls the program."""
    joined = text.replace("\\\n", " ")
    for row in joined.splitlines():
        row = row.strip().removeprefix("$ ")
        if row.startswith("demask ") and "…" not in row.split()[1]:
            yield shlex.split(row.replace("[--", "--").replace("]", ""), comments=True)[1:]


def main():
    program = os.path.abspath(os.environ.get("DEMASK", REPOSITORY / "target/release/demask"))
    wrong, ran, checked, cache = [], 0, 0, {}
    for document in DOCUMENTS:
        with tempfile.TemporaryDirectory() as folder:
            for line, words, text in blocks(document):
                if words[:1] == ["run"]:
                    ran += 1
                    failure = run(program, document, line, words, text, pathlib.Path(folder))
                    wrong.extend([failure] if failure else [])
                for command in commands(text):
                    checked += 1
                    lacks = known(program, cache, command)
                    wrong.extend([f"{document}:{line}: {lacks}"] if lacks else [])
    print(f"{ran} blocks ran, {checked} commands are the program's own")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
