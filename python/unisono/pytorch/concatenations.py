"""Concatenations of channels without copies: kernels write into slices of the concatenated tensor.

A call's only image may lie in a slice, if nobody else reads it but the concatenation and what Inductor or eager mode runs: other
kernels of ours take dense images. The tensor is made ahead of the first of its writers, and these write in place; nothing reads it
before the concatenation would have been there.
"""

from __future__ import annotations

import operator
from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from .. import _native, functional
from ..tensors import torch_dtypes
from .layouts import format_of
from .regions import aten, is_tensor

STEP = 8  # channels: slices begin at multiples of 16 bytes, as TMA asks


@torch.library.custom_op("unisono::conv2d_into", mutates_args=("whole", "others"))
def conv2d_into(x: Tensor, w: Tensor, operands: Sequence[Tensor], epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], groups: int, out_dtype: torch.dtype, whole: Tensor, first: int, placed: str,
                others: Sequence[Tensor]) -> None:
    """unisono::conv2d of an image in channels last, whose store `placed` is written into the channels first, first + 1, … of
    `whole`, and all other stores into `others`, in their order."""
    rest = iter(others)
    out = {s.name: whole.narrow(1, first, w.shape[0]) if s.name == placed else next(rest) for s in _native.parse(epilogue).stores}
    functional.conv2d_now(x, w, epilogue, tuple(stride), tuple(padding), tuple(dilation), groups, "nchw", torch_dtypes()[out_dtype],
                          out, {}, dict(zip(filter(None, names.split(",")), operands)))


@conv2d_into.register_fake
def _(x, w, operands, epilogue, names, stride, padding, dilation, groups, out_dtype, whole, first, placed, others):
    return None


def _call_of(node: Node, ours: Any) -> Optional[Node]:
    """The call of a convolution whose result this is."""
    if node.target is operator.getitem and node.args[0].target is ours:
        return node.args[0]
    return None


def _placed_store(node: Node, call: Node, cat: Node, closed: set) -> Optional[str]:
    """The name of the store that may go into a slice, or None."""
    stores = _native.parse(call.args[4]).stores
    whole = [s for s in stores if s.axes == "mn" and not s.form]
    mine = stores[node.args[1]]
    if len(whole) != 1 or whole[0].name != mine.name or any(s.form == "upsample_2x2" for s in stores):
        return None
    if any(u is not cat and (u.op == "output" or u.target in closed or getattr(u.target, "is_view", False)) for u in node.users):
        return None
    value = node.meta["val"]
    is_short = value.dtype in (torch.float16, torch.bfloat16) or value.device.type == "cpu"  # kernels write f32 into dense tensors alone
    return mine.name if value.shape[1] % STEP == 0 and is_short else None


def _is_candidate(cat: Node, ours: Any) -> bool:
    value, parts = cat.meta["val"], cat.args[0]
    dim = cat.args[1] if len(cat.args) > 1 else 0
    return is_tensor(cat) and value.dim() == 4 and dim in (1, -3) and format_of(value) is torch.channels_last and len(set(parts)) == len(parts) \
        and all(isinstance(e, int) for p in (cat, *parts) for e in p.meta["val"].shape) \
        and all(p.meta["val"].dtype == value.dtype and _call_of(p, ours) is not None for p in parts)


def place(module: GraphModule, ours: Any, closed: set) -> list[str]:
    """Lets kernels write into concatenations; returns what became of each. ours: the operator of convolutions. closed: operators
    that take dense images alone. Concatenations of which some part is no such result are left alone: Inductor joins what it
    computes itself with the passes behind it."""
    found = []
    for cat in list(module.graph.find_nodes(op="call_function", target=aten.cat.default)):
        if not _is_candidate(cat, ours):
            continue
        starts, first = {}, 0
        for part in cat.args[0]:
            starts[part], first = first, first + part.meta["val"].shape[1]
        stores = {p: _placed_store(p, _call_of(p, ours), cat, closed) if starts[p] % STEP == 0 and first % STEP == 0 else None for p in starts}
        if all(stores.values()):
            _write(module.graph, cat, starts, stores, ours)
            found.append(f"{cat.name} of {len(stores)} parts")
    if found:
        module.graph.lint()
        module.recompile()
    return found


def _empty(graph: Any, value: Tensor) -> Node:
    made = graph.call_function(aten.empty_strided.default, (list(value.shape), list(value.stride())), {"dtype": value.dtype, "device": value.device})
    made.meta["val"] = value
    return made


def _write(graph: Any, cat: Node, starts: dict[Node, int], stores: dict[Node, str], ours: Any) -> None:
    order = {n: i for i, n in enumerate(graph.nodes)}
    with graph.inserting_before(min((_call_of(p, ours) for p in stores), key=order.__getitem__)):
        whole = _empty(graph, cat.meta["val"])
    for part, first in starts.items():
        _replace(graph, part, _call_of(part, ours), whole, first, stores[part])
    cat.replace_all_uses_with(whole)
    graph.erase_node(cat)


def _replace(graph: Any, part: Node, call: Node, whole: Node, first: int, store: str) -> None:
    """The call in its form that writes in place. Its arguments: x, w, operands, scalars, epilogue, names, stride, …, dtype."""
    x, w, operands, _, *rest = call.args
    piece_of = aten.slice.Tensor, (1, first, first + part.meta["val"].shape[1])
    with graph.inserting_before(call):
        others = [_empty(graph, v) for i, v in enumerate(call.meta["val"]) if i != part.args[1]]
        graph.call_function(torch.ops.unisono.conv2d_into.default, (x, w, operands, *rest, whole, first, store, others)).meta["val"] = None
        piece = graph.call_function(piece_of[0], (whole, *piece_of[1]))
    piece.meta["val"] = piece_of[0](whole.meta["val"], *piece_of[1])
    for user in list(call.users):
        index = user.args[1]
        user.replace_all_uses_with(piece if user is part else others[index - (index > part.args[1])])
        graph.erase_node(user)
    graph.erase_node(call)
