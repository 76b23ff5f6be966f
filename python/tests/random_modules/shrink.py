"""The smallest program that fails in the same way: fewer results, statements, options, sizes, and plainer inputs."""

from __future__ import annotations

import time
from typing import Callable, Iterator

import torch

from .drawing import OPTIONS, Drawer, Program, Statement


def _renamed(statement: Statement, old: str, new: str) -> Statement:
    return Statement(statement.text, [new if a == old else a for a in statement.arguments], statement.result, statement.members)


def _replaced(program: Program, at: int, name: str) -> Program:
    """Without statement `at`, whose result is `name` from there on."""
    old = program.body[at].result
    body = program.body[:at] + [_renamed(s, old, name) for s in program.body[at + 1:]]
    return program.copy(body=body, outputs=list(dict.fromkeys(name if o == old else o for o in program.outputs)))


def _shapes(program: Program) -> dict[str, tuple]:
    """Of all values, at the first size."""
    drawer = Drawer(None, program.options, program.sizes[:1])
    for name, text in program.inputs.items():
        drawer.inputs[name] = text
        drawer.values[0][name] = eval(text, {"torch": torch, "randn": torch.randn, **program.sizes[0]})  # noqa: S307
    for statement in program.body:
        drawer.run(statement)
    return {k: tuple(v.shape) for k, v in drawer.values[0].items() if isinstance(v, torch.Tensor)}


def _options(program: Program) -> Iterator[Program]:
    for key, plain in OPTIONS.items():
        if program.options[key] != plain and key != "backend":
            yield program.copy(options={**program.options, key: plain})
    for key in program.options["backend"]:
        yield program.copy(options={**program.options, "backend": {k: v for k, v in program.options["backend"].items() if k != key}})


def _parts(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield program.copy(outputs=[output])
    for end in range(1, len(program.body)):
        yield program.copy(body=program.body[:end], outputs=[program.body[end - 1].result])
    shapes = _shapes(program)
    for at in reversed(range(len(program.body))):
        for argument in dict.fromkeys(program.body[at].arguments):
            yield _replaced(program, at, argument)
        if not program.options["dynamic"] and program.body[at].result in shapes:
            name = f"x{len(program.inputs)}{at}"
            text = f"randn({', '.join(map(str, shapes[program.body[at].result]))})"
            yield _replaced(program.copy(inputs={**program.inputs, name: text}), at, name)


def _data(program: Program) -> Iterator[Program]:
    if len(program.sizes) > 1:
        for size in program.sizes:
            yield program.copy(sizes=[size])
    shapes = _shapes(program)
    for name, text in program.inputs.items():
        plain = f"randn({', '.join(map(str, shapes[name]))})"
        if text != plain and not program.options["dynamic"]:
            yield program.copy(inputs={**program.inputs, name: plain})
    for key in program.sizes[0]:
        for small in (1, 2, 4):
            if all(size[key] > small for size in program.sizes):
                yield program.copy(sizes=[{**size, key: small} for size in program.sizes])
                break


def shrunk(program: Program, fails: Callable[[Program], bool], seconds: float = 120) -> Program:
    """fails: whether a program is valid and fails as the first one does."""
    end, changed = time.monotonic() + seconds, True
    while changed:
        changed = False
        for smaller in (_parts, _options, _data):
            again = True
            while again:
                again = False
                for candidate in smaller(program):
                    if time.monotonic() > end:
                        return program
                    candidate = candidate.alive()
                    if candidate.body and candidate.script() != program.script() and fails(candidate):
                        program, again, changed = candidate, True, True
                        break
    return program
