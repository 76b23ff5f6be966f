"""ATen operators that move, select or make elements, as ONNX nodes."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Sequence

import torch
from torch.fx import Node

from .._native import Unsupported
from .onnx_file import Writer, dtype_of, kind_of, promoted
from .regions import aten

PARTS = (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)  # results are named by their readers
NAMED = (aten.max.dim, aten.min.dim, aten.convolution_backward.default, aten.native_group_norm.default,
         aten.native_layer_norm.default, aten._native_batch_norm_legit.no_stats,
         aten._native_batch_norm_legit_functional.default, aten.var_mean.correction,
         aten.max_pool2d_with_indices.default)  # all results that are read have a name


def reads(node: Node, index: int) -> bool:
    """Whether a result of several is read."""
    return any(user.target is operator.getitem and user.args[1] == index for user in node.users)


def _getitem(w: Writer, node: Node) -> None:
    source, index = node.args
    if source.target in PARTS:
        return  # named where it is made
    if index != 0 and source.target not in NAMED:
        raise Unsupported(f"export: result {index} of {source.target} is read")
    w.add("Identity", [f"{source.name}_{index}"], node.name)


def _split(w: Writer, node: Node) -> None:
    x, sizes = node.args[:2]
    axis = node.args[2] if len(node.args) > 2 else 0
    values = node.meta["val"]
    lengths = [v.shape[axis] for v in values]
    named = {user.args[1]: user.name for user in node.users}
    outputs = [named.get(i, f"{node.name}_{i}") for i in range(len(values))]
    w.nodes.append(w.onnx.helper.make_node("Split", [w.name(x), w.constant(lengths, torch.int64)], outputs,
                                           name=f"{node.name}_split", axis=axis))


def _reshape(w: Writer, node: Node) -> None:
    w.add("Reshape", [w.name(node.args[0]), w.extents(node, node.meta["val"].shape)], node.name)


def _permute(w: Writer, node: Node) -> None:
    rank = node.args[0].meta["val"].dim()
    order = list(range(rank))
    if node.target is aten.permute.default:
        order = [d % rank for d in node.args[1]]
    elif rank > 1:
        i, j = (0, 1) if node.target is aten.t.default else (d % rank for d in node.args[1:])
        order[i], order[j] = order[j], order[i]
    w.add("Transpose", [w.name(node.args[0])], node.name, perm=order)


def _expand(w: Writer, node: Node) -> None:
    w.add("Expand", [w.name(node.args[0]), w.constant([1 if e == -1 else e for e in node.args[1]], torch.int64)],
          node.name)


def _concat(w: Writer, node: Node) -> None:
    parts = [promoted(w, t, node, dtype_of(node)) for t in node.args[0]]
    w.add("Concat", parts, node.name, axis=node.args[1] if len(node.args) > 1 else 0)


def _slice(w: Writer, node: Node) -> None:
    x, axis, start, end, step = (*node.args, *(0, None, None, 1)[len(node.args) - 1:])
    ends = [start or 0, 2**63 - 1 if end is None else end]
    w.add("Slice", [w.name(x), *(w.constant([v], torch.int64) for v in (*ends, axis, step))], node.name)


def _select(w: Writer, node: Node) -> None:
    x, axis, index = node.args
    w.add("Gather", [w.name(x), w.constant(index, torch.int64)], node.name, axis=axis)


def _embedding(w: Writer, node: Node) -> None:
    w.add("Gather", [w.name(node.args[0]), w.name(node.args[1])], node.name, axis=0)


def _full(w: Writer, node: Node) -> None:
    shape = node.args[0] if node.target is aten.full.default else ()
    value = node.args[1] if node.target is aten.full.default else node.args[0]
    w.small[node.name] = torch.full(tuple(shape), value, dtype=dtype_of(node))


def _full_like(w: Writer, node: Node) -> None:
    w.small[node.name] = torch.full(tuple(node.meta["val"].shape), node.args[1] if len(node.args) > 1 else
                                    float("ones" in str(node.target)), dtype=dtype_of(node))


def _range(w: Writer, node: Node) -> None:
    limits = {aten.arange.default: (0, *node.args)}.get(node.target, node.args)
    if any(isinstance(v, Node) for v in limits):
        raise Unsupported("export: a range whose limits are computed")
    w.small[node.name] = torch.arange(*limits, dtype=dtype_of(node))


def _copy(w: Writer, node: Node) -> None:
    """What is written over a tensor, in its type and extents."""
    to, source = node.args[:2]
    cast = promoted(w, source, node, dtype_of(to))
    w.add("Expand", [cast, w.constant(list(to.meta["val"].shape), torch.int64)], node.name)


def _pad(w: Writer, node: Node) -> None:
    """Extents of less than 0 cut."""
    x, pads = node.args[:2]
    value = node.args[2] if len(node.args) > 2 else 0
    if any(not isinstance(p, int) for p in pads):
        raise Unsupported("export: padding by extents that are not known")
    shape = x.meta["val"].shape
    limits = [(0, 0)] * (len(shape) - len(pads) // 2) + [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    cut = [(axis, max(0, -low), shape[axis] - max(0, -high)) for axis, (low, high) in enumerate(limits)
           if min(low, high) < 0]
    inner = w.name(x)
    if cut:
        axes, starts, ends = map(list, zip(*cut))
        inner = w.add("Slice", [inner, *(w.constant(v, torch.int64) for v in (starts, ends, axes))],
                      f"{node.name}_cut" if max(pads) > 0 else node.name)
    if not cut or max(pads) > 0:
        amounts = [max(0, low) for low, _ in limits] + [max(0, high) for _, high in limits]
        w.add("Pad", [inner, w.constant(amounts, torch.int64), w.constant(value, dtype_of(x))], node.name)


def _places(w: Writer, node: Node) -> tuple[list[int], int, int, str]:
    """Of an indexing by several tensors: the axes of the tensor with the indexed ones first, how many axes the indices
    have together, where these stand in the result, and the places as GatherND and ScatterND have them."""
    x, indices = node.args[:2]
    axes = [i for i, index in enumerate(indices) if index is not None]
    given = [indices[i] for i in axes]
    if any(dtype_of(index) in (torch.bool, torch.uint8) for index in given):
        raise Unsupported("export: an index that is a mask; the result's extents depend on its values")
    shape = torch.broadcast_shapes(*(tuple(index.meta["val"].shape) for index in given))
    places = []
    for i, index in enumerate(given):
        full = w.add("Expand", [w.name(index), w.constant(list(shape), torch.int64)], f"{node.name}_full_{i}")
        wide = w.add("Cast", [full], f"{node.name}_wide_{i}", to=kind_of(torch.int64))
        places.append(w.add("Unsqueeze", [wide, w.constant([-1], torch.int64)], f"{node.name}_place_{i}"))
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    order = [*axes, *(i for i in range(x.meta["val"].dim()) if i not in axes)]
    return order, len(shape), first, w.add("Concat", places, f"{node.name}_places", axis=-1)


def _turned(w: Writer, x: str, order: list[int], output: str) -> str:
    return x if order == sorted(order) else w.add("Transpose", [x], output, perm=order)


def _index(w: Writer, node: Node) -> None:
    x, indices = node.args
    axes = [i for i, index in enumerate(indices) if index is not None]
    if len(axes) == 1 and dtype_of(indices[axes[0]]) not in (torch.bool, torch.uint8):
        w.add("Gather", [w.name(x), w.name(indices[axes[0]])], node.name, axis=axes[0])
        return
    order, count, first, places = _places(w, node)
    found = w.add("GatherND", [_turned(w, w.name(x), order, f"{node.name}_x"), places],
                  f"{node.name}_found" if first else node.name)
    if first:  # the axes before the indexed ones come after them in what was found
        rank = node.meta["val"].dim()
        w.add("Transpose", [found], node.name, perm=[*range(count, count + first), *range(count),
                                                     *range(count + first, rank)])


def _index_put(w: Writer, node: Node) -> None:
    x, _, values = node.args[:3]
    adds = len(node.args) > 3 and bool(node.args[3])
    order, count, first, places = _places(w, node)
    shape, indexed = x.meta["val"].shape, sum(index is not None for index in node.args[1])
    rest = [shape[i] for i in order[indexed:]]
    lengths = list(torch.broadcast_shapes(*(tuple(i.meta["val"].shape) for i in node.args[1] if i is not None)))
    full = w.add("Expand", [w.name(values), w.constant([*rest[:first], *lengths, *rest[first:]], torch.int64)],
                 f"{node.name}_values")
    moved = [*range(first, first + count), *range(first), *range(first + count, count + len(rest))]
    put = w.add("ScatterND", [_turned(w, w.name(x), order, f"{node.name}_x"), places,
                              _turned(w, full, moved, f"{node.name}_moved")],
                node.name if order == sorted(order) else f"{node.name}_put", reduction="add" if adds else None)
    if order != sorted(order):
        w.add("Transpose", [put], node.name, perm=[order.index(i) for i in range(len(order))])


def _index_select(w: Writer, node: Node) -> None:
    x, axis, index = node.args
    w.add("Gather", [w.name(x), w.name(index)], node.name, axis=axis)


def _slice_scatter(w: Writer, node: Node) -> None:
    """What is written into a range of a tensor, between what is left of it."""
    x, source, axis, start, end, step = (*node.args, *(0, None, None, 1)[len(node.args) - 2:])
    length = x.meta["val"].shape[axis]
    first, last, _ = slice(start, end).indices(length)
    if step != 1:
        raise Unsupported(f"export: a write into every element of a range, step {step}")
    parts = [promoted(w, source, node, dtype_of(node))]
    for name, limits in (("ahead", (0, first)), ("behind", (last, length))):
        if limits[0] < limits[1]:
            part = w.add("Slice", [w.name(x), *(w.constant([v], torch.int64) for v in (*limits, axis))],
                         f"{node.name}_{name}")
            parts = [part, *parts] if name == "ahead" else [*parts, part]
    w.add("Concat", parts, node.name, axis=axis)


def _select_scatter(w: Writer, node: Node) -> None:
    x, source, axis, index = node.args
    place = w.constant(torch.full(tuple(source.meta["val"].unsqueeze(axis).shape), index), torch.int64)
    wide = w.add("Unsqueeze", [promoted(w, source, node, dtype_of(node)), w.constant([axis], torch.int64)],
                 f"{node.name}_wide")
    w.add("ScatterElements", [w.name(x), place, wide], node.name, axis=axis)


def _empty(w: Writer, node: Node) -> None:
    """Memory that the program writes; 0 is as good as any value."""
    w.small[node.name] = torch.zeros(tuple(node.meta["val"].shape), dtype=dtype_of(node))


def _is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    count = 1
    for extent, stride in reversed(list(zip(shape, strides))):
        if extent != 1 and stride != count:
            return False
        count *= extent
    return True


def _as_strided(w: Writer, node: Node) -> None:
    """A dense tensor in another shape, or what is written over all of it."""
    scatters = node.target is aten.as_strided_scatter.default
    x, source = node.args[0], node.args[1] if scatters else node.args[0]
    shape, strides, *offset = node.args[2 if scatters else 1:]
    value = x.meta["val"]
    same = tuple(shape) == tuple(value.shape) and all(e == 1 or a == b for e, a, b in
                                                      zip(shape, strides, value.stride()))
    dense = _is_row_major(shape, strides) and _is_row_major(value.shape, value.stride())
    if (not (same or dense and math.prod(shape) == value.numel())
            or offset not in ([], [None], [value.storage_offset()])):
        raise Unsupported("export: a tensor in strides that lay out its elements anew")
    w.add("Reshape", [promoted(w, source, node, dtype_of(node)), w.extents(node, node.meta["val"].shape)], node.name)


def _gather(w: Writer, node: Node) -> None:
    x, axis, index = node.args[:3]
    w.add("GatherElements", [w.name(x), w.name(index)], node.name, axis=axis)


def _repeat(w: Writer, node: Node) -> None:
    x, counts = node.args
    shape = list(x.meta["val"].shape)
    wide = w.name(x)
    if len(counts) > len(shape):
        wide = w.add("Reshape", [wide, w.extents(node, [1] * (len(counts) - len(shape)) + shape)], f"{node.name}_wide")
    w.add("Tile", [wide, w.constant(list(counts), torch.int64)], node.name)


def _flip(w: Writer, node: Node) -> None:
    x, axes = node.args
    count = len(axes)
    limits = ([-1] * count, [-(2**63) + 1] * count, list(axes), [-1] * count)
    w.add("Slice", [w.name(x), *(w.constant(v, torch.int64) for v in limits)], node.name)


MOVES: dict[Any, Callable[[Writer, Node], None]] = {
    **{op: _split for op in PARTS},
    operator.getitem: _getitem, aten.view.default: _reshape, aten._unsafe_view.default: _reshape,
    aten.reshape.default: _reshape, aten.unsqueeze.default: _reshape, aten.squeeze.dims: _reshape,
    aten.squeeze.dim: _reshape, aten.squeeze.default: _reshape, aten.permute.default: _permute,
    aten.transpose.int: _permute, aten.t.default: _permute, aten.expand.default: _expand, aten.cat.default: _concat,
    aten.slice.Tensor: _slice, aten.select.int: _select, aten.embedding.default: _embedding, aten.full.default: _full,
    aten.scalar_tensor.default: _full, aten.constant_pad_nd.default: _pad, aten.arange.default: _range,
    aten.arange.start: _range, aten.arange.start_step: _range, aten.index.Tensor: _index,
    aten.index_put.default: _index_put, aten.index_select.default: _index_select,
    aten.slice_scatter.default: _slice_scatter, aten.select_scatter.default: _select_scatter,
    aten.empty.memory_format: _empty, aten.new_empty_strided.default: _empty, aten.empty_permuted.default: _empty,
    aten.empty_strided.default: _empty, aten.new_empty.default: _empty, aten.empty_like.default: _empty,
    aten.gather.default: _gather,
    aten.as_strided.default: _as_strided, aten.as_strided_scatter.default: _as_strided,
    aten.repeat.default: _repeat, aten.copy.default: _copy, aten.full_like.default: _full_like,
    aten.zeros_like.default: _full_like, aten.ones_like.default: _full_like, aten.flip.default: _flip,
}
