#!/usr/bin/env python3
"""Makes what the measurements read of lists of real sequences.

    sequences.py reactions CSV OUT      examples/example_rxns.csv of the repository rxn4chemistry/rxnmapper (MIT; patents)
    sequences.py antibodies CSV OUT     heavy chains of Boughter et al., eLife 2020 (VH_only_boughter.csv of the repository
                                        The-Obstacle-Is-The-Way/antibody_training_pipeline_ESM)
    sequences.py wheel WHEEL OUT        the reactions in the tests of the rxnmapper wheel: few, enough for a try
    sequences.py split LINES FOLDER V N FOLDER/held-out (the last N lines), validation (the V before them) and train (the
                                        others), each as .jsonl and .txt

The lists are not copied into this repository. A line is one sequence; in a .jsonl the prompt is [CLS] (with `--given`, of a
reaction everything up to >>, of a chain all but its last 16 residues) and the response the rest with [SEP].
"""

import csv
import json
import random
import re
import sys
import zipfile
from pathlib import Path


def reactions(path):
    with open(path, newline="") as file:
        return [row["rxn"] for row in csv.DictReader(file)]


def antibodies(path):
    """The cells of a table that are whole variable domains of the twenty residues."""
    with open(path, newline="") as file:
        rows = csv.reader(line for line in file if not line.startswith("#"))
        return [cell for row in rows for cell in row if re.fullmatch("[ACDEFGHIKLMNPQRSTVWY]{90,150}", cell)]


def wheel(path):
    archive = zipfile.ZipFile(path)
    text = archive.read("tests/test_mapper.py").decode()
    quoted = re.findall(r"\"([^\"\s]+>>[^\"\s]+)\"", text)
    return [reaction for reaction in quoted if not re.search(r":\d", reaction)]


def write(lines, out):
    unique = list(dict.fromkeys(lines))
    random.Random(0).shuffle(unique)
    Path(out).write_text("".join(f"{line}\n" for line in unique))
    print(f"{out}: {len(unique)} sequences")


def split(path, folder, validation, held_out, given):
    lines = Path(path).read_text().split()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def row(line):
        known = 0 if not given else line.index(">>") + 2 if ">>" in line else len(line) - 16
        prompt, response = line[:known], line[known:]
        return json.dumps({"prompt": f"[CLS]{prompt}", "response": f"{response}[SEP]"}) + "\n"

    first, second = len(lines) - held_out - validation, len(lines) - held_out
    for name, part in ("train", lines[:first]), ("validation", lines[first:second]), ("held-out", lines[second:]):
        (folder / f"{name}.jsonl").write_text("".join(map(row, part)))
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in part))
    print(f"{folder}: {first} to train on, {validation} to choose with, {held_out} held out")


if __name__ == "__main__":
    match [argument for argument in sys.argv[1:] if argument != "--given"]:
        case ["reactions", path, out]:
            write(reactions(path), out)
        case ["antibodies", path, out]:
            write(antibodies(path), out)
        case ["wheel", path, out]:
            write(wheel(path), out)
        case ["split", path, folder, validation, held_out]:
            split(path, folder, int(validation), int(held_out), "--given" in sys.argv)
        case _:
            sys.exit(__doc__)
