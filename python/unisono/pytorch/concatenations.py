"""Concatenations of channels without copies: kernels write into slices of the concatenated tensor.

A call's only image may lie in a slice, if nobody else reads it but the concatenation, convolutions whose kernels read
their image by pixels that lie apart, and what Inductor or eager mode runs. The tensor is made before the first of its
writers, and these write in place; nothing reads it before the concatenation would have been there.
"""

from __future__ import annotations

import operator
from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from .. import direct, functional
from .._native import UserError, parse
from .anchors import BACKWARD_CONTRACTIONS, CONTRACTIONS
from .layouts import format_of
from .library import FUSED, define, given_outputs, out_dtype_of, slice_of
from .regions import REPLACES, TAKES_SLICES, aten, is_tensor
from .texts import layout_of, options_of, split
from .writer import fix_order

STEP = 8  # channels: slices begin at multiples of 16 bytes, as TMA asks


_MOVES = "int[] stride, int[] padding, int[] dilation"
_INTO = "int groups, ScalarType? out_dtype, Tensor(a!) whole, int first, int placed, Tensor(b!)[] others) -> ()"
_CALL = "(Tensor x, Tensor w, Tensor[] operands, float[] scalars, str epilogue, str names"


def _outputs(epilogue: str, whole: Tensor, first: int, width: int, placed: int, others: Sequence[Tensor]) -> Any:
    """The store number `placed` goes into the channels first, first + 1, … of `whole`, all others into `others`, in
    their order."""
    if not 0 <= placed <= len(others):
        raise UserError(f"store {placed} cannot go to a slice of `whole`; expected 0 to {len(others)}")
    return given_outputs(epilogue, [*others[:placed], slice_of(whole, first, width), *others[placed:]])


def _conv2d_into(x, w, operands, scalars, epilogue, names, stride, padding, dilation, groups, out_dtype, whole, first,
                 placed, others):
    """The kernel in Python."""
    out = _outputs(epilogue, whole, first, w.shape[0], placed, others)
    functional.conv2d_now(x, w, epilogue, tuple(stride), tuple(padding), tuple(dilation), groups, layout_of(names),
                          out_dtype_of(x, out_dtype), out,
                          options_of(names), split(names, scalars, operands))


def _conv_transpose2d_into(x, w, operands, scalars, epilogue, names, stride, padding, dilation, output_padding, groups,
                           out_dtype, whole, first,
                           placed, others):
    out = _outputs(epilogue, whole, first, w.shape[1] * groups, placed, others)
    direct.conv_transpose2d_now(x, w, epilogue, tuple(stride), tuple(padding), tuple(dilation), tuple(output_padding),
                                groups,
                                out_dtype_of(x, out_dtype), out, options_of(names), split(names, scalars, operands),
                                layout_of(names))


def _copy_into(x, whole, first):
    """Copies an image into the channels first, first + 1, … of `whole`."""
    piece = whole.narrow(1, first, x.shape[1])
    by_words = _is_words(piece) and _is_words(x) and x.dtype == piece.dtype
    if by_words:  # a thread of PyTorch's copy moves an element of any size
        piece, x = (t.permute(0, 2, 3, 1).view(torch.complex128) for t in (piece, x))
    piece.copy_(x)


def _is_words(image: Tensor) -> bool:
    """Whether an image (N,C,H,W) in channels last has pixels of whole words of 16 bytes, which begin at such."""
    size, (batch, channel, *steps) = image.element_size(), image.stride()
    return channel == 1 and image.data_ptr() % 16 == 0 and image.storage_offset() * size % 16 == 0 \
        and all(one * size % 16 == 0 for one in (image.shape[1], batch, *steps))


def _nothing(*_):
    return None


_OPS = torch.ops.unisono
COPY_INTO = define("copy_into", "(Tensor x, Tensor(a!) whole, int first) -> ()", _copy_into, _nothing)
INTO = {  # of each operator of a convolution, that which writes one of its stores into a concatenation
    _OPS.fused_conv2d.default: define("conv2d_into", f"{_CALL}, {_MOVES}, {_INTO}", _conv2d_into, _nothing),
    _OPS.fused_conv_transpose2d.default: define("conv_transpose2d_into",
                                                f"{_CALL}, {_MOVES}, int[] output_padding, {_INTO}",
                                                _conv_transpose2d_into,
                                                _nothing)}
CLOSED = {*FUSED, *INTO.values(), *CONTRACTIONS, *BACKWARD_CONTRACTIONS}  # what takes dense tensors, but for images
IMAGES = {*INTO, *INTO.values()}  # what may take an image, its first argument, as it lies


def _call_of(node: Node) -> Optional[Node]:
    """The call of a convolution whose result this is."""
    return node.args[0] if node.target is operator.getitem and node.args[0].target in INTO else None


