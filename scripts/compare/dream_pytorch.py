"""The published Dream code on PyTorch's CPU backend, with random weights, for `demask bench compare --pytorch`.

    python3 scripts/compare/dream_pytorch.py --code DIR --config config.json --prompt 256 --response 256 --steps 2

DIR is a local copy of the checkpoint's Python files (modeling_dream.py, configuration_dream.py, generation_utils.py); it
is run as it is. Without torch or the version of transformers that the code was written for, the script makes a virtual
environment beside the user's caches, installs them there and runs itself again with it (with PIP_EXTRA_INDEX_URL set to
PyTorch's index of CPU builds the download is a tenth). It prints one line of JSON: the seconds of
`diffusion_generate`, without loading.
"""

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
import time
import types
import venv

# What the published checkpoint's card names, and a torch that goes with it.
TRANSFORMERS = "4.46.2"
NEEDS = ["torch>=2.5,<2.8", f"transformers=={TRANSFORMERS}", "numpy<3"]
FILES = ["configuration_dream.py", "generation_utils.py", "modeling_dream.py"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--code", type=pathlib.Path, required=True, help="folder of the published Python files")
    parser.add_argument("--config", type=pathlib.Path, required=True, help="config.json of the shape")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--response", type=int, default=256, help="tokens of the response")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser.parse_args()


def installed():
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        return False
    return transformers.__version__ == TRANSFORMERS


def again_with_what_it_needs():
    """Runs this script with an environment of its own."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    folder = cache / "demask-compare" / "pytorch"
    python = folder / "bin" / "python"
    if pathlib.Path(sys.executable) == python:
        sys.exit(f"the environment in {folder} lacks torch or transformers {TRANSFORMERS}; remove it and run again")
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", *NEEDS]
        subprocess.run(install, check=True, stdout=sys.stderr)
        (folder / "complete").touch()
    os.execv(python, [str(python), *sys.argv])


def published(code):
    """The modules of a folder as one package, since they import one another relatively."""
    missing = [name for name in FILES if not (code / name).is_file()]
    if missing:
        sys.exit(f"{code} lacks {', '.join(missing)}; name a copy of the checkpoint's Python files")
    package = types.ModuleType("published_dream")
    package.__path__ = [str(code.resolve())]
    sys.modules["published_dream"] = package
    configuration = importlib.import_module("published_dream.configuration_dream")
    modeling = importlib.import_module("published_dream.modeling_dream")
    return configuration.DreamConfig, modeling.DreamModel


def main():
    args = arguments()
    if not installed():
        again_with_what_it_needs()
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    config_class, model_class = published(args.code)
    fields = json.loads(args.config.read_text())
    config = config_class(**{key: value for key, value in fields.items() if key not in ("auto_map", "architectures")})
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
    torch.set_default_dtype(dtype)
    # Weights are made without initialisers, which take minutes at this size, and filled with small noise.
    with torch.device("meta"):
        model = model_class(config)
    model = model.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0) if "norm" in name else parameter.uniform_(-0.02, 0.02)
        rotary(model, config)
    model.eval()
    prompt = torch.arange(1, args.prompt + 1).remainder(1000).add(1).unsqueeze(0)
    options = {"temperature": 0.0, "alg": "entropy", "output_history": False, "return_dict_in_generate": True}
    ids = {"mask_token_id": fields["mask_token_id"], "pad_token_id": fields.get("pad_token_id")}
    start = time.perf_counter()
    answer = model.diffusion_generate(prompt, max_new_tokens=args.response, steps=args.steps, **options, **ids)
    seconds = time.perf_counter() - start
    tokens = answer.sequences[0, args.prompt :]
    if tokens.numel() != args.response or (tokens == fields["mask_token_id"]).any():
        sys.exit("the published code left masks or gave another number of tokens; its version does not fit this script")
    print(json.dumps({"seconds": seconds, "steps": args.steps, "threads": torch.get_num_threads(), "dtype": args.dtype}))


def rotary(model, config):
    """Frequencies are buffers, which `to_empty` leaves unset."""
    import torch

    for module in model.modules():
        if hasattr(module, "inv_freq"):
            made = type(module)(config=config) if "config" in type(module).__init__.__code__.co_varnames else None
            if made is None:
                width = config.hidden_size // config.num_attention_heads
                steps = torch.arange(0, width, 2, dtype=torch.float32) / width
                module.inv_freq = 1.0 / (config.rope_theta**steps)
            else:
                module.inv_freq = made.inv_freq
                module.original_inv_freq = made.inv_freq


if __name__ == "__main__":
    main()
