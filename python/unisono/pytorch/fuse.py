"""Finds the regions of a functional ATen graph and puts one operator of Unisono in the place of each."""

from __future__ import annotations

import operator
from typing import Any, Optional

import torch
from torch.fx import GraphModule, Node

from .. import _native
from .._native import Conv2d, Device, Gemm, Layout, Unsupported, UserError
from ..operands import Space
from ..tensors import torch_dtypes
from .operators import _is_last
from .regions import FLOATS, Refused, Region, aten, is_static, shape_of

CONTRACTIONS = (aten.convolution.default, aten.mm.default, aten.addmm.default, aten.bmm.default)


def _tensors(node: Node, *nodes: Any) -> None:
    for one in (node, *nodes):
        if not is_static(one):
            raise Refused("shapes that are not known when compiling")
        value = one.meta["val"]
        if value.dtype not in FLOATS or value.dtype != node.meta["val"].dtype:
            raise Refused(f"{one.name} is {value.dtype}; regions are of one of float32, float16 and bfloat16")
        if value.device.type not in ("cpu", "cuda") or 0 in value.shape:
            raise Refused(f"{one.name} is empty or lies on {value.device}")


def anchor_of(node: Node) -> Region:
    """The region of a contraction alone, with its bias. Raises Refused."""
    if node.target is aten.convolution.default:
        x, w, bias, stride, padding, dilation, transposed, _, groups = node.args
        if transposed or len(stride) != 2:
            raise Refused("a transposed convolution" if transposed else "a convolution of one or three dimensions")
        _tensors(node, x, w)
        n, k, *rows = shape_of(node)
        space = Space(n, tuple(rows), k, True, _is_last(x.meta["val"], w.meta["val"]))
        region = Region(node, "conv2d", x, w, space, (tuple(stride), tuple(padding), tuple(dilation), groups))
        region.names[node] = "acc"
        if bias is not None:
            region.lines.append((node, f"c = acc + {region.value(bias, 'n')}"))
            region.names[node] = "c"
        return region
    bias, (a, b) = (None, node.args) if node.target is not aten.addmm.default else (node.args[0], node.args[1:3])
    _tensors(node, a, b)
    shape = shape_of(node)
    space = Space(shape[0] if len(shape) == 3 else 1, (shape[-2],), shape[-1], False, False, len(shape) == 3)
    region = Region(node, "gemm", a, b, space)
    region.names[node] = "acc"
    if bias is not None:
        alpha, beta = (float(node.kwargs.get(k, 1)) for k in ("alpha", "beta"))
        added = f" + {beta!r} * {region.value(bias)}" if beta != 0 else ""  # what is in the bias does not count then
        region.lines.append((node, f"c = {alpha!r} * acc{added}"))
        region.names[node] = "c"
    return region


def _contraction(region: Region) -> Any:
    kinds = torch_dtypes()
    first, second = region.first.meta["val"], region.second.meta["val"]
    if region.kind == "conv2d":
        (n, c, h, w), (k, _, r, s) = first.shape, second.shape
        stride, padding, dilation, groups = region.moves
        layout = Layout.nhwc if region.space.native_channels_last else Layout.nchw
        return Conv2d(n=n, h=h, w=w, c=c, k=k, r=r, s=s, stride=stride, pad=padding, dilation=dilation, groups=groups, layout=layout,
                      dtype_x=kinds[first.dtype], dtype_w=kinds[second.dtype])
    batch, (m, k), n = region.space.images, first.shape[-2:], second.shape[-1]
    return Gemm(batch=batch, m=m, n=n, k=k, dtype_a=kinds[first.dtype], dtype_b=kinds[second.dtype])


def refusal(region: Region) -> Optional[str]:
    """Why no kernel serves the region, or None. On a GPU it is planned, on the CPU compiled."""
    kinds, device = torch_dtypes(), region.anchor.meta["val"].device
    storage = {name: kinds[node.meta["val"].dtype] for node, (name, _) in region.operands.items()}
    try:
        graph = _native.parse(region.text())
        if device.type == "cpu":
            _native.compile(_contraction(region), graph, storage=storage)
        else:
            scalars = [name for name, axes in region.operands.values() if axes == ""]
            _native.explain(_contraction(region), graph, storage=storage, device=Device.cuda, device_index=device.index or 0,
                            device_scalars=scalars)
    except (Unsupported, UserError) as error:
        return str(error)
    return None


def _is_placed(region: Region, places: dict[Node, int]) -> bool:
    """Whether every reader of the region's results stands behind its operands."""
    ready = max(places[n] for n in (region.anchor, region.first, region.second, *region.operands))
    return all(places[user] > ready for n in region.escaping() for user in n.users if user not in region.names)


def grow(region: Region, nodes: list[Node], places: dict[Node, int], taken: set[Node], most_stores: int) -> str:
    """Absorbs what is behind the anchor, in order; returns why it ends there."""
    outside: set[Node] = set()  # nodes outside that read a value of the region, directly or through others
    why, none = "nothing reads its result but the graph's output", True
    for node in nodes[places[region.anchor] + 1:]:
        if node.op == "output":
            break
        reads = [n for n in node.all_input_nodes if n in region.names or n in outside]
        if not reads:
            continue
        try:
            if node.op != "call_function" or node in taken or node.target in CONTRACTIONS:
                raise Refused(f"{node.name} ({node.target}) is a region of its own, or no operation")
            if any(n in outside for n in reads):
                raise Refused(f"{node.name} reads what is computed outside from the region's values")
            region.absorb(node)
        except Refused as reason:
            why, none = (str(reason) if none else why), False
            outside.add(node)
    while region.absorbed and (not _is_placed(region, places) or len(region.results()) > most_stores or _ends_in_tuple(region)):
        why = f"{region.absorbed[-1].name} would need an operand that is not there yet, or a store too many"
        region.drop_last()
    while region.absorbed and (reason := refusal(region)) is not None:
        why = reason
        region.drop_last()
        while region.absorbed and (not _is_placed(region, places) or _ends_in_tuple(region)):
            region.drop_last()
    return why


