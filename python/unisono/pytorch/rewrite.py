"""Puts one operator of Unisono in the place of a region."""

from __future__ import annotations

import operator
from typing import Optional

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node

from ..arrange import STRICT
from ..operands import pattern
from . import shapes
from .judge import Limits
from .regions import TAKES_SLICES, Region, aten, hinted, is_size, shape_of
from .texts import LAST, joined, one_line
from .writer import Writer



def needed(region: Region) -> list[Node]:
    """What must be there before the region's call: the anchor stands for its place at the earliest. Views that are made
    again take extents that are nodes, such as a quotient of sizes."""
    extents = (n for view in _made_again(region) for n in view.all_input_nodes if n is not view.args[0])
    return [region.anchor, *region.factors, *(o for o, _ in region.operands), *extents]


def _made_again(region: Region) -> list[Node]:
    """Aliases and views of what is stored that nodes outside read, and those between."""
    results, found = set(region.results()), dict[Node, None]()
    for node in region.escaping():
        while node not in results:
            found[node], node = None, node.args[0]
    return list(found)


def is_placed(region: Region, places: dict[Node, int]) -> bool:
    """Whether every reader of the region's results comes after its operands."""
    ready = max(places[n] for n in needed(region))
    sizes = (user for size in region.sizes() for user in size.users)
    readers = (user for n in region.escaping() for user in n.users if not is_size(user))
    return all(places[user] > ready for user in (*readers, *sizes) if user not in region.names)


def replace(
    module: GraphModule,
    region: Region,
    replaced: dict[Node, Node],
    limits: Limits,
    mode: Optional[FakeTensorMode],
) -> bool:
    """Puts the operator in the region's place. `replaced`: what stands for results of regions that were replaced. mode:
    of the graph's values.

    False, and nothing changes, if such a result comes too late for a reader of this region.
    """
    graph, results, escaping = module.graph, region.results(), region.escaping()
    region.first, region.second, region.third = (replaced.get(n, n)
                                                 for n in (region.first, region.second, region.third))
    region.operands = {(replaced.get(n, n), axes): name for (n, axes), name in region.operands.items()}
    region.placed = {replaced.get(n, n): dims for n, dims in region.placed.items()}
    order = {n: i for i, n in enumerate(graph.nodes)}
    if not is_placed(region, order):
        return False
    last = max(needed(region), key=order.__getitem__)
    with graph.inserting_after(last):
        place = graph.call_function(operator.getitem, ())  # removed when what comes before it is there
    writer = Writer(graph, mode)
    with graph.inserting_before(place):
        made = _written(writer, region, results, limits)
        for size in region.sizes():  # before views, which may take them
            tensors = [*region.factors, *(made[n] for n in results)]
            size.replace_all_uses_with(writer.extent(size.meta["val"], tensors))
            graph.erase_node(size)
        for node in escaping:
            _again(writer, node, made)
    graph.erase_node(place)
    for node in escaping:
        replaced[node] = made[node]
        node.replace_all_uses_with(made[node], delete_user_cb=lambda user: user not in region.names)
    for node in sorted(region.members, key=order.__getitem__, reverse=True):
        graph.erase_node(node)
    return True


def _written(writer: Writer, region: Region, results: list[Node], limits: Limits) -> dict[Node, Node]:
    """The call, and what stands for each of the results."""
    options = {"spare_sms": limits.spare_sms} if limits.spare_sms else {}
    if limits.strict:
        options[STRICT] = 1
    if region.kind == "conv2d":
        options[LAST] = int(region.space.native_channels_last)
    names = joined(region.operands.values(), options)
    values = [_as_operand(writer, node, region, axes) for node, axes in region.operands]
    dtype = region.anchor.meta["val"].dtype
    ops, moves = torch.ops.unisono, ()
    if region.kind == "conv2d":
        more = () if region.output_padding is None else (list(region.output_padding),)
        moves = (*(list(m) for m in region.moves[:3]), *more, region.moves[3])
        single = ops.fused_conv_transpose2d if more else ops.fused_conv2d
        target = single if region.third is None else ops.fused_dual_conv2d
    else:
        target = ops.fused_gemm if region.third is None else ops.fused_dual_gemm
    call = region.call = writer.call(
        target.default, (*region.factors, values, [], one_line(region.text()), names, *moves, dtype)
    )
    call.meta[TAKES_SLICES] = region.takes_slices
    return {node: _as_before(writer, writer.call(operator.getitem, (call, i)), node, region)
            for i, node in enumerate(results)}


def _again(writer: Writer, node: Node, made: dict[Node, Node]) -> Node:
    """What stands for a value that escapes: aliases and views are made again, of what is stored."""
    if node not in made:
        made[node] = writer.call(node.target, (_again(writer, node.args[0], made), *node.args[1:]), node.kwargs)
    return made[node]


def _as_operand(writer: Writer, node: Node, region: Region, axes: str) -> Node:
    """The operand in a shape that the operator reads as these axes."""
    space = region.space
    if axes == "mn":
        split, permutation = shapes.turned(region.placed[node], space)
        if permutation != tuple(range(len(permutation))):
            pieces = tuple(split[i] for i in permutation)
            back = [permutation.index(i) for i in range(len(permutation))]
            node = writer.call(aten.permute.default, (writer.reshape(node, pieces, [region.first, region.second]),
                                                      back))
        return writer.reshape(node, space.shape_mn, [region.first, region.second])
    wanted = (
        pattern(space, axes) if space.channels_first or space.is_batched or axes in ("", "n") else (space.row_count, 1)
    )
    wanted = (space.cols,) if axes == "n" else () if axes == "" else wanted
    if axes == "m" and not node.meta["val"].is_contiguous():  # such as one channel of an image
        node = writer.call(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
    if [e for e in map(shapes.expression_of, shape_of(node)) if e != 1] == [e for e in map(shapes.expression_of, wanted)
                                                                            if e != 1] and axes != "m":
        return node
    return writer.reshape(node, wanted, [region.first, region.second])


def _as_before(writer: Writer, value: Node, node: Node, region: Region) -> Node:
    """The result in the shape and memory order that the graph had."""
    before = node.meta["val"]
    if region.is_full(node) or node in region.forms:
        order = region.order_of(node)
        is_last = region.kind == "conv2d" and region.space.native_channels_last
        if region.kind == "conv2d" and is_last != (order is torch.channels_last) and not _is_either(value):
            value = writer.call(aten.clone.default, (value,), {"memory_format": order})
        split, permutation = ((), ()) if node in region.forms else shapes.turned(region.dims[node], region.space)
        if permutation != tuple(range(len(permutation))):
            split, permutation = _with_units(region.dims[node], split, permutation)
            value = writer.call(aten.permute.default, (writer.reshape(value, split, [region.first, region.second]),
                                                       list(permutation)))
    value = writer.reshape(value, tuple(before.shape), [region.first, region.second])
    return value


def _with_units(dims: shapes.Dims, split: tuple, permutation: tuple) -> tuple[tuple, tuple]:
    """With the tensor's extents of 1 outermost, so that these have the strides that PyTorch gives them: its kernels ask
    whether an image of a batch of 1 is channels last by all four strides."""
    units, order, places = sum(not dim for dim in dims), [], iter(permutation)
    for dim in dims:
        order += [next(places) + units for _ in dim] if dim else [sum(o < units for o in order)]
    return (*(1,) * units, *split), tuple(order)


def _is_either(value: Node) -> bool:
    """Whether the strides are those of both memory formats, for the example."""
    shape = hinted(value)
    return len(shape) != 4 or shape[1] == 1 or shape[2] * shape[3] == 1
