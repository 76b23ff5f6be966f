"""The three forms of an epilogue, text, Python function and graph, and how each becomes a `Graph`."""

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

    Statements may come before the expression: "h = acc + bias[n]; silu(h)". Raises UserError with a caret.
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
    first = without.index(last, start)
    try:
        return _native.parse(f"{without[:first]}{_BEFORE}{last} as y : {dtype.name}\n")
    except UserError as error:
        raise UserError(_as_written(str(error), without[:first], last)) from None


_BEFORE = "store "  # what makes an expression a statement


def _as_written(message: str, before: str, last: str) -> str:
    """An error's text about statements and an expression that was made a statement, in lines and columns of what was
    written."""
    made, written = f"{before}{_BEFORE}{last}", before + last
    end = False

    def place(line: str, column: str) -> tuple[int, int]:
        nonlocal end
        at = sum(len(one) + 1 for one in made.split("\n")[:int(line) - 1]) + int(column) - 1
        end = end or at >= len(made)
        at = min(at if at < len(before) else max(at - len(_BEFORE), len(before)), len(written))
        return written.count("\n", 0, at) + 1, at - written.rfind("\n", 0, at)

    head, *shown = message.split("\n")
    found = re.match(r"line (\d+), column (\d+): ", head)
    if found is None:
        return message
    line, column = place(found[1], found[2])
    rest = head[found.end():]
    if end:
        rest = re.sub(r"found .*$", "found the end of the text", rest)
        rest = re.sub(r"^'as' is a reserved word, .*$", "expected a value, found the end of the text", rest)
    rest = re.sub(r"line (\d+), column (\d+)", lambda m: "line {}, column {}".format(*place(m[1], m[2])), rest)
    text = written.split("\n")[line - 1]
    caret = "^" * max(1, min(shown[-1].count("^"), len(text) - column + 1)) if shown else "^"
    margin = f"  {line} | "
    below = f"{' ' * (len(margin) - 2)}| {' ' * (column - 1)}{caret}"
    return f"line {line}, column {column}: {rest}\n{margin}{text}\n{below}"


# What `epilogue` has made, for PyTorch's operators, which take a reference in place of a function
REGISTERED: list[Epilogue] = []
AXES = ("", "b", "m", "n", "bn", "mn")


# PyTorch's functions that have the names, arguments and meanings of operations of an epilogue
_LIKE_TORCH = frozenset(
    "abs cos erf exp hardsigmoid hardswish log log1p logsigmoid mish reciprocal relu relu6 rsqrt sigmoid silu sin "
    "softplus sqrt square tanh".split()
)


def _called_by_torch(function: Any, types: Any, args: tuple[Any, ...] = (),
                     kwargs: dict[str, Any] | None = None) -> Any:
    """What a function of PyTorch is of an epilogue's values."""
    name = getattr(function, "__name__", str(function))
    more = {k: v for k, v in (kwargs or {}).items() if (k, v) != ("inplace", False)}
    if name == "gelu" and len(args) == 1:
        form = more.pop("approximate", "none")
        if not more and form in ("none", "tanh"):
            return _native.gelu(args[0]) if form == "none" else _native.gelu_tanh(args[0])
    if name in _LIKE_TORCH and len(args) == 1 and not more:
        return getattr(_native, name)(args[0])
    named = "".join(f", {k}={v!r}" for k, v in more.items())
    raise UserError(
        f"{name}({', '.join(type(a).__name__ for a in args)}{named}) is a function of PyTorch's for tensors, and an "
        "epilogue's values have no elements yet; expected an operation of unisono.ops, such as unisono.silu(acc), or "
        f"one of PyTorch's by the same name: {', '.join(sorted({*_LIKE_TORCH, 'gelu'}))}"
    )


setattr(Value, "__torch_function__", classmethod(lambda cls, *call: _called_by_torch(*call)))


class Epilogue:
    """A Python function of the accumulator and the operands. `unisono.epilogue` makes it.

    The function is traced once for each combination of axes. It takes `unisono.Value`s and returns the value of the
    store `y`, or {name: value} for several stores. Each parameter is the operand of that name; an annotation states its
    axes ("n", "bn", "mn", "m", "b", or "" for a scalar), else they follow from the shape of the argument. A parameter
    whose default is a number is an optional scalar.
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
    """Makes an epilogue of a Python function, as a decorator.

    The first parameter is the accumulator; each of the others is the operand of its name:

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
