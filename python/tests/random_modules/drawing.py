"""Programs: modules as data that are written out as a script, which is what runs. `drawn(seed)` gives one."""

from __future__ import annotations

import dataclasses
import random
from string import Template

import torch

from . import motifs

OPTIONS = {"dtype": "float32", "autocast": False, "training": False, "dynamic": False, "last": False, "tf32": [], "kept": True, "backend": {}}
TF32 = [[], ["convolutions"], ["convolutions", "products"]]  # settings of PyTorch, of which the second is the default; for a GPU


@dataclasses.dataclass
class Statement:
    """One line of forward(). `text` has $x and $y for arguments, $o for results, $m for members."""
    text: str
    arguments: list[str]
    result: str
    members: dict[str, str]

    def line(self) -> str:
        names = {"x": self.arguments[0], "y": self.arguments[-1], "o": self.result, "oa": self.result + "a", "ob": self.result + "b",
                 "wide": "self.wide", "narrow": "self.narrow", **{"m" + k: f"self.{self.result}_{k}" for k in "abc"}}
        return Template(self.text).substitute(names)

    def made(self) -> list[str]:
        return [f"self.{self.result}_{k} = {make}" for k, make in self.members.items()]


@dataclasses.dataclass
class Program:
    inputs: dict[str, str]
    body: list[Statement]
    outputs: list[str]
    sizes: list[dict]
    options: dict

    def script(self, about: str = "") -> str:
        """A module, its inputs and how it is compiled, to be run or to be read."""
        made = [line for s in self.body for line in s.made()]
        body = [s.line() for s in self.body]
        about = about.replace("\\", "/").replace('"', "'")  # an error's text may end with a quotation mark
        lines = [f'"""{about}"""', "import torch", "import torch.nn as nn", "import torch.nn.functional as F", "", f"OPTIONS = {self.options!r}",
                 f"SIZES = {self.sizes!r}", "", "", "def inputs(randn, N, H, W, T, D):",
                 "    return (" + "".join(text + ", " for text in self.inputs.values()).strip() + ")", "", "", "class Model(nn.Module):",
                 "    wide, narrow = torch.float32, torch.bfloat16", "", "    def __init__(self):", "        super().__init__()",
                 *("        " + line for line in made), "", f"    def forward(self, {', '.join(self.inputs)}):", *("        " + line for line in body),
                 f"        return ({', '.join(self.outputs)},)", "", "", 'if __name__ == "__main__":',
                 "    from random_modules import judge  # PYTHONPATH: the package and python/tests", "    judge.main(globals())", ""]
        return "\n".join(lines)

    def copy(self, **changes) -> "Program":
        return dataclasses.replace(self, inputs=dict(self.inputs), body=list(self.body), outputs=list(self.outputs), sizes=[dict(s) for s in self.sizes],
                                   options={**self.options, "backend": dict(self.options["backend"])}, **changes) if not changes else \
            dataclasses.replace(self.copy(), **changes)

    def alive(self) -> "Program":
        """Without statements that no output depends on, unless they write in place, and without inputs that nobody reads."""
        needed, body = set(self.outputs), []
        for s in reversed(self.body):
            names = {s.result, s.result + "a", s.result + "b"}
            if names & needed or s.writes():
                needed |= set(s.arguments)
                body.append(s)
        inputs = {k: v for k, v in self.inputs.items() if k in needed} or dict(list(self.inputs.items())[:1])
        return dataclasses.replace(self, inputs=inputs, body=body[::-1])


def _writes(self: Statement) -> bool:
    return any(mark in self.text for mark in ("inplace=True", "_(", "+= ", "*= ", "] = "))


Statement.writes = _writes


