"""Epilogues drawn over the whole text form, planned for an H200 and for an A100: what Hopper's kernels serve, those by mma.sync serve too,
or refuse for a reason that docs/plan-families.md lists.

usage: drawn_epilogues.py COMMAND [--seed N] [--count N]
"""

import argparse
import concurrent.futures
import json
import random
import subprocess
import sys

UNARY = ("relu silu mish gelu gelu_tanh sigmoid tanh relu6 hardswish softplus logsigmoid abs square leaky_relu elu erf sin").split()
FOLDS = "sum mean max min sum_squares variance".split()
LISTED = ("divides a group of",)  # a row's channels are reduced in groups that no tile holds
# A contraction, its channels, and whether its results are images of 16 bits in multiples of 8 channels, which may be pooled
SHAPES = [
    ("--conv", "2,16,16,64->64,3x3", 64, True),
    ("--conv", "2,15,13,24->48,3x3,stride=2", 48, True),
    ("--conv", "3,9,7,16->35,3x3", 35, False),
    ("--conv", "2,20,20,64->256,1x1", 256, True),
    ("--conv", "8,32,32,64->96,3x3,dtype=f16", 96, True),
    ("--conv", "2,9,11,24->48,3x3,stride=2,transposed", 48, False),
    ("--gemm", "300,128->192,nt", 192, False),
    ("--gemm", "4,64,96->80,nn", 80, False),
    ("--gemm", "2048,256->1024,nt", 1024, False),
    ("--gemm", "150,40->33,nt", 33, False),
]


class Epilogue:
    """Statements of values v1, v2, … that read one another, and stores of some."""

    def __init__(self, draw, channels, pools):
        self.draw, self.pools, self.lines, self.values = draw, pools, [], []
        self.groups = [g for g in range(1, 33) if channels % g == 0]

    def named(self, text):
        name = f"v{len(self.lines) + 1}"
        self.lines.append(f"{name} = {text}")
        return name

    def operand(self):
        i = len(self.lines) + 1
        kind = self.draw.choice(["n"] * 4 + ["b,n", "m", "m,n", "m,n", "", "b", "h,w", "g"])
        if kind == "m,n":
            dtype = self.draw.choice(["bf16", "bf16", "f16", "f32"])
            self.lines.append(f"operand r{i}[m,n] : {dtype}")
            return f"r{i}"
        if kind == "g":
            kind = f"b,g{self.draw.choice(self.groups[1:])}" if len(self.groups) > 1 else "n"
        return f"x{i}[{kind}]"

    def element(self):
        x, y = self.draw.choice(self.values), self.draw.choice(self.values)
        other = self.operand()
        return self.draw.choice([f"{self.draw.choice(UNARY)}({x})"] * 5 + [f"{x} {self.draw.choice('+-*')} {other}"] * 6 + [
            f"{x} * {y}", f"select({x} > 0, {x}, 0.25 * {other})", f"cast({x}, bf16)", f"clamp({x}, lower=-1, upper=limit[])", f"max({x}, {other})",
            f"{x} * cast(index({self.draw.choice('mnbhw')}), f32)", f"{x} - one_hot(label[m])"])

    def normalised(self):
        x, g, i = self.draw.choice(self.values), self.draw.choice(self.groups), len(self.lines)
        of = self.draw.choice(["", f", scale=scale{i}[n], shift=shift{i}[n]", f", scale=scale{i}[n]", f", scale=scale{i}[b,n], shift=shift{i}[b,n]"])
        return self.draw.choice([f"group_norm({x}, groups={g}{of})"] * 3 + [
            f"layer_norm({x}{of})", f"instance_norm({x}{of})", f"batch_norm({x}{of})", f"rms_norm({x})", f"softmax({x}, over=n)", f"{x} - max({x}, over=n, groups={g})"])

    def reduced(self):
        g = self.draw.choice(self.groups)
        over = self.draw.choice(["m", "m, per=b", "n", f"n, groups={g}", "all", "(m,n), per=b", f"(m,n), groups={g}", f"(m,n), per=b, groups={g}"])
        return f"{self.draw.choice(FOLDS)}({self.draw.choice(self.values)}, over={over})"

    def stores(self, y):
        dtype = self.draw.choice(["bf16"] * 5 + ["f16", "f32", "f32"])
        rounding = self.draw.choice(["", "", "", " toward_zero", " stochastic(seed)", " strided"]) if dtype != "f32" else ""
        all_of = [f"store {y} as y : {dtype}{rounding}"]
        if self.draw.random() < 0.25:
            all_of.append(f"store {self.draw.choice(self.values)} as z : {self.draw.choice(['bf16', 'bf16', 'f16', 'f32'])}")
        all_of += [f"store {self.reduced()} as s{i} : f32" for i in range(2) if self.draw.random() < 0.2]
        if self.pools and len(all_of) == 1 and dtype != "f32" and not rounding and self.draw.random() < 0.3:
            all_of.append(f"store {self.draw.choice(['max_pool_2x2', 'upsample_2x2'])}({y}) as p : {dtype}")
        return all_of if self.draw.random() > 0.04 else [f"store {self.reduced()} as s : f32"]

    def text(self):
        self.values.append(self.named("acc + bias[n]"))
        self.values += [self.named(self.element()) for _ in range(self.draw.randrange(4))]
        kind = self.draw.random()
        if kind < 0.45:
            self.values = [self.named(self.normalised())] + (self.values if self.draw.random() < 0.2 else [])
        elif kind < 0.6:
            self.values = [self.named(f"{self.draw.choice(self.values)} {self.draw.choice('-*')} {self.reduced()}")]
        self.values += [self.named(self.element()) for _ in range(self.draw.randrange(3))]
        if kind > 0.92:
            self.values = [self.named(self.normalised())]
        return "\n".join(self.lines + self.stores(self.values[-1]))


def family_for(gpu, text, shape):
    """The family whose kernel it is, or why there is none."""
    shown = subprocess.run([OPTIONS.command, "explain", text, *shape, "--device", "cuda", "--gpu", gpu, "--json"], capture_output=True, text=True)
    if shown.returncode not in (0, 3):  # 3: nothing serves it
        sys.exit(f"'{text}' for {shape} is no epilogue:\n{shown.stderr}")
    fields = json.loads(shown.stdout)["plan_override"].split() if shown.returncode == 0 else [shown.stderr]
    return fields[0].removeprefix("family=")


def families_of(i):
    draw = random.Random(1000 * OPTIONS.seed + i)
    *shape, channels, pools = draw.choice(SHAPES)
    text = Epilogue(draw, channels, pools).text()
    return f"{shape}: {text!r}", family_for("H200", text, shape), family_for("A100", text, shape)


parser = argparse.ArgumentParser()
parser.add_argument("command")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=90)
OPTIONS = parser.parse_args()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    drawn = list(pool.map(families_of, range(OPTIONS.count)))
served = [(what, ampere) for what, hopper, ampere in drawn if hopper == "sm90_conv"]
print(f"{len(drawn)} epilogues: {len(served)} by Hopper's kernels, {sum(ampere == 'mma' for _, _, ampere in drawn)} by mma.sync")
refused = [(what, ampere) for what, ampere in served if ampere != "mma"]
missing = [f"{what}\n  {ampere}" for what, ampere in refused if not any(reason in ampere for reason in LISTED)]
print(f"{len(refused) - len(missing)} refused for reasons that the docs list")
if len(served) < OPTIONS.count // 2:
    missing.append("Hopper's kernels serve less than half: the drawing is of little use")
sys.exit("\n".join(["Hopper's kernels serve these, and those by mma.sync do not:", *missing]) if missing else 0)
