"""Checks a disassembly of demask, and cuts the register tile of the AVX-512-VNNI product out of it for llvm-mca."""

import re
import sys

DEPTH = 128  # depths of a group; one turn of the loop takes eight


def functions(path):
    name, lines = None, []
    for line in open(path):
        if match := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name, lines = match[1], []
        elif not line.strip() and name:
            yield name, lines
            name = None
        elif name and ":\t" in line:
            lines.append(line.split(":\t", 1)[1].strip())
    if name:
        yield name, lines


def tile(lines):
    """Start, loop and end of one tile, in the order they run."""
    products = [i for i, line in enumerate(lines) if line.startswith("vpdpbusd")]
    branches = [i for i, line in enumerate(lines) if line.startswith("jne") and i > products[0]]
    last = branches[0]
    first = products[0]
    while lines[first - 1].startswith(("vp", "vmov")):
        first -= 1
    loop = lines[first:last]
    # The scales of the sums: a run of conversions and multiply-adds, wherever the compiler put it.
    scaled = [i for i, line in enumerate(lines) if line.startswith("vcvtdq2ps")]
    end = lines[scaled[0] - 2 : scaled[-1] + 3]
    starts = [i for i, line in enumerate(lines) if line.startswith("vpaddd")]
    start = lines[starts[0] - 2 : starts[-1] + 1]
    straight = [line for line in start + loop * (DEPTH // 8) + end if not line.startswith(("j", "nop"))]
    return [line.split("#")[0] for line in straight]


def main():
    disassembly, out = sys.argv[1:]
    ours, calling, best = set(), {}, (0, None)
    for name, lines in functions(disassembly):
        calls = [match[1] for line in lines if (match := re.match(r"call\s.*<(.*)>", line))]
        if "demask_kernels" in name:
            ours.update([name, *calls])
        if to := [call for call in calls if "core_arch" in call]:
            calling[name] = to[0]
        products = sum(line.startswith("vpdpbusd") and "zmm" in line for line in lines)
        if products > best[0] and not calls:
            best = (products, lines)
    called = [f"{name} calls {to}" for name, to in calling.items() if name in ours]
    if best[1] is None:
        sys.exit("no AVX-512-VNNI product in this program")
    for line in called:
        print(line)
    if called:
        sys.exit("instructions became calls: make arrays in loops, not in closures")
    print("no instruction of the kernels became a call")
    open(out, "w").write(".intel_syntax noprefix\n" + "\n".join(tile(best[1])) + "\n")


main()
