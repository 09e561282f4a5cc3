#!/usr/bin/env python3
"""Asks lm_eval for its marks of our responses and compares them with ours.

    python3 scripts/check_scoring.py [--demask target/release/demask] [--write]

Installs lm_eval 0.4.13 from PyPI into a virtual environment of its own. `--write` makes the fixture anew: the data files
and `marks.jsonl`, every response with lm_eval's marks, which `cargo test` compares with ours without any of this.

HumanEval and MBPP are marked by `evaluate.load("code_eval")`, which lies on the Hub. Where that cannot be reached the
same rule stands in for it: the program and its tests, run in a process of their own, end without an exception.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import scoring_cases

LM_EVAL = "lm_eval==0.4.13"
FOLDER = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "scoring"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demask", default="target/release/demask", help="our program")
    parser.add_argument("--venv", type=Path, help="a virtual environment to keep; else a temporary one")
    parser.add_argument("--write", action="store_true", help="write the fixture")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return print(json.dumps(marks_of_lm_eval()))
    with tempfile.TemporaryDirectory() as folder:
        theirs = ask_lm_eval(args.venv or Path(folder) / "venv")
        cases = [{k: v for k, v in case.items() if k != "row"} for case in scoring_cases.cases()]
        for case, marks in zip(cases, theirs, strict=True):
            case.update(marks)
        if args.write:
            write(cases)
        ours = ask_demask(args.demask, cases, Path(folder))
    differ = 0
    for case, mine in zip(cases, ours, strict=True):
        if (case["correct"], case["strict"]) != (mine["correct"], mine["strict"]):
            differ += 1
            print("differs:", json.dumps({**case, "ours": mine}, ensure_ascii=False))
    right = sum(case["correct"] for case in cases)
    print(f"{len(cases)} responses to {len(scoring_cases.TASKS)} tasks, {right} right; {differ} marked differently")
    return 1 if differ else 0


def write(cases):
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = lambda rows: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for name, rows in scoring_cases.FILES.items():
        (FOLDER / f"{name}.jsonl").write_text(lines(rows()), encoding="utf-8")
    (FOLDER / "marks.jsonl").write_text(lines(cases), encoding="utf-8")


def ask_demask(program, cases, folder):
    """Our marks, in the order of the cases."""
    ours = []
    for task, (file, _) in scoring_cases.TASKS.items():
        mine = [case for case in cases if case["task"] == task]
        responses = folder / f"{task}.jsonl"
        responses.write_text("".join(json.dumps(case) + "\n" for case in mine), encoding="utf-8")
        command = [program, "score", "--task", task, "--protocol", "lm-eval", "--data", str(FOLDER / f"{file}.jsonl"),
                   "--responses", str(responses), "--allow-code-execution", "--code-timeout", "60"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        ours += [json.loads(line) for line in done.stdout.splitlines()]
    return ours


def ask_lm_eval(folder):
    """lm_eval's marks, in the order of the cases."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", LM_EVAL], check=True)
    environment = {**os.environ, "HF_ALLOW_CODE_EVAL": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([python, __file__, "--inside"], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("lm_eval failed")
    return json.loads(done.stdout.splitlines()[-1])


# From here on inside the virtual environment.


class CodeEval:
    """The rule of `code_eval` for one program each: program, line end, tests; passed if nothing is raised."""

    def compute(self, references, predictions, k):
        passed = [self.passes(program + "\n" + tests) for tests, (program,) in zip(references, predictions)]
        return {"pass@1": sum(passed) / len(passed)}, {}

    def passes(self, program):
        run = "import sys\ntry:\n    exec(sys.stdin.read(), {})\nexcept BaseException:\n    sys.exit(1)\nsys.stderr.write('passed')"
        try:
            done = subprocess.run([sys.executable, "-c", run], input=program, capture_output=True, text=True, timeout=20)
        except subprocess.TimeoutExpired:
            return False
        return done.stderr.endswith("passed")


def load_code_eval():
    import evaluate

    load = evaluate.load

    def loaded(name, *args, **kwargs):
        if name != "code_eval":
            return load(name, *args, **kwargs)
        try:
            return load(os.environ.get("CODE_EVAL", name), *args, **kwargs)
        except Exception as error:
            print(f"code_eval cannot be loaded ({type(error).__name__}); the same rule stands in for it", file=sys.stderr)
            return CodeEval()

    evaluate.load = loaded


def definition(task):
    """The file of a task of lm_eval."""
    import lm_eval

    file = task.replace("_", "-") if task.startswith("gsm8k") else task
    found = list((Path(lm_eval.__file__).parent / "tasks").glob(f"*/{file}.yaml"))
    if len(found) != 1:
        sys.exit(f"lm_eval has {len(found)} files for {task}")
    return str(found[0])


def marks_of_lm_eval():
    load_code_eval()
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Canned(LM):
        """Answers with the responses at hand, cut as lm_eval's own models cut them."""

        def __init__(self, responses):
            super().__init__()
            self.responses = responses

        def generate_until(self, requests, **_):
            answers = []
            for request in requests:
                answer = self.responses[request.doc_id]
                for stop in request.args[1]["until"]:
                    answer = answer.split(stop)[0]
                answers.append(answer)
            return answers

        def loglikelihood(self, requests, **_):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests, **_):
            raise NotImplementedError

    marks = []
    with tempfile.TemporaryDirectory() as folder:
        for task in scoring_cases.TASKS:
            cases = [case for case in scoring_cases.cases() if case["task"] == task]
            data = Path(folder) / f"{task}.jsonl"
            # One row a response, so that lm_eval's document is our response.
            data.write_text("".join(json.dumps(case["row"]) + "\n" for case in cases), encoding="utf-8")
            files = {split: str(data) for split in ("train", "validation", "test")}
            # lm_eval's own definition, with only the place of the data changed.
            config = {"include": definition(task), "task": task, "dataset_path": "json", "dataset_name": None,
                      "dataset_kwargs": {"data_files": files}}
            own = Path(folder) / task
            own.mkdir()
            (own / f"{task}.yaml").write_text(json.dumps(config), encoding="utf-8")
            result = lm_eval.simple_evaluate(
                model=Canned([case["response"] for case in cases]), tasks=[task], num_fewshot=0, bootstrap_iters=0,
                task_manager=TaskManager(include_path=str(own), include_defaults=False),
                confirm_run_unsafe_code=True, log_samples=True,
            )
            found = [{"correct": None, "strict": None} for _ in cases]
            for sample in result["samples"][task]:
                name = next(name for name in sample["metrics"])
                which = "strict" if sample["filter"] == "strict-match" else "correct"
                found[sample["doc_id"]][which] = bool(sample[name])
            marks += found
    return marks


if __name__ == "__main__":
    sys.exit(main())