def _ends_in_tuple(region: Region) -> bool:
    """A normalisation whose result is no part of the region."""
    return any(isinstance(n.meta.get("val"), (tuple, list)) and any(u not in region.names for u in n.users) for n in region.absorbed)


def replace(module: GraphModule, region: Region, replaced: dict[Node, Node]) -> bool:
    """Puts the operator in the region's place. `replaced`: what stands for results of regions that were replaced.

    False, and nothing changes, if such a result comes too late for a reader of this region.
    """
    graph, results, escaping = module.graph, region.results(), region.escaping()
    region.first, region.second = (replaced.get(n, n) for n in (region.first, region.second))
    region.operands = {replaced.get(n, n): how for n, how in region.operands.items()}
    order = {n: i for i, n in enumerate(graph.nodes)}
    if not _is_placed(region, order):
        return False
    last = max((region.anchor, region.first, region.second, *region.operands), key=order.__getitem__)
    names = ",".join(name for name, _ in region.operands.values())
    with graph.inserting_after(last):
        place = graph.call_function(operator.getitem, ())  # stands until what is put ahead of it is there
    with graph.inserting_before(place):
        values = [_as_rows(graph, node, region, axes) for node, (_, axes) in region.operands.items()]
        dtype = region.anchor.meta["val"].dtype
        if region.kind == "conv2d":
            moves = [list(m) for m in region.moves[:3]]
            call = graph.call_function(torch.ops.unisono.conv2d.default, (region.first, region.second, values, [], region.text(), names,
                                                                          *moves, region.moves[3], dtype))
        else:
            call = graph.call_function(torch.ops.unisono.gemm.default, (region.first, region.second, values, [], region.text(), names, dtype))
        made: dict[Node, Node] = {}
        for i, node in enumerate(results):
            value = graph.call_function(operator.getitem, (call, i))
            value.meta["val"] = node.meta["val"]
            made[node] = _as_before(graph, value, node, region)
        for node in escaping:
            _again(graph, node, made)
    graph.erase_node(place)
    for node in escaping:
        value = replaced[node] = made[node]
        node.replace_all_uses_with(value, delete_user_cb=lambda user: user not in region.names)
    for node in reversed((region.anchor, *region.absorbed)):
        graph.erase_node(node)
    return True


def _again(graph: Any, node: Node, made: dict[Node, Node]) -> Node:
    """What stands for a value that escapes: aliases and views are made again, of what is stored."""
    if node not in made:
        made[node] = graph.call_function(node.target, (_again(graph, node.args[0], made), *node.args[1:]), node.kwargs)
        made[node].meta["val"] = node.meta["val"]
    return made[node]


def _as_rows(graph: Any, node: Node, region: Region, axes: str) -> Node:
    if axes != "mn" or shape_of(node) == region.space.shape_mn:
        return node
    return graph.call_function(aten.reshape.default, (node, list(region.space.shape_mn)))


def _as_before(graph: Any, value: Node, node: Node, region: Region) -> Node:
    """The result in the shape and memory order that the graph had."""
    before = node.meta["val"]
    if tuple(before.shape) != region.space.shape_mn:
        value = graph.call_function(aten.reshape.default, (value, list(before.shape)))
    elif region.kind == "conv2d":
        last = region.space.native_channels_last
        wanted = torch.channels_last if last else torch.contiguous_format
        if not before.is_contiguous(memory_format=wanted) and before.is_contiguous(memory_format=torch.contiguous_format if last else torch.channels_last):
            value = graph.call_function(aten.clone.default, (value,), {
                "memory_format": torch.contiguous_format if last else torch.channels_last})
    value.meta["val"] = before
    return value


def fuse(module: GraphModule, minimum_operators: int, most_stores: int) -> list[dict]:
    """Fuses in place; returns a row of the report for each contraction."""
    nodes = list(module.graph.nodes)
    places = {n: i for i, n in enumerate(nodes)}
    first_write = next((i for n, i in places.items() if n.op == "call_function" and getattr(n.target, "_schema", None) is not None
                        and n.target._schema.is_mutable), len(nodes))
    rows, regions, taken = [], [], set()
    for node in nodes[:first_write]:
        if node.op != "call_function" or node.target not in CONTRACTIONS:
            continue
        row = {"anchor": node.name, "operator": str(node.target), "shape": list(shape_of(node)) if is_static(node) else None,
               "dtype": str(node.meta["val"].dtype), "fused": [], "stores": 0, "taken": False}
        rows.append(row)
        try:
            region = anchor_of(node)
            row["ends"] = grow(region, nodes[:first_write], places, taken, most_stores)
            work = [n for n in region.absorbed if n.target is not operator.getitem]
            if len(work) < minimum_operators:
                raise Refused(f"{len(work)} operators behind it, fewer than minimum_operators={minimum_operators}; it ends there: {row['ends']}")
            if reason := refusal(region):
                raise Refused(reason)
        except Refused as reason:
            row["ends"] = str(reason)
            continue
        taken.update(region.names)
        regions.append((region, row))
        row.update(taken=True, fused=[f"{n.name} ({n.target})" for n in work], stores=len(region.results()), epilogue=region.text())
    replaced: dict[Node, Node] = {}
    for region, row in reversed(regions):  # those that read others' results first
        if not replace(module, region, replaced):
            row.update(taken=False, ends="an operand from another region comes after a reader of its result")
    module.graph.lint()
    module.recompile()
    return rows
