"""What calls of the operators carry as text: the epilogue, and the names of its operands with options of the kernel."""

from __future__ import annotations

import functools
import hashlib
import pathlib
from typing import Any, Iterable, Sequence

from torch import Tensor

from .. import _native, epilogues, functional
from .._native import DType, Graph, UserError
from ..epilogues import graph_of_text
from ..operands import Space, axes_of_shape


def registered(epilogue: str) -> Any:
    """The epilogue that a text of the operators stands for: the text, or a function of this process."""
    if not epilogue.startswith("@"):
        return epilogue
    number = epilogue[1:].partition(":")[0]
    known = epilogues.REGISTERED
    if not number.isdigit() or int(number) >= len(known) or known[int(number)].reference != epilogue:
        raise UserError(
            f"the epilogue {epilogue!r} is not known in this process; expected a text, or a function made by "
            "@unisono.epilogue"
        )
    return known[int(number)]


def one_line(text: str) -> str:
    """An epilogue's text without comments, its lines parted by semicolons: Inductor writes calls into comments of one
    line."""
    found, depth, inside = [], 0, True
    for c in text:
        inside = c != "#" and (inside or c == "\n")
        depth += (c in "([") - (c in ")]") if inside else 0
        if inside:
            found.append(c if c not in "\r\n" else " " if depth > 0 or c == "\r" else "; ")
    return "".join(found).strip("; ")


def _version() -> str:
    """The package's version and a hash of its modules, which say how results of the operators lie."""
    content = hashlib.sha256()
    for path in sorted(p for p in pathlib.Path(__file__).parents[1].rglob("*.py") if p.is_file()):
        content.update(path.read_bytes())
    return f"{getattr(_native, '__version__')}+{content.hexdigest()[:12]}"


# an option of calls of convolutions: whether images lie channels last in the graph. Its results must, though a tensor
# may have other strides than the graph says, or some that fit both orders
LAST = "last"

# Stands in every call of a graph. PyTorch keeps compiled graphs on disk by their text: another version's are not taken
# for ours
VERSION = f"|version={_version()}"


def joined(names: Iterable[str], options: dict[str, int]) -> str:
    """Names of operands as the operators of a graph take them, with options of the kernel and VERSION after a '|'."""
    return ",".join(names) + "".join(f"|{name}={value}" for name, value in options.items()) + VERSION


def options_of(names: str) -> dict[str, int]:
    """Those options."""
    given = (one.partition("=") for one in names.split("|")[1:])
    return {name: int(value) for name, _, value in given if name not in ("version", LAST)}


def split(names: str, scalars: Sequence[float], operands: Sequence[Any]) -> dict[str, Any]:
    """{name: tensor or number}; a number's name ends in '='."""
    tensors, numbers, result = iter(operands), iter(scalars), {}
    for name in filter(None, names.partition("|")[0].split(",")):
        if name.endswith("="):
            result[name[:-1]] = next(numbers)
        else:
            result[name] = next(tensors)
    return result


def graph_of(text: str, operands: dict[str, Any], dtype: DType, space: Space) -> Graph:
    """The graph of an epilogue for these operands, stored as `dtype` unless it says another."""
    epilogue = registered(text)
    if isinstance(epilogue, str):
        return graph_of_text(epilogue, dtype)
    axes = {}
    for p in epilogue.parameters:
        annotated, given = epilogue.axes(p.name), operands.get(p.name)
        if annotated is None:
            annotated = axes_of_shape(p.name, tuple(given.shape), space) if isinstance(given, Tensor) else ""
        axes[p.name] = annotated
    return epilogue.trace(axes, dtype)


def layout_of(names: str) -> str:
    """How functional takes the images of a call that has these names."""
    given = dict(one.split("=") for one in names.split("|")[1:]).get(LAST)
    return "nchw" if given is None else functional.CHANNELS_LAST if given == "1" else functional.CONTIGUOUS


def is_last(x: Tensor, w: Tensor, names: str) -> bool:
    """Whether a convolution's images are channels last, as functional decides."""
    if (layout := layout_of(names)) != "nchw":
        return layout == functional.CHANNELS_LAST
    _, c, h, wide = x.shape
    flat = c == 1 or h * wide == 1
    one, (_, c, h, wide) = (w, w.shape) if flat else (x, x.shape)
    return c > 1 and h * wide > 1 and one.stride(1) == 1 and one.stride(3) >= c


@functools.lru_cache(1024)
def store_names(text: str) -> list[str]:
    """Names of the results of an epilogue that has several."""
    epilogue = registered(text)
    if not isinstance(epilogue, str):
        raise UserError(
            "under torch.compile and with gradients, a function has one result; write several as a text or graph"
        )
    return [s.name for s in graph_of_text(epilogue, DType.f32).stores]
