"""What the scripts here share: transformers' own model beside its folder, lines of a file, masks."""

import json
import random
import re
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file


class Theirs:
    """A converted folder, run by transformers."""

    def __init__(self, folder):
        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text())
        kind = transformers.BertForMaskedLM if config["model_type"] == "bert" else transformers.AlbertForMaskedLM
        settings = {key: value for key, value in config.items() if key != "architectures"}
        self.model = kind(kind.config_class(**settings))
        missing, unexpected = self.model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
        tied = ("decoder.weight", "decoder.bias", "position_ids")
        assert not unexpected and all(name.endswith(tied) or "pooler" in name for name in missing), (missing, unexpected)
        self.model.tie_weights()
        head = self.model.cls.predictions if config["model_type"] == "bert" else self.model.predictions
        head.decoder.bias = head.bias
        self.model.eval()
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        self.vocab = tokenizer["model"]["vocab"]
        self.tokens = {id: token for token, id in self.vocab.items()}
        self.pattern = re.compile(tokenizer["pre_tokenizer"]["pattern"]["Regex"])
        self.mask, self.cls, self.sep = (self.vocab[f"[{name}]"] for name in ("MASK", "CLS", "SEP"))

    def encode(self, line):
        """[CLS], the tokens of a sequence, [SEP]; none where a token is unknown."""
        pieces = [match.group(0) for match in self.pattern.finditer(line)]
        if "".join(pieces) != line or any(piece not in self.vocab for piece in pieces):
            return None
        return [self.cls] + [self.vocab[piece] for piece in pieces] + [self.sep]

    def decode(self, ids):
        return "".join(self.tokens[id] for id in ids)

    @torch.no_grad()
    def forward(self, ids):
        out = self.model(input_ids=torch.tensor([ids]), output_hidden_states=True)
        return out.hidden_states[-1][0], out.logits[0]

    @torch.no_grad()
    def pseudo_log_likelihood(self, ids, positions):
        """Sum over `positions` of log p of its token when it alone is masked."""
        rows = torch.tensor([ids]).repeat(len(positions), 1)
        index = torch.arange(len(positions))
        places = torch.tensor(positions)
        truth = rows[index, places].clone()
        rows[index, places] = self.mask
        logits = self.model(input_ids=rows).logits[index, places]
        return float(logits.log_softmax(-1)[index, truth].sum())


def read_lines(path):
    return [line.strip() for line in Path(path).read_text().splitlines() if line.strip()]


def mask_some(ids, mask, share, seed, first=1):
    """Masks a share of the tokens from `first` to before [SEP]; the ids and the positions."""
    dice = random.Random(seed)
    count = max(1, round(share * (len(ids) - 1 - first)))
    positions = sorted(dice.sample(range(first, len(ids) - 1), count))
    masked = list(ids)
    for position in positions:
        masked[position] = mask
    return masked, positions
