"""Pooled and upsampled stores: a 2×2 max-pool of a region's value, or its nearest neighbours at twice the size.

They end a region: only casts and copies of their results are part of it, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from .regions import Refused, Region, aten, prims, shape_of

POOL, UPSAMPLE = "max_pool_2x2", "upsample_2x2"
UPSAMPLES = (aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec)
INDEXED = (aten._unsafe_index.Tensor, aten.index.Tensor)


def pools() -> tuple:
    """Max-pools as PyTorch has them; the second one only where Inductor was loaded."""
    low = getattr(prims, "_low_memory_max_pool_with_offsets", None)
    return (aten.max_pool2d_with_indices.default, *([low.default] if low is not None else []))


def _source(region: Region, node: Node) -> Node:
    x = node.args[0]
    if (
        region.kind != "conv2d"
        or region.dims.get(x) != region.whole
        or not all(isinstance(e, int) for e in shape_of(node.args[0]))
    ):
        raise Refused(f"{node.name} resamples something else than the values of a convolution")
    if region.forms:
        raise Refused(f"{node.name} would be a second pooled or upsampled store")
    return x


def pooled(region: Region, node: Node) -> tuple:
    """The tuple of a max-pool: its first part is the store."""
    x = _source(region, node)
    kernel, stride, padding, dilation, ceil = (*node.args[1:], *([], 0, 1, False)[len(node.args) - 2:])
    pairs = [
        tuple(v) if isinstance(v, (list, tuple)) and len(v) == 2 else (v, v) if isinstance(v, int) else tuple(v) * 2
        for v in (kernel, stride, padding, dilation)
    ]
    if (
        pairs[0] != (2, 2)
        or pairs[1] not in ((2, 2), ())
        or pairs[2] != (0, 0)
        or pairs[3] != (1, 1)
        or ceil
        and any(e % 2 for e in shape_of(x)[2:])
    ):
        raise Refused(f"{node.name} is a max-pool of other windows than 2×2, side by side")
    if any(e < 2 for e in shape_of(x)[2:]):
        raise Refused(f"{node.name} pools an image of one line")
    if any(user.args[1] != 0 for user in node.users):
        raise Refused(f"the indices of {node.name} are read")
    return "", region.whole


def upsampled(region: Region, node: Node) -> tuple:
    x = _source(region, node)
    if "max_pool" in str(x.target) or not is_doubled(node):
        raise Refused(f"{node.name} resamples to something else than each pixel 2×2 times")
    return region.names[x], region.whole


def is_doubled(node: Node) -> bool:
    height, width = shape_of(node.args[0])[2:]
    if shape_of(node)[2:] != (2 * height, 2 * width):
        return False
    if node.target in UPSAMPLES:
        return True  # of exactly twice the size each scale that PyTorch takes leads to the same neighbours, or is 2
    indices = node.args[1]
    if len(indices) != 4 or indices[0] is not None or indices[1] is not None or None in indices[2:]:
        return False
    rows, cols = (_constant(i) for i in indices[2:])
    return rows == ((2 * height, 1), [i // 2 for i in range(2 * height)]) \
        and cols in [(shape, [i // 2 for i in range(2 * width)]) for shape in ((2 * width,), (1, 2 * width))]


def _constant(node: Any) -> tuple[tuple, list]:
    """Shape and elements of a node that depends on no input of the graph. Raises Refused."""
    with unset_fake_temporarily(), torch.no_grad():
        found = _computed(node, {})
        return tuple(found.shape), found.flatten().tolist()


def _computed(value: Any, known: dict[Node, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_computed(v, known) for v in value)
    if not isinstance(value, Node):
        return torch.device("cpu") if isinstance(value, torch.device) else value
    if value not in known:
        if value.op == "get_attr":
            known[value] = getattr(value.graph.owning_module, value.target).cpu()
        elif value.op == "call_function" and len(known) < 64:
            known[value] = value.target(*_computed(list(value.args), known),
                                        **{k: _computed(v, known) for k, v in value.kwargs.items()})
        else:
            raise Refused(f"{value.name}, which indexes pixels, is not a constant")
    return known[value]


def continued(region: Region, node: Node, casts: tuple) -> tuple:
    """What reads a pooled or upsampled value and is still its store: the part of a tuple, a cast or a copy. Raises
    Refused."""
    source = node.args[0]
    if getattr(node.target, "__name__", "") == "getitem":
        return region.names[source.args[0]], region.whole
    if node.target not in (*casts, aten.clone.default) or not node.meta["val"].dtype.is_floating_point:
        raise Refused(f"{node.name} reads a pooled or upsampled value, which ends a region")
    if node.target in casts and _is_cast(source, casts):
        raise Refused(f"{node.name} casts a second time what is stored once")
    return region.names[source], region.whole


def _is_cast(node: Node, casts: tuple) -> bool:
    """Whether a cast leads to the value, perhaps through copies."""
    while node.target is aten.clone.default:
        node = node.args[0]
    return node.target in casts