class Drawer:
    """Draws statements and runs each in eager mode at all sizes, so that what it keeps is valid and calm."""

    def __init__(self, r: random.Random, options: dict, sizes: list[dict]):
        self.r, self.options, self.sizes = r, options, sizes
        self.inputs: dict[str, str] = {}
        self.body: list[Statement] = []
        self.members = torch.nn.Module()
        self.members.wide, self.members.narrow = torch.float32, torch.bfloat16
        self.values: list[dict] = [{} for _ in sizes]
        self.live: list[str] = []

    def add_input(self, kind: str | None = None) -> None:
        dims = list(motifs.KINDS[kind or self.r.choice(["image"] * 5 + ["tokens"] * 4 + ["signal", "rows", "rows", "volume"])])
        dims = [str(motifs._widths(self.r)) if d == "C" else d for d in dims]
        text, name = motifs.laid(self.r, dims), f"x{len(self.inputs)}"
        for size, values in zip(self.sizes, self.values):
            values[name] = eval(text, {"torch": torch, "randn": torch.randn, **size})  # noqa: S307
        self.inputs[name] = text
        self.live.append(name)

    def shape(self, name: str) -> tuple:
        return tuple(self.values[0][name].shape)

    def pairs(self, name: str) -> list[str]:
        """Values that broadcast with a value at all sizes."""
        def fits(other: str) -> bool:
            try:
                return all(torch.broadcast_shapes(v[name].shape, v[other].shape) is not None for v in self.values)
            except RuntimeError:
                return False
        return [other for other in self.live if other != name and fits(other)]

    def draw(self) -> bool:
        """Whether a statement was added."""
        arguments = [self.live[-1] if self.r.random() < 0.6 else self.r.choice(self.live[-4:] if self.r.random() < 0.7 else self.live)]
        others = self.pairs(arguments[0])
        if others and self.r.random() < 0.25:
            motif = motifs.weighted(self.r, motifs.PAIRS)
            arguments.append(self.r.choice(others))
        else:
            motif = motifs.weighted(self.r, motifs.MOTIFS)
        drawn = motif(self.r, self.shape(arguments[0]))
        if drawn is None:
            return False
        statement = Statement(drawn[0], arguments, f"v{len(self.body)}", drawn[1])
        return self.run(statement)

    def run(self, statement: Statement) -> bool:
        scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "self": self.members}
        before = [{k: (v, v._version) for k, v in values.items()} for values in self.values]
        try:
            for line in statement.made():
                exec(line, scope)  # noqa: S102
            for values in self.values:
                with torch.no_grad():
                    exec(statement.line(), scope, values)  # noqa: S102
        except (RuntimeError, ValueError, IndexError, TypeError, NameError, NotImplementedError, AssertionError):
            return self._undone(before)
        if not all(self._fine(values, statement) for values in self.values):
            return self._undone(before)
        self.body.append(statement)
        self.live += [n for n in (statement.result, statement.result + "b") if isinstance(self.values[0].get(n), torch.Tensor)]
        return True

    @staticmethod
    def _fine(values: dict, statement: Statement) -> bool:
        result = values.get(statement.result)
        return isinstance(result, torch.Tensor) and result.numel() <= 40_000 and result.dim() <= 6 and motifs.calm(result)

    def _undone(self, before: list[dict]) -> bool:
        """False. What was written in place stays written: values are only there for their shapes and sizes."""
        for values, old in zip(self.values, before):
            for name in set(values) - set(old):
                del values[name]
        return False


def _options(r: random.Random) -> dict:
    kind = r.choices(["float32", "bfloat16", "float16", "autocast"], [10, 4, 2, 4])[0]
    options = {**OPTIONS, "dtype": "float32" if kind == "autocast" else kind, "autocast": kind == "autocast", "training": r.random() < 0.4,
               "dynamic": r.random() < 0.2, "last": r.random() < 0.35, "backend": {}}
    if r.random() < 0.6:
        options["backend"]["minimum_operators"] = 0
    chance = r.random()
    if chance < 0.25 and not options["training"]:
        options["backend"]["frozen"] = True
    elif chance < 0.4:
        options["backend"]["networks"] = "any"
    return options


def _draft(r: random.Random) -> Program | None:
    options = _options(r)
    sizes = [motifs.sizes(r, options["dynamic"])]
    if options["dynamic"]:
        sizes += [motifs.sizes(r, True) for _ in range(2)]
    drawer = Drawer(r, options, sizes)
    drawer.add_input()
    if r.random() < 0.3:
        drawer.add_input()
    wanted = r.choice([1, 2, 3, 3, 4, 4, 5, 6, 8, 10])
    for _ in range(6 * wanted):
        if len(drawer.body) == wanted:
            break
        drawer.draw()
    if not drawer.body:
        return None
    last = drawer.body[-1].result
    outputs = [last] + [n for n in drawer.live if n != last and r.random() < 0.15]
    return Program(drawer.inputs, drawer.body, outputs, sizes, options).alive()


def drawn(seed: int, valid=None) -> Program:
    """The program of a seed. valid: says whether a program runs in eager mode as a whole, which drafts that write in place
    under autograd may not."""
    torch.manual_seed(seed)
    for attempt in range(100):
        program = _draft(random.Random(1000 * seed + attempt))
        if program is None:
            continue
        program.options["tf32"] = TF32[seed % len(TF32)]
        program.options["kept"] = seed % 4 < 2
        if valid is None or valid(program):
            return program
    raise RuntimeError(f"seed {seed} gives no valid program in 100 drafts")
