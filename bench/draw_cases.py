#!/usr/bin/env python3
"""Draws the shapes of the suites `drawn` and `drawn_products`, which nobody chose and no kernel was tuned for.

A block is Conv2D, bias, GroupNorm and SiLU. N is drawn from 1 to 32, H and W from 8 to 512 (odd values too), C and K
from 32 to 1,280 in multiples of 8, K also of its groups. All are log-uniform. Groups are 8, 16 or 32, filters 1x1 or
3x3, strides 1 or 2, all equally likely. A shape below 2 GFLOP, above 200 GFLOP or above 4 GB is drawn again. A
product has M from 64 to 16,384, N from 256 to 16,384 and K from 64 to 8,192, N and K in multiples of 8, with the same
limits on GFLOP. The products take turns: bare, with a layer norm, with an RMS norm, with a softmax.

usage: bench/draw_cases.py [--seed 1] [--blocks 30] [--products 20] [--out bench/cases] [--check]
The committed files are those of seed 1. --check writes nothing and fails if the files in --out differ from what it would
write.
"""
import argparse
import math
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOP = (2e9, 200e9)
BYTES = 4e9
OPERAND = "  operand {}[n] : {{dtype}}\n"
NORMS = {
    "bare": "  store acc as y : {dtype}\n",
    "bias, layer norm": "".join(map(OPERAND.format, ("bias", "gamma", "beta")))
    + "  store layer_norm(acc + bias[n], scale=gamma[n], shift=beta[n]) as y : {dtype}\n",
    "RMS norm": OPERAND.format("gamma") + "  store rms_norm(acc, scale=gamma[n]) as y : {dtype}\n",
    "softmax": "  store softmax(acc, over=n) as y : {dtype}\n",
}


def block_text(groups):
    operands = "".join(map(OPERAND.format, ("bias", "gamma", "beta")))
    return (operands + "  h = acc + bias[n]\n"
            f"  store silu(group_norm(h, groups={groups}, scale=gamma[n], shift=beta[n])) as y : {{dtype}}\n")


def log_uniform(rng, least, most, step=1):
    """A multiple of `step` from `least` to `most`; each doubling is as likely as another."""
    value = math.exp(rng.uniform(math.log(least), math.log(most)))
    return min(most // step, max(-(-least // step), round(value / step))) * step


def draw_block(rng):
    """(groups of the norm, the case's line)"""
    while True:
        n, h, w = log_uniform(rng, 1, 32), log_uniform(rng, 8, 512), log_uniform(rng, 8, 512)
        groups, taps, stride = rng.choice((8, 16, 32)), rng.choice((1, 3)), rng.choice((1, 2))
        c, k = log_uniform(rng, 32, 1280, 8), log_uniform(rng, 32, 1280, math.lcm(8, groups))
        outputs = n * -(-h // stride) * -(-w // stride) * k
        fits = 2 * (n * h * w * c + outputs) <= BYTES
        if fits and FLOP[0] <= 2 * outputs * c * taps**2 <= FLOP[1]:
            return groups, f"case {n},{h},{w},{c},{k},{taps}" + (" stride=2" if stride == 2 else "")


def draw_product(rng):
    while True:
        m, n, k = log_uniform(rng, 64, 16384), log_uniform(rng, 256, 16384, 8), log_uniform(rng, 64, 8192, 8)
        if FLOP[0] <= 2 * m * n * k <= FLOP[1]:
            return f"case {m},{n},{k}"


def suite_text(suite, about, epilogues):
    """`epilogues`: {name: (text, lines)}; those without a line are left out."""
    head = f"# {about}\n# Written by bench/draw_cases.py, which says how they are drawn.\nsuite {suite}\n"
    return head + "\n".join(f"epilogue {name}\n{text}\n" + "\n".join(lines) + "\n"
                            for name, (text, lines) in epilogues.items() if lines)


def draw(args):
    """{suite: its text}"""
    rng = random.Random(args.seed)
    blocks = [draw_block(rng) for _ in range(args.blocks)]
    products = [(list(NORMS)[i % len(NORMS)], draw_product(rng)) for i in range(args.products)]
    of_groups = {f"block, {g} groups": (block_text(g), [line for of, line in blocks if of == g]) for g in (8, 16, 32)}
    of_norms = {name: (text, [line for of, line in products if of == name]) for name, text in NORMS.items()}
    about = {"drawn": ("Conv2D, bias, GroupNorm, SiLU", of_groups),
             "drawn_products": ("Products with and without norms", of_norms)}
    return {suite: suite_text(suite, f"{what} at shapes that a generator drew.", epilogues)
            for suite, (what, epilogues) in about.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--products", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/cases")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for suite, text in draw(args).items():
        file = args.out / f"{suite}.txt"
        if not args.check:
            args.out.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            sys.exit(f"{file} is not what seed {args.seed} draws; run bench/draw_cases.py without --check")


if __name__ == "__main__":
    main()
