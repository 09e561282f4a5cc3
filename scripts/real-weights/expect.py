#!/usr/bin/env python3
"""Records transformers' own forward on real sequences, for the test that holds ours against it.

    expect.py MODEL SEQUENCES [N]

Writes MODEL/expected.safetensors: ids (a sixth of the tokens masked), hidden rows and logits of the first N sequences (40).
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from common import Theirs, mask_some, read_lines

if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    theirs, recorded = Theirs(sys.argv[1]), {}
    encoded = filter(None, map(theirs.encode, read_lines(sys.argv[2])))
    for number, ids in zip(range(int(sys.argv[3]) if len(sys.argv) > 3 else 40), encoded):
        ids, _ = mask_some(ids, theirs.mask, 1 / 6, number)
        hidden, logits = theirs.forward(ids)
        recorded[f"forward.{number}.ids"] = torch.tensor(ids, dtype=torch.int32)
        recorded[f"forward.{number}.hidden"] = hidden.contiguous()
        recorded[f"forward.{number}.logits"] = logits.contiguous()
    save_file(recorded, Path(sys.argv[1]) / "expected.safetensors")
    print(f"{sys.argv[1]}: {len(recorded) // 3} forwards recorded")
