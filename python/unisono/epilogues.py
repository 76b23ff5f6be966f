"""Epilogues as people write them: text, a Python function, or a graph; all become a `Graph`."""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import uuid
from typing import Any, Callable

from . import _native
from ._native import DType, Graph, GraphBuilder, UserError, Value

_STORE = re.compile(r"(^|[\n;])\s*store\b")
_COMMENT = re.compile(r"#[^\n]*")


def _last_statement(text: str) -> int:
    """Where the last statement of a text without comments begins."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter in "\n;" and depth <= 0 and text[place + 1:].strip(" \t\n;"):
            start = place + 1
    return start


def graph_of_text(text: str, dtype: DType) -> Graph:
    """The graph of statements with stores, or of an expression, which is stored as `y` rounded to `dtype`.

    Statements may stand ahead of the expression: "h = acc + bias[n]; silu(h)". Raises UserError with a caret.
    """
    without = _COMMENT.sub("", text)
    if not without.strip():
        raise UserError(
            "the epilogue is an empty text; expected an expression such as 'silu(acc + bias[n])', or statements"
        )
    if _STORE.search(without):
        return _native.parse(text)
    start = _last_statement(without)
    last = without[start:].strip(" \t\n;")
    return _native.parse(f"{without[:start]}store {last} as y : {dtype.name}\n")


# What `epilogue` has made, for PyTorch's operators, which take a reference in place of a function
REGISTERED: list[Epilogue] = []
AXES = ("", "b", "m", "n", "bn", "mn")


class Epilogue:
    """A Python function of the accumulator and operands, as an epilogue. Made by `unisono.epilogue`.

    The function is traced once for each combination of axes: it gets `unisono.Value`s, and returns the value that is
    stored as `y`, or a dictionary {name: value}. A parameter is the operand of its name. Its axes are those of its
    annotation ("n", "bn", "mn", "m", "b", or "" for a scalar), or follow from the shape of what is given. A parameter
    with a number for its default is a scalar that may be left out.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.number, self.reference = -1, ""  # in REGISTERED, and as operators name it
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "epilogue")
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise UserError(f"epilogue {self.__name__}() has no parameter; the first is the accumulator")
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            raise UserError(f"epilogue {self.__name__}() has * or ** parameters; an operand has a name")
        if parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise UserError(
                f"epilogue {self.__name__}() has keyword parameters only; the first, by position, is the accumulator"
            )
        bound = function.keywords if isinstance(function, functools.partial) else {}
        self.parameters = [p for p in parameters[1:] if p.name not in bound or isinstance(bound[p.name], numbers.Real)]
        for p in self.parameters:
            if p.default is not p.empty and not isinstance(p.default, numbers.Real):
                raise UserError(
                    f"epilogue {self.__name__}() has the default {p.default!r} for '{p.name}'; expected a number, "
                    "or none: an operand that may be left out is a scalar"
                )

    def axes(self, name: str) -> str | None:
        """The axes that the annotation of an operand gives, or None."""
        annotation: Any = next(p.annotation for p in self.parameters if p.name == name)
        if not isinstance(annotation, str):
            return None
        # `from __future__ import annotations` gives the source: 'float', and a text in its quotes
        quoted = annotation[:1] in ("'", '"')
        return annotation.strip("\"'") if quoted or annotation in AXES else None

    def trace(self, axes: dict[str, str], dtype: DType) -> Graph:
        """The graph for operands of these axes. Values are stored as they are cast, or else rounded to `dtype`."""
        builder = GraphBuilder()
        values, named = [], {}
        for p in self.parameters:
            default = None if p.default is p.empty else float(p.default)
            value = builder.operand(p.name, axes[p.name], default=default)
            if p.kind is p.POSITIONAL_ONLY:
                values.append(value)
            else:
                named[p.name] = value
        result = self.function(builder.acc(), *values, **named)
        stores = result if isinstance(result, dict) else {"y": result}
        for name, value in stores.items():
            if not isinstance(value, Value):
                raise UserError(f"epilogue {self.__name__}() returned a {type(value).__name__} as '{name}'; "
                                "expected a unisono.Value, or a dictionary of names and values")
            builder.store(value, value.dtype if value.dtype not in (DType.f32,) else dtype, name)
        return builder.build()

    def __call__(self, *values: Any, **named: Any) -> Any:
        """The function itself, so that epilogues can call one another."""
        return self.function(*values, **named)


def epilogue(function: Callable[..., Any]) -> Epilogue:
    """Makes a Python function an epilogue:

        @unisono.epilogue
        def bias_silu(acc, bias):
            return unisono.silu(acc + bias)

        y = unisono.conv2d(x, w, bias_silu, bias=b, padding=1)
    """
    made = Epilogue(function)
    made.number = len(REGISTERED)
    # PyTorch keeps compiled graphs on disk: another process must never take its function for this one
    made.reference = f"@{made.number}:{uuid.uuid4().hex}"
    REGISTERED.append(made)
    return made
