"""Python and the command line give the same tokens: 50 prompts, 5 strategies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import demask

PROMPTS = 50
STRATEGIES = ["demask", "demask:tau=0.2,gamma=0.5", "entropy:k=2", "klass:conf=0.9,kl=0.001", "random"]


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    listed = [sys.executable, "-m", "demask", "problems", "--limit", str(PROMPTS), "arith"]
    problems = subprocess.run([*listed, "--format", "gsm8k"], capture_output=True, text=True, check=True)
    return [json.loads(line)["question"] for line in problems.stdout.splitlines()]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_same_tokens(model: demask.Model, prompts: list[str], strategy: str, tmp_path: Path) -> None:
    assert len(set(prompts)) == PROMPTS
    options = {"strategy": strategy, "max_new_tokens": 24, "seed": 5, "temperature": 0.7}
    flags = ["-s", strategy, "-n", "24", "--seed", "5", "--temperature", "0.7", "--json"]
    # One process for all prompts: starting 250 would take most of the time.
    code = (
        "import json, sys; from demask import _native, _worker\n"
        "for prompt in json.load(sys.stdin): _native.main(['demask', 'generate', prompt, *sys.argv[1:]], _worker.command())"
    )
    program = os.environ.get("DEMASK")
    if program:
        # The program that cargo built, where there is one.
        calls = [subprocess.run([program, "generate", prompt, *flags], capture_output=True, check=True) for prompt in prompts]
        cli = [json.loads(call.stdout) for call in calls]
    else:
        told = subprocess.run(
            [sys.executable, "-c", code, *flags], input=json.dumps(prompts), capture_output=True, text=True, check=True
        )
        cli = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(cli) == PROMPTS
    for prompt, line in zip(prompts, cli):
        out = model.generate(prompt, **options)  # type: ignore[arg-type]
        assert out.response_ids == line["canvas"], prompt
        assert (out.text, out.steps, out.forwards) == (line["text"], line["steps"], line["forwards"])
