#!/usr/bin/env python3
"""Builds lm_eval's own prompts and compares them with ours, byte for byte.

    python3 scripts/check_prompts.py --data FOLDER --model DIR [--demask target/release/demask] [--limit N]

FOLDER holds the datasets as their owners ship them, a folder each: `gsm8k/{train,test}.jsonl`, `humaneval/HumanEval.jsonl`,
`mbpp/mbpp.jsonl`, `mmlu_pro/{validation,test}-….parquet`; those that are missing are left out. DIR is a checkpoint's
folder with config, tokenizer and chat template; weights are not needed.

Installs lm_eval 0.4.13 and transformers from PyPI into a virtual environment of its own. lm_eval reads its own task
definitions with their own shots; only the place of the data is changed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import check_scoring

# The last transformers that Dream's own tokenizer code was made for renders a begun answer as later ones do.
PACKAGES = [check_scoring.LM_EVAL, "transformers==4.51.3"]
SUBJECTS = ["biology", "business", "chemistry", "computer_science", "economics", "engineering", "health", "history",
            "law", "math", "other", "philosophy", "physics", "psychology"]
# Task of lm_eval, folder of its data, whether it goes through the chat template.
TASKS = [("gsm8k", "gsm8k", False), ("gsm8k_cot", "gsm8k", False), ("humaneval", "humaneval", False),
         ("humaneval_instruct", "humaneval", True), ("mbpp", "mbpp", False), ("mbpp_instruct", "mbpp", True),
         *((f"mmlu_pro_{subject}", "mmlu_pro", False) for subject in SUBJECTS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with a folder of each dataset")
    parser.add_argument("--model", type=Path, required=True, help="folder with config, tokenizer and chat template")
    parser.add_argument("--demask", default="target/release/demask", help="our program")
    parser.add_argument("--venv", type=Path, help="a virtual environment to keep; else a temporary one")
    parser.add_argument("--limit", type=int, help="only so many questions of each task")
    parser.add_argument("--only", action="append", help="only this task; may be given several times")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return inside(args)
    wanted = [t for t in TASKS if (args.data / t[1]).is_dir() and (not args.only or t[0] in args.only)]
    if not wanted:
        sys.exit(f"{args.data} has no folder called gsm8k, humaneval, mbpp or mmlu_pro")
    compared = differ = 0
    with tempfile.TemporaryDirectory() as folder:
        python = prepare(args.venv or Path(folder) / "venv")
        for task, place, _ in wanted:
            theirs = ask_lm_eval(python, args, task, Path(folder))
            ours = ask_demask(args, task, args.data / place)
            if args.limit is None and len(ours) != len(theirs):
                differ += 1
                print(f"{task}: we ask {len(ours)} questions, lm_eval {len(theirs)}")
            before = differ
            for mine, other in zip(ours, theirs):
                compared += 1
                fields = [name for name in other if mine[name] != other[name]]
                if fields:
                    differ += 1
                    if differ - before <= 2:
                        print(f"{task} {mine['doc_id']} differs in {', '.join(fields)}:")
                        for name in fields:
                            print(f"  ours   {json.dumps(mine[name])[-600:]}\n  theirs {json.dumps(other[name])[-600:]}")
            print(f"{task}: {min(len(ours), len(theirs))} prompts, {differ - before} differ", flush=True)
    print(f"{compared} prompts of {len(wanted)} tasks compared; {differ} differ")
    return 1 if differ else 0


def prepare(folder):
    """The interpreter of a virtual environment with lm_eval."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def ask_demask(args, task, data):
    command = [args.demask, "prompts", "--task", task, "--protocol", "lm-eval", "--data", source(task, data),
               "--model", str(args.model)]
    command += ["--limit", str(args.limit)] if args.limit else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    # Not splitlines: a question may hold other ends of lines than ours.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def source(task, data):
    """What --data is given: the file where a folder holds several editions."""
    return str(data / "mbpp.jsonl") if task.startswith("mbpp") else str(data)


def ask_lm_eval(python, args, task, folder):
    answer = folder / "theirs.jsonl"
    command = [python, __file__, "--data", args.data, "--model", args.model, "--inside", json.dumps([task, str(answer)])]
    command += ["--limit", str(args.limit)] if args.limit else []
    quiet = {"HF_ALLOW_CODE_EVAL": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
             "HF_DATASETS_CACHE": str(folder / "datasets"), "LOGLEVEL": "ERROR"}
    done = subprocess.run(list(map(str, command)), env={**os.environ, **quiet}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lm_eval failed on {task}:\n{done.stderr[-3000:]}")
    return [json.loads(line) for line in answer.read_text(encoding="utf-8").splitlines()]


# From here on inside the virtual environment.


def data_files(task, data, folder):
    """The kind of the files and the file of each split, as the Hub has them."""
    if task.startswith("mmlu_pro"):
        return "parquet", {split: str(next(data.glob(f"{split}-*.parquet"))) for split in ("validation", "test")}
    if task.startswith("mbpp"):
        # The owners ship one file; the Hub splits it by task_id.
        rows = [json.loads(line) for line in (data / "mbpp.jsonl").read_text(encoding="utf-8").split("\n") if line]
        test = folder / "test.jsonl"
        test.write_text("".join(json.dumps(row) + "\n" for row in rows if 11 <= row["task_id"] <= 510), encoding="utf-8")
        return "json", {"test": str(test)}
    if task.startswith("humaneval"):
        return "json", {"test": str(data / "HumanEval.jsonl")}
    return "json", {split: str(data / f"{split}.jsonl") for split in ("train", "test")}


def inside(args):
    task, answer = json.loads(args.inside)
    place, chat = next((t[1], t[2]) for t in TASKS if t[0] == task)
    check_scoring.load_code_eval()
    from lm_eval.tasks import TaskManager, get_task_dict

    template = None
    if chat:
        from transformers import PreTrainedTokenizerFast

        tokenizer = PreTrainedTokenizerFast.from_pretrained(args.model)

        def template(history, add_generation_prompt=True):
            # As lm_eval's own model of transformers does it.
            return tokenizer.apply_chat_template(history, tokenize=False, add_generation_prompt=add_generation_prompt,
                                                 continue_final_message=not add_generation_prompt)

    with tempfile.TemporaryDirectory() as folder:
        kind, files = data_files(task, args.data / place, Path(folder))
        config = {"include": check_scoring.definition(task), "task": task, "dataset_path": kind, "dataset_name": None,
                  "dataset_kwargs": {"data_files": files}}
        (Path(folder) / f"{task}.yaml").write_text(json.dumps(config), encoding="utf-8")
        manager = TaskManager(include_path=folder, include_defaults=False)
        found = get_task_dict([task], manager)[task]
        found.set_fewshot_seed(seed=1234)
        found.build_all_requests(limit=args.limit, rank=0, world_size=1, apply_chat_template=chat,
                                 chat_template=template, tokenizer_name="")
        lines = []
        for request in found.instances:
            prompt, settings = request.args
            line = {"doc_id": request.doc_id, "prompt": prompt, "until": settings["until"]}
            # Where the definition says nothing the model's own default of 256 holds.
            line["max_new_tokens"] = settings.get("max_gen_toks", 256)
            lines.append(json.dumps(line) + "\n")
        Path(answer).write_text("".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
