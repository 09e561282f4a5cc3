"""How each recording is spelt as a command, and what of its answer must be the same."""

import json


class Skip(Exception):
    """What no command line can repeat, and why."""


def ids(tokens):
    return ",".join(map(str, tokens))


def generate(model, prompt, length, strategy, *more):
    return ["generate", "--model", model, "--prompt-ids", ids(prompt), "-n", length, "--temperature", 0,
            "--strategy", strategy, *more]


def end_agrees(got, want):
    """Up to its end the answer is the recorded one."""
    ours = got["answer_ids"]
    return None if ours == want[: len(ours)] else f"answered {ours}, recorded {want}"


def passes_agree(got, trace):
    """Every pass that changed something: block, positions, tokens, edits; then the answer."""
    ours = [step for step in got["passes"] if step["positions"] or step.get("edited")]
    theirs = trace["steps_taken"]
    for number, (our, their) in enumerate(zip(ours, theirs)):
        for key, value in their.items():
            if our.get(key, []) != value:
                return f"pass {number}: {key} is {our.get(key)}, recorded {value}"
    if len(ours) != len(theirs):
        return f"{len(ours)} passes, recorded {len(theirs)}"
    return end_agrees(got, trace["final"])


def counted(got, trace):
    problem = passes_agree(got, trace)
    if not problem and got["forwards"] != trace["forward_passes"]:
        return f"{got['forwards']} forward passes, recorded {trace['forward_passes']}"
    return problem


def llada2(fixtures, expected):
    model = fixtures / "llada2-toy"

    def plain(trace):
        strategy = "llada2:threshold={threshold},steps={steps},minimal={minimal_topk}".format(**trace)
        eos = "stop" if trace["eos_early_stop"] else "auto"
        return generate(model, trace["prompt"], trace["gen_length"], strategy, "--block-length", trace["block_length"],
                        "--eos", eos), counted

    def editing(trace):
        strategy = "llada2:threshold={threshold},transfer={num_to_transfer}".format(**trace)
        eos = "block-fill" if trace["eos_early_stop"] else "none"
        return generate(model, trace["prompt"], trace["gen_length"], strategy, "--block-length", trace["block_length"],
                        "--eos", eos, "--edit-threshold", trace["editing_threshold"],
                        "--post-steps", trace["max_post_steps"]), counted

    for number, trace in enumerate(expected["generate"]):
        yield f"generate {number}", trace, plain
    for number, trace in enumerate(expected["generate_editing"]):
        yield f"generate_editing {number}", trace, editing


def sdar(fixtures, expected):
    def prepare(trace):
        mode = "sequential"
        if trace["order"] != "sequential":
            mode = "static" if trace["threshold"] is None else f"dynamic,threshold={trace['threshold']}"
        strategy = f"sdar:mode={mode},steps={trace['denoising_steps']}"
        return generate(fixtures / "sdar-toy", trace["prompt"], trace["gen_length"], strategy,
                        "--block-length", trace["block_length"]), passes_agree

    for number, trace in enumerate(expected["generate"]):
        yield f"generate {number}", trace, prepare


def lladamoe(fixtures, expected):
    def prepare(trace):
        strategy = f"low-confidence:steps={trace['steps']}"
        return generate(fixtures / "lladamoe-toy", trace["prompt"], trace["gen_length"], strategy,
                        "--block-length", trace["block_length"], "--eos", "none"), passes_agree

    for number, trace in enumerate(expected["generate"]):
        yield f"generate {number}", trace, prepare


def prompts(fixtures):
    return json.loads((fixtures / "dream-toy/expected.json").read_text())["prompts"]


def apd(fixtures, expected):
    model, verifier, known = fixtures / "dream-toy", fixtures / "apd-toy/verifier", prompts(fixtures)

    def bounds(trace):
        named = ("W", "window"), ("M", "lookahead")
        return "".join(f",{name}={trace[key]}" for key, name in named if trace[key] is not None)

    def accepted(got, trace):
        counts = [len(step["positions"]) for step in got["passes"]]
        if counts != trace["accepted"]:
            return f"accepted {counts}, recorded {trace['accepted']}"
        return end_agrees(got, trace["response"])

    def prepare(trace):
        if trace["temperature"] > 0:
            raise Skip("draws by the recording's formula, at temperature squared")
        prompt, length = known[trace["prompt"]], expected["gen_length"]
        if trace["alg"] == "leftright":
            strategy = f"token-order:k={trace['tokens_per_step']}" + bounds(trace)
            # A last pass counts more than the response holds.
            return generate(model, prompt, length, strategy), lambda got, trace: end_agrees(got, trace["response"])
        strategy = f"apd:r={trace['R']}" + bounds(trace)
        return generate(model, prompt, length, strategy, "--assistant", verifier), accepted

    for number, trace in enumerate(expected["traces"]):
        yield f"trace {number} ({trace['alg']})", trace, prepare


def dcd(fixtures, expected):
    known, mask = prompts(fixtures), 1

    def compare(got, trace):
        start = len(known[trace["prompt"]])
        cells = [sum(1 for cell in range(*chunk) if str(cell - start) not in trace["known"]) for chunk in trace["chunks"]]
        counts = [len(step["positions"]) for step in got["passes"]]
        if counts != cells:
            return f"chunks {counts}, recorded {cells}"
        want = trace["response_to_eos"]
        ours = got["token_ids"][start:][: len(want)]
        return None if ours == want else f"filled in {ours}, recorded {want}"

    def prepare(trace):
        cells = [trace["known"].get(str(cell), mask) for cell in range(expected["gen_length"])]
        return ["infill", "--ids", ids(known[trace["prompt"]] + cells), "--model", fixtures / "dream-toy",
                "--assistant", fixtures / "apd-toy/verifier", "--strategy", f"copula:steps={trace['steps']}",
                "--temperature", 0, "--eos", "none"], compare

    for number, trace in enumerate(expected["cases"]):
        yield f"case {number}", trace, prepare


def adjust(fixtures, expected):
    known = prompts(fixtures)

    def compare(got, trace):
        start = len(known[trace["prompt"]])
        ours = [sorted(position - start for position in step["positions"]) for step in got["passes"]]
        theirs = [sorted(step) for step in trace["committed"]]
        if ours != theirs:
            return f"committed {ours}, recorded {theirs}"
        return None if got["canvas"] == trace["response"] else f"wrote {got['canvas']}, recorded {trace['response']}"

    def prepare(trace):
        name = "adjust" if trace["drafter"] else "entropy"
        layer = ["--sampler-layer", fixtures / "adjust-toy/drafter.safetensors"] if trace["drafter"] else []
        return generate(fixtures / "dream-toy", known[trace["prompt"]], expected["gen_length"],
                        f"{name}:steps={trace['steps']}", "--eos", "none", *layer), compare

    for number, trace in enumerate(expected["traces"]):
        yield f"trace {number}", trace, prepare


def policy(fixtures, expected):
    def prepare(trace):
        raise Skip("draws by the recording's formula")

    for number, trace in enumerate(expected["traces"]):
        yield f"trace {number}", trace, prepare


RUNS = {"llada2-toy": llada2, "sdar-toy": sdar, "lladamoe-toy": lladamoe, "apd-toy": apd, "dcd-toy": dcd,
        "adjust-toy": adjust, "policy-toy": policy}
