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

from .. import functional
from ..tensors import torch_dtypes
from . import direct
from .layouts import format_of
from .library import options_of, split
from .regions import aten, is_tensor

STEP = 8  # channels: slices begin at multiples of 16 bytes, as TMA asks


@torch.library.custom_op("unisono::conv2d_into", mutates_args=("whole", "others"))
def conv2d_into(x: Tensor, w: Tensor, operands: Sequence[Tensor], epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], groups: int, out_dtype: torch.dtype, whole: Tensor, first: int, placed: str,
                others: Sequence[Tensor]) -> None:
    """unisono::conv2d of an image in channels last, whose store `placed` is written into the channels first, first + 1, … of
    `whole`, and all other stores into `others`, in their order."""
    rest = iter(others)
    out = {s.name: whole.narrow(1, first, w.shape[0]) if s.name == placed else next(rest) for s in direct.graph_of(epilogue).stores}
    functional.conv2d_now(x, w, epilogue, tuple(stride), tuple(padding), tuple(dilation), groups, "nchw", torch_dtypes()[out_dtype],
                          out, options_of(names), split(names, [], operands))


@conv2d_into.register_fake
def _(x, w, operands, epilogue, names, stride, padding, dilation, groups, out_dtype, whole, first, placed, others):
    return None


@torch.library.custom_op("unisono::copy_into", mutates_args=("whole",))
def copy_into(x: Tensor, whole: Tensor, first: int) -> None:
    """Copies an image into the channels first, first + 1, … of `whole`."""
    whole.narrow(1, first, x.shape[1]).copy_(x)


@copy_into.register_fake
def _(x, whole, first):
    return None


@torch.library.custom_op("unisono::conv_transpose2d_into", mutates_args=("whole", "others"))
def conv_transpose2d_into(x: Tensor, w: Tensor, operands: Sequence[Tensor], epilogue: str, names: str, stride: Sequence[int],
                          padding: Sequence[int], dilation: Sequence[int], output_padding: Sequence[int], groups: int, whole: Tensor,
                          first: int, placed: str, others: Sequence[Tensor]) -> None:
    """unisono::conv_transpose2d in the same way."""
    rest, width = iter(others), w.shape[1] * groups
    out = [whole.narrow(1, first, width) if s.name == placed else next(rest) for s in direct.graph_of(epilogue).stores]
    direct.run_transposed(x, w, operands, epilogue, names, stride, padding, dilation, output_padding, groups, out)


@conv_transpose2d_into.register_fake
def _(x, w, operands, epilogue, names, stride, padding, dilation, output_padding, groups, whole, first, placed, others):
    return None


def _call_of(node: Node, ours: Any) -> Optional[Node]:
    """The call of a convolution whose result this is."""
    if node.target is operator.getitem and node.args[0].target in (ours, torch.ops.unisono.conv_transpose2d.default):
        return node.args[0]
    return None


def _epilogue_of(call: Node) -> str:
    return call.args[3 if call.target is torch.ops.unisono.conv_transpose2d.default else 4]


def _placed_store(node: Node, call: Node, cat: Node, closed: set) -> Optional[str]:
    """The name of the store that may go into a slice, or None."""
    stores = direct.graph_of(_epilogue_of(call)).stores
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
    that take dense images alone. Where such an operator reads a part, too, that part is copied into the concatenation, if it would be
    made by a pass of its own: if Inductor reads it, it joins that pass with others."""
    found = []
    for cat in list(module.graph.find_nodes(op="call_function", target=aten.cat.default)):
        if not _is_candidate(cat, ours):
            continue
        starts, first = {}, 0
        for part in cat.args[0]:
            starts[part], first = first, first + part.meta["val"].shape[1]
        stores = {p: _placed_store(p, _call_of(p, ours), cat, closed) if starts[p] % STEP == 0 and first % STEP == 0 else None for p in starts}
        placed = sum(s is not None for s in stores.values())
        if placed == len(stores) or placed and all(u.target in closed for u in cat.users):
            _write(module.graph, cat, starts, stores, ours)
            found.append(f"{cat.name}: {placed} of {len(stores)} parts")
    if found:
        module.graph.lint()
        module.recompile()
    return found


def _empty(graph: Any, value: Tensor) -> Node:
    made = graph.call_function(aten.empty_strided.default, (list(value.shape), list(value.stride())), {"dtype": value.dtype, "device": value.device})
    made.meta["val"] = value
    return made


def _call(graph: Any, target: Any, arguments: tuple) -> None:
    node = graph.call_function(target, arguments)
    node.meta["val"] = None
    node.meta["eager_input_vals"] = torch.fx.map_arg((arguments, {}), lambda n: n.meta["val"])  # fixes the order of memory of what it reads


def _write(graph: Any, cat: Node, starts: dict[Node, int], stores: dict[Node, Optional[str]], ours: Any) -> None:
    order = {n: i for i, n in enumerate(graph.nodes)}
    with graph.inserting_before(min((_call_of(p, ours) for p, store in stores.items() if store), key=order.__getitem__)):
        whole = _empty(graph, cat.meta["val"])
    for part, first in starts.items():
        if stores[part] is not None:
            _replace(graph, part, _call_of(part, ours), whole, first, stores[part])
            continue
        with graph.inserting_before(cat):
            _call(graph, torch.ops.unisono.copy_into.default, (part, whole, first))
    cat.replace_all_uses_with(whole)
    graph.erase_node(cat)


def _replace(graph: Any, part: Node, call: Node, whole: Node, first: int, store: str) -> None:
    """The call in its form that writes in place. Arguments: x, w, operands, of the functional operator scalars, epilogue, names, …"""
    is_transposed = call.target is torch.ops.unisono.conv_transpose2d.default
    into = torch.ops.unisono.conv_transpose2d_into.default if is_transposed else torch.ops.unisono.conv2d_into.default
    arguments = call.args if is_transposed else (*call.args[:3], *call.args[4:])
    piece_of = aten.slice.Tensor, (1, first, first + part.meta["val"].shape[1])
    with graph.inserting_before(call):
        others = [_empty(graph, v) for i, v in enumerate(call.meta["val"]) if i != part.args[1]]
        _call(graph, into, (*arguments, whole, first, store, others))
        piece = graph.call_function(piece_of[0], (whole, *piece_of[1]))
    piece.meta["val"] = piece_of[0](whole.meta["val"], *piece_of[1])
    for user in list(call.users):
        index = user.args[1]
        user.replace_all_uses_with(piece if user is part else others[index - (index > part.args[1])])
        graph.erase_node(user)
    graph.erase_node(call)
