#!/usr/bin/env python3
"""Makes tests/fixtures/bert-toy and albert-toy: random weights and transformers' own numbers for them.

    fixture.py OUT

Every scale and bias is drawn too, so that a forgotten one shows. Needs torch, transformers and safetensors.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

VOCAB, MASK, SEP, PAD = 61, 4, 3, 0


def draw(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if "LayerNorm.weight" in name or "layer_norm.weight" in name:
            values = 1 + 0.2 * values
        elif parameter.dim() == 1:
            values = 0.2 * values
        else:
            values = values * 1.5 / parameter.shape[-1] ** 0.5
        parameter.data.copy_(values)
    model.tie_weights()


def make(folder, model, seed):
    draw(model, seed)
    model.eval()
    folder.mkdir(parents=True, exist_ok=True)
    model.config.mask_token_id, model.config.eos_token_id, model.config.pad_token_id = MASK, SEP, PAD
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "generation_config.json").unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(seed + 1)
    recorded = {}
    for number, length in enumerate([1, 9, 30, 48]):
        ids = torch.randint(5, VOCAB, (1, length), generator=generator)
        ids[torch.rand((1, length), generator=generator) < 0.3] = MASK
        with torch.no_grad():
            out = model(input_ids=ids, output_hidden_states=True)
        recorded[f"forward.{number}.ids"] = ids[0].to(torch.int32)
        recorded[f"forward.{number}.hidden"] = out.hidden_states[-1][0].contiguous()
        recorded[f"forward.{number}.logits"] = out.logits[0].contiguous()
    save_file(recorded, folder / "expected.safetensors")
    about = {"made_by": "scripts/real-weights/fixture.py", "transformers": transformers.__version__,
             "torch": torch.__version__, "seed": seed}
    (folder / "made.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    common = dict(vocab_size=VOCAB, hidden_size=32, num_attention_heads=4, intermediate_size=56,
                  max_position_embeddings=48, type_vocab_size=2)
    bert = transformers.BertConfig(num_hidden_layers=3, hidden_act="gelu", layer_norm_eps=1e-12, **common)
    make(out / "bert-toy", transformers.BertForMaskedLM(bert), 7)
    albert = transformers.AlbertConfig(num_hidden_layers=4, hidden_act="gelu_new", embedding_size=16,
                                       layer_norm_eps=1e-12, **common)
    make(out / "albert-toy", transformers.AlbertForMaskedLM(albert), 8)
