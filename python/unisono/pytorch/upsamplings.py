"""Convolutions of single pixels after an upsampling that repeats pixels: they are computed of the small image, and
their result is upsampled. That is the same bit for bit, with a quarter of the arithmetic; the convolution's kernel
stores it at twice the size. Networks of the C++ library are rewritten so, too (src/network/legalise.cpp).
"""

from __future__ import annotations

from typing import Iterable, Optional

import torch
from torch.fx import GraphModule, Node

from . import forms
from .layouts import format_of
from .regions import CASTS, Refused, aten, is_tensor, prims, shape_of
from .writer import Writer, mode_of


def convolve_first(module: GraphModule, nodes: Iterable[Node]) -> int:
    """Rewrites the convolutions among these nodes, in place; returns how many. Nothing may write into a tensor between
    these nodes: what an upsampling reads is read later."""
    count, mode = 0, None
    for node in nodes:
        if node.op != "call_function" or node.target is not aten.convolution.default:
            continue
        if (upsampling := _upsampling_ahead(node)) is None:
            continue
        mode = mode or mode_of(module)
        with module.graph.inserting_before(node):
            _rewrite(Writer(module.graph, mode), node, upsampling)
        count += 1
    if count:
        module.graph.eliminate_dead_code()
        module.recompile()
    return count


def _upsampling_ahead(node: Node) -> Optional[Node]:
    """The upsampling whose image the convolution alone reads, through copies and casts to its dtype. What reads the
    convolution may be no operation that would be part of its kernel, since an upsampled store ends a region."""
    image, filters, _, stride, padding, _, transposed, _, _ = node.args
    if transposed or len(stride) != 2 or tuple(shape_of(filters)[2:]) != (1, 1):
        return None
    if tuple(stride) != (1, 1) or tuple(padding) != (0, 0):
        return None
    if any(user.op != "output" and not _reads_an_image(user, node) for user in node.users):
        return None
    dtype = image.meta["val"].dtype
    while len(image.users) == 1 and (
        image.target is aten.clone.default or image.target in CASTS and image.meta["val"].dtype == dtype
    ):
        image = image.args[0]
    if len(image.users) != 1 or image.target not in (*forms.UPSAMPLES, *forms.INDEXED):
        return None
    if image.meta["val"].dtype not in (dtype, torch.float32):
        return None
    try:
        static = all(isinstance(e, int) for e in (*shape_of(image), *shape_of(image.args[0])))
        return image if static and forms.is_doubled(image) else None
    except Refused:
        return None


def _reads_an_image(user: Node, node: Node) -> bool:
    return user.target is aten.cat.default or user.target is aten.convolution.default and node not in user.args[1:]


def _rewrite(writer: Writer, node: Node, upsampling: Node) -> None:
    large = node.args[0]
    image = _in_order(writer, _as_read(writer, node, upsampling), format_of(large.meta["val"]))
    small = writer.call(node.target, (image, *node.args[1:]), dict(node.kwargs))
    result = writer.call(upsampling.target, (small, *upsampling.args[1:]), dict(upsampling.kwargs))
    result = _in_order(writer, result, format_of(node.meta["val"]))
    node.replace_all_uses_with(result)
    writer.graph.erase_node(node)


def _as_read(writer: Writer, node: Node, upsampling: Node) -> Node:
    """What is upsampled, in the convolution's dtype: a cast after the upsampling comes before it."""
    small, dtype, cast = upsampling.args[0], node.args[0].meta["val"].dtype, node.args[0]
    if small.target in CASTS and small.meta["val"].dtype == torch.float32 and is_tensor(small.args[0]) \
            and small.args[0].meta["val"].dtype == dtype:
        return small.args[0]  # was widened for the upsampling
    if small.meta["val"].dtype == dtype:
        return small
    while cast.target not in CASTS:
        cast = cast.args[0]
    made = writer.call(prims.convert_element_type.default, (small, dtype))
    made.meta.update({name: value for name, value in cast.meta.items() if name not in ("val", "tensor_meta")})
    return made


def _in_order(writer: Writer, node: Node, order: Optional[torch.memory_format]) -> Node:
    if order is None or node.meta["val"].is_contiguous(memory_format=order):
        return node
    return writer.call(aten.clone.default, (node,), {"memory_format": order})