def _takes_slices(reader: Node, part: Node) -> bool:
    """Whether a part may lie in a slice for it: PyTorch's own operators read any strides, our convolutions their image
    if the kernel does; operators of others have seen dense images."""
    if reader.target in IMAGES and reader.meta.get(TAKES_SLICES):
        return reader.args[0] is part and part not in reader.args[1:] and part not in reader.args[2]
    if reader.op != "call_function" or reader.target in CLOSED or getattr(reader.target, "is_view", False):
        return False
    return getattr(reader.target, "namespace", "") in ("aten", "prims") and "as_strided" not in str(reader.target)


def _placed_store(node: Node, call: Node, cat: Node) -> Optional[int]:
    """The number of the store that may go into a slice, or None."""
    stores = parse(call.args[4]).stores
    mine = stores[node.args[1]]
    images = [s for s in stores if s.axes == "mn" and (not s.form or s.form == "upsample_2x2")]
    if len(images) != 1 or images[0].name != mine.name:  # an upsampled one next to it may not lie so
        return None
    if not all(u is cat or _takes_slices(u, node) for u in node.users):
        return None
    value = node.meta["val"]
    # kernels write f32 into dense tensors alone
    is_short = value.dtype in (torch.float16, torch.bfloat16) or value.device.type == "cpu"
    return node.args[1] if value.shape[1] % STEP == 0 and is_short else None


def _is_candidate(cat: Node) -> bool:
    value, parts = cat.meta["val"], cat.args[0]
    dim = cat.args[1] if len(cat.args) > 1 else 0
    return (
        is_tensor(cat)
        and value.dim() == 4
        and dim in (1, -3)
        and format_of(value) is torch.channels_last
        and len(set(parts)) == len(parts)
        and all(isinstance(e, int) for p in (cat, *parts) for e in p.meta["val"].shape)
        and all(p.meta["val"].dtype == value.dtype and _call_of(p) is not None for p in parts)
    )


def place(module: GraphModule) -> list[str]:
    """Lets kernels write into concatenations; returns what became of each. Where an operator that takes dense images
    alone reads a part, too, that part is copied into the concatenation, if a separate pass would make it: if
    Inductor reads it, it joins that pass with others."""
    found = []
    for cat in list(module.graph.find_nodes(op="call_function", target=aten.cat.default)):
        if not _is_candidate(cat):
            continue
        starts, first = {}, 0
        for part in cat.args[0]:
            starts[part], first = first, first + part.meta["val"].shape[1]
        stores = {p: _placed_store(p, _call_of(p), cat) if starts[p] % STEP == 0 and first % STEP == 0 else None
                  for p in starts}
        placed = sum(s is not None for s in stores.values())
        if placed == len(stores) or placed and all(u.target in CLOSED for u in cat.users):
            _write(module.graph, cat, starts, stores)
            found.append(f"{cat.name}: {placed} of {len(stores)} parts")
    if found:
        module.graph.lint()
        module.recompile()
    return found


def _empty(graph: Any, value: Tensor) -> Node:
    made = graph.call_function(aten.empty_strided.default, (list(value.shape), list(value.stride())),
                               {"dtype": value.dtype, "device": value.device})
    made.meta["val"] = value
    return made


def _call(graph: Any, target: Any, arguments: tuple) -> Node:
    node = graph.call_function(target, arguments)
    node.meta["val"] = None
    fix_order(node)
    return node


def _write(graph: Any, cat: Node, starts: dict[Node, int], stores: dict[Node, Optional[int]]) -> None:
    order = {n: i for i, n in enumerate(graph.nodes)}
    writers = [_call_of(part) for part, store in stores.items() if store is not None]
    with graph.inserting_before(min(writers, key=order.__getitem__)):
        whole = _empty(graph, cat.meta["val"])
    for part, first in starts.items():
        if stores[part] is not None:
            _replace(graph, part, _call_of(part), whole, first, stores[part])
            continue
        with graph.inserting_before(cat):
            _call(graph, COPY_INTO, (part, whole, first))
    cat.replace_all_uses_with(whole)
    graph.erase_node(cat)


def _replace(graph: Any, part: Node, call: Node, whole: Node, first: int, store: int) -> None:
    """The call in its form that writes in place."""
    piece_of = aten.slice.Tensor, (1, first, first + part.meta["val"].shape[1])
    with graph.inserting_before(call):
        others = [_empty(graph, v) for i, v in enumerate(call.meta["val"]) if i != part.args[1]]
        into = _call(graph, INTO[call.target], (*call.args, whole, first, store, others))
        into.meta[TAKES_SLICES], into.meta[REPLACES] = call.meta.get(TAKES_SLICES), call.name
        piece = graph.call_function(piece_of[0], (whole, *piece_of[1]))
    piece.meta["val"] = piece_of[0](whole.meta["val"], *piece_of[1])
    for user in list(call.users):
        index = user.args[1]
        user.replace_all_uses_with(piece if user is part else others[index - (index > part.args[1])])
        graph.erase_node(user)
    graph.erase_node(call)
    for reader in piece.users:
        if reader.target in IMAGES:
            fix_order(reader)
