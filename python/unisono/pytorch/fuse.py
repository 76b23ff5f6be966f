"""Finds the regions of a functional ATen graph and puts one operator of Unisono in the place of each."""

from __future__ import annotations

import operator
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch.fx import GraphModule, Node

from .. import _native
from .._native import Conv2d, ConvTranspose2d, Device, Gemm, Layout, Unsupported, UserError
from ..operands import Space, _pattern
from ..tensors import torch_dtypes
from . import dual, shapes
from .decompositions import merge_duplicates
from .expressions import NORMALISATIONS, expression, is_widening
from .library import is_last as _is_last, joined, one_line
from .predict import Prediction, bandwidth, has_bias_pass, predict
from .products import check_matrices, fold_batches, is_transposed
from .regions import FLOATS, Refused, Region, aten, hinted, is_size, is_tensor, is_tuple, shape_of, source_of
from .writer import Writer, mode_of

CONTRACTIONS = (aten.convolution.default, aten.mm.default, aten.addmm.default, aten.bmm.default)
# Contractions of backward passes that have no kernel here yet; native ones will be anchors as those above are
BACKWARD_CONTRACTIONS = (aten.convolution_backward.default,)


@dataclass(frozen=True)
class Limits:
    """Which regions are made."""

    minimum_operators: int = 1  # behind a contraction
    most_stores: int = 3  # results of one kernel with an element for each row and column
    minimum_gain: float = 0.0  # on a GPU, by prediction
    without: frozenset = frozenset()
    spare_sms: int = 0  # left to others, such as communication
    known: dict[tuple, Prediction] = field(default_factory=dict, compare=False)  # what was predicted for equal regions of a graph


def _check(node: Node, *nodes: Any) -> None:
    for one in (node, *nodes):
        if not is_tensor(one):
            raise Refused(f"{one} is no tensor")
        value = one.meta["val"]
        if value.dtype not in FLOATS or value.dtype != node.meta["val"].dtype:
            raise Refused(f"{one.name} is {value.dtype}; regions are of one of float32, float16 and bfloat16")
        if value.device.type not in ("cpu", "cuda") or 0 in hinted(one):
            raise Refused(f"{one.name} is empty or lies on {value.device}")


def anchor_of(node: Node, without: frozenset = frozenset()) -> Region:
    """The region of a contraction alone, with its bias. Raises Refused."""
    is_convolution = node.target is aten.convolution.default
    if (kind := "convolutions" if is_convolution else "products") in without:
        raise Refused(f"switched off by without=('{kind}',)")
    if is_convolution:
        x, w, bias, stride, padding, dilation, transposed, more, groups = node.args
        if len(stride) != 2:
            raise Refused("a convolution of one or three dimensions")
        _check(node, x, w)
        n, k, *rows = shape_of(node)
        region = Region(node, "conv2d", x, w, Space(n, tuple(rows), k, True, _is_last_example(x, w)),
                        (tuple(stride), tuple(padding), tuple(dilation), groups), without=without, output_padding=tuple(more) if transposed else None)
    else:
        bias, (a, b) = (None, node.args) if node.target is not aten.addmm.default else (node.args[0], node.args[1:3])
        _check(node, a, b)
        check_matrices(a, b)
        shape = shape_of(node)
        space = Space(shape[0] if len(shape) == 3 else 1, (shape[-2],), shape[-1], False, False, len(shape) == 3)
        region = Region(node, "gemm", a, b, space, without=without)
    region.names[node], region.dims[node] = "acc", region.whole
    if bias is not None:
        alpha, beta = (float(node.kwargs.get(k, 1)) for k in ("alpha", "beta"))
        axes = "n" if is_convolution else region.axes_of(bias, region.whole)
        added = f" + {'' if beta == 1 else f'{beta!r} * '}{region.value(bias, axes=axes)}" if beta != 0 else ""  # what is in it does not count then
        region.lines.append((node, f"c = {'' if alpha == 1 else f'{alpha!r} * '}acc{added}"))
        region.names[node] = "c"
    return region


def _is_last_example(x: Node, w: Node) -> bool:
    """As the operator decides, on tensors as those of the example lie."""
    def example(node: Node) -> torch.Tensor:
        strides = [shapes.hint(s) for s in node.meta["val"].stride()]
        if None in strides:
            raise Refused(f"{node.name} has strides of which no example is known")
        return torch.empty_strided(hinted(node), strides, device="meta")
    return _is_last(example(x), example(w))


def contraction_of(region: Region, layout: Optional[Layout] = None) -> Any:
    """As it is in the example. layout: of images, if not theirs."""
    kinds = torch_dtypes()
    first, second = region.first.meta["val"], region.second.meta["val"]
    if region.kind == "conv2d":
        (n, c, h, w), (*_, r, s) = hinted(region.first), hinted(region.second)
        stride, padding, dilation, groups = region.moves
        layout = layout or (Layout.nhwc if region.space.native_channels_last else Layout.nchw)
        make, more = (Conv2d, {}) if region.output_padding is None else (ConvTranspose2d, {"output_pad": region.output_padding})
        return make(n=n, h=h, w=w, c=c, k=hinted(region.anchor)[1], r=r, s=s, stride=stride, pad=padding, dilation=dilation, groups=groups,
                    layout=layout, dtype_x=kinds[first.dtype], dtype_w=kinds[second.dtype], **more)
    (*batch, m, k), n = hinted(region.first), hinted(region.second)[-1]
    return Gemm(batch=batch[0] if batch else 1, m=m, n=n, k=k, transpose_a=is_transposed(region.first), transpose_b=is_transposed(region.second),
                dtype_a=kinds[first.dtype], dtype_b=kinds[second.dtype], products=len(region.factors) - 1)


def _given(region: Region, limits: Limits) -> dict:
    """Options of the region's kernel, as the operator has them when it runs."""
    kinds, device = torch_dtypes(), region.anchor.meta["val"].device
    found = {"storage": {name: kinds[node.meta["val"].dtype] for (node, _), name in region.operands.items()}}
    if device.type == "cuda":
        scalars = [name for (_, axes), name in region.operands.items() if axes == ""]
        found.update(device=Device.cuda, device_index=device.index or 0, device_scalars=scalars, spare_sms=limits.spare_sms)
    return found


def _key(region: Region, limits: Limits) -> tuple:
    """What its kernel depends on, in the example."""
    first, second = region.first.meta["val"], region.second.meta["val"]
    orders = region.space.native_channels_last if region.kind == "conv2d" else (is_transposed(region.first), is_transposed(region.second))
    return (str(contraction_of(region)), region.moves, region.output_padding, len(region.factors), orders, first.dtype, first.device, second.dtype,
            region.text(), tuple(n.meta["val"].dtype for n, _ in region.operands), limits.spare_sms)


def build(regions: list[Region], limits: Limits) -> None:
    """On a GPU, compiles all kernels at once, so that first calls find them in the cache."""
    wanted = {_key(region, limits): region for region in regions if region.anchor.meta["val"].device.type == "cuda"}
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) - 1))) as pool:
        list(pool.map(lambda r: _native.compile(contraction_of(r), _native.parse(r.text()), **_given(r, limits)), wanted.values()))


def judged(region: Region, limits: Limits) -> tuple[Optional[str], Optional[Prediction]]:
    """Why no kernel serves the region, or None; on a GPU, where it is planned, a prediction, which equal regions share. On the CPU it
    is compiled."""
    device = region.anchor.meta["val"].device
    try:
        graph, contraction = _native.parse(region.text()), contraction_of(region)
        if device.type == "cpu":
            _native.compile(contraction, graph, **_given(region, limits))
            return None, None
        key = _key(region, limits)
        if key not in limits.known:
            explanation = _native.explain(contraction, graph, **_given(region, limits))
            limits.known[key] = predict(region, contraction_of(region, Layout.nhwc), explanation, bandwidth(device))
        return None, limits.known[key]
    except (Unsupported, UserError) as error:
        return str(error), None


def _needed(region: Region) -> list[Node]:
    """What must be there before the region's call: the anchor stands for its place at the earliest."""
    return [region.anchor, *region.factors, *(o for o, _ in region.operands)]


def _is_placed(region: Region, places: dict[Node, int]) -> bool:
    """Whether every reader of the region's results stands behind its operands."""
    ready = max(places[n] for n in _needed(region))
    sizes = (user for size in region.sizes() for user in size.users)
    readers = (user for n in region.escaping() for user in n.users if not is_size(user))
    return all(places[user] > ready for user in (*readers, *sizes) if user not in region.names)


def _cannot_end(region: Region, places: dict[Node, int], most_stores: int) -> Optional[str]:
    """Why the region cannot end where it does, or None."""
    if any(is_tuple(n) and any(u not in region.names for u in n.users) for n in region.absorbed):
        return "a normalisation whose result is no part of the region"
    last = region.values[-1].name
    if not _is_placed(region, places):
        return f"{last} would need an operand that is not there yet"
    stores = sum(region.is_full(n) for n in region.results())
    if stores > most_stores:
        return f"{last} would need {stores} stores, more than most_stores={most_stores}"
    known = {shapes.expression_of(e) for n in (*region.factors, *region.results()) for e in shape_of(n)}
    for size in region.sizes():
        if shapes.expression_of(size.meta["val"]) not in known:
            return f"{size.name} asks for an extent that no result has"
    return region.unstorable()


def grow(region: Region, nodes: list[Node], places: dict[Node, int], taken: set[Node], limits: Limits) -> tuple[str, Optional[Prediction]]:
    """Absorbs what is behind the anchor, in order; returns why it ends there, and a prediction for it. Raises Refused if no
    kernel serves even the contraction alone."""
    outside: set[Node] = set()  # nodes outside that read a value of the region, directly or through others
    why, none = "nothing reads its result but the graph's output", True
    own = set(region.members)
    for node in nodes[min(places[n] for n in (region.anchor, *region.heads)):]:
        if node.op == "output":
            break
        if node in own:
            continue
        reads = [n for n in node.all_input_nodes if n in region.names or n in outside]
        if not reads or is_size(node):
            continue
        try:
            if node.op != "call_function" or node in taken or node.target in CONTRACTIONS or node.target in BACKWARD_CONTRACTIONS:
                raise Refused(f"{node.name} ({node.target}) is a region of its own, or no operation")
            if any(n in outside for n in reads):
                raise Refused(f"{node.name} reads what is computed outside from the region's values")
            region.absorb(node, expression)
        except Refused as reason:
            why, none = (str(reason) if none else why), False
            outside.add(node)
    return _cut_back(region, places, limits, why)


def work_of(region: Region) -> list[Node]:
    """What was absorbed, without views and parts of tuples."""
    return [n for n in region.absorbed if n.target is not operator.getitem and source_of(n) is n]


def _cut_back(region: Region, places: dict[Node, int], limits: Limits, why: str) -> tuple[str, Optional[Prediction]]:
    is_pass = has_bias_pass(region) and region.anchor.meta["val"].device.type == "cuda"
    too_slow = ""
    while True:
        while region.absorbed and is_widening(region.absorbed[-1]):
            region.drop_last()  # it would double what is stored
        if (count := len(work_of(region))) + is_pass < limits.minimum_operators:
            raise Refused(too_slow or f"{count} operators behind it, fewer than minimum_operators={limits.minimum_operators}; it ends there: {why}")
        reason, prediction = _cannot_end(region, places, limits.most_stores), None
        if reason is None:
            reason, prediction = judged(region, limits)
        if reason is None and prediction is not None and prediction.gain < limits.minimum_gain:
            reason = f"a predicted gain of {prediction.gain:.3f}, below minimum_gain={limits.minimum_gain}: {prediction.ours:.1f} µs, " \
                     f"PyTorch's kernels {prediction.theirs:.1f} µs"
            too_slow = too_slow or reason
            while len(region.absorbed) > 1 and region.absorbed[-1].target not in NORMALISATIONS:
                region.drop_last()  # what costs is a reduction
        if reason is None:
            return why, prediction
        if not region.absorbed:
            raise Refused(too_slow or reason)
        why = reason
        region.drop_last()


def replace(module: GraphModule, region: Region, replaced: dict[Node, Node], limits: Limits) -> bool:
    """Puts the operator in the region's place. `replaced`: what stands for results of regions that were replaced.

    False, and nothing changes, if such a result comes too late for a reader of this region.
    """
    graph, results, escaping = module.graph, region.results(), region.escaping()
    region.first, region.second, region.third = (replaced.get(n, n) for n in (region.first, region.second, region.third))
    region.operands = {(replaced.get(n, n), axes): name for (n, axes), name in region.operands.items()}
    region.placed = {replaced.get(n, n): dims for n, dims in region.placed.items()}
    order = {n: i for i, n in enumerate(graph.nodes)}
    if not _is_placed(region, order):
        return False
    last = max(_needed(region), key=order.__getitem__)
    with graph.inserting_after(last):
        place = graph.call_function(operator.getitem, ())  # stands until what is put ahead of it is there
    writer = Writer(graph, mode_of(module))
    with graph.inserting_before(place):
        made = _written(writer, region, results, limits)
        for node in escaping:
            _again(writer, node, made)
        for size in region.sizes():
            tensors = [*region.factors, *(made[n] for n in results)]
            size.replace_all_uses_with(writer.extent(size.meta["val"], tensors))
            graph.erase_node(size)
    graph.erase_node(place)
    for node in escaping:
        replaced[node] = made[node]
        node.replace_all_uses_with(made[node], delete_user_cb=lambda user: user not in region.names)
    for node in sorted(region.members, key=order.__getitem__, reverse=True):
        graph.erase_node(node)
    return True


def _written(writer: Writer, region: Region, results: list[Node], limits: Limits) -> dict[Node, Node]:
    """The call, and what stands for each of the results."""
    names = joined(region.operands.values(), {"spare_sms": limits.spare_sms} if limits.spare_sms else {})
    values = [_as_operand(writer, node, region, axes) for node, axes in region.operands]
    dtype = region.anchor.meta["val"].dtype
    ops, moves = torch.ops.unisono, ()
    if region.kind == "conv2d":
        more = () if region.output_padding is None else (list(region.output_padding),)
        moves = (*(list(m) for m in region.moves[:3]), *more, region.moves[3])
        target = ops.fused_conv_transpose2d if more else ops.fused_conv2d
    else:
        target = ops.fused_gemm if region.third is None else ops.fused_dual_gemm
    call = writer.call(target.default, (*region.factors, values, [], one_line(region.text()), names, *moves, dtype))
    return {node: _as_before(writer, writer.call(operator.getitem, (call, i)), node, region) for i, node in enumerate(results)}


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
            node = writer.call(aten.permute.default, (writer.reshape(node, pieces, [region.first, region.second]), back))
        return writer.reshape(node, space.shape_mn, [region.first, region.second])
    wanted = _pattern(space, axes) if space.channels_first or space.is_batched or axes in ("", "n") else (space.row_count, 1)
    wanted = (space.cols,) if axes == "n" else () if axes == "" else wanted
    if [e for e in map(shapes.expression_of, shape_of(node)) if e != 1] == [e for e in map(shapes.expression_of, wanted) if e != 1] and axes != "m":
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
            value = writer.call(aten.permute.default, (writer.reshape(value, split, [region.first, region.second]), list(permutation)))
    value = writer.reshape(value, tuple(before.shape), [region.first, region.second])
    return value


def _with_units(dims: shapes.Dims, split: tuple, permutation: tuple) -> tuple[tuple, tuple]:
    """With the tensor's extents of 1 outermost, so that these have the strides that PyTorch gives them: its kernels ask whether
    an image of a batch of 1 is channels last by all four strides."""
    units, order, places = sum(not dim for dim in dims), [], iter(permutation)
    for dim in dims:
        order += [next(places) + units for _ in dim] if dim else [sum(o < units for o in order)]
    return (*(1,) * units, *split), tuple(order)


def _is_either(value: Node) -> bool:
    """Whether the strides are those of both memory formats, for the example."""
    shape = hinted(value)
    return len(shape) != 4 or shape[1] == 1 or shape[2] * shape[3] == 1


def _row(node: Node) -> dict:
    shape = [e if isinstance(e, int) else str(e) for e in shape_of(node)] if is_tensor(node) else None
    dtype = str(node.meta["val"].dtype) if is_tensor(node) else None
    return {"anchor": node.name, "operator": str(node.target), "shape": shape, "dtype": dtype, "fused": [], "stores": 0, "taken": False,
            **({"flop": flop} if node.target in CONTRACTIONS and (flop := _flop(node)) else {})}


def _flop(node: Node) -> int:
    """Of any contraction, in the example, also of those that no region takes; 0 where nobody knows its sizes."""
    try:
        if node.target is aten.convolution.default:  # each pixel, of the input if transposed, meets the whole filter
            image = hinted(node.args[0] if node.args[6] else node)
            return 2 * image[0] * shapes.product(image[2:]) * shapes.product(hinted(node.args[1]))
        return 2 * shapes.product(hinted(node)) * hinted(node.args[-2])[-1]
    except Refused:
        return 0


def _first_write(nodes: list[Node]) -> int:
    return next((i for i, n in enumerate(nodes) if n.op == "call_function" and getattr(n.target, "_schema", None) is not None
                 and n.target._schema.is_mutable), len(nodes))


def _finished(region: Region, nodes: list[Node], places: dict[Node, int], taken: set[Node], limits: Limits, row: dict) -> Region:
    """Grows it, and fills the row. Raises Refused."""
    row["ends"], prediction = grow(region, nodes, places, taken, limits)
    if prediction is not None:
        row.update(predicted_us=round(prediction.ours, 2), predicted_us_of_pytorch=round(prediction.theirs, 2))
    row.update(taken=True, fused=[f"{n.name} ({n.target})" for n in work_of(region)], stores=len(region.results()), epilogue=region.text())
    return region


def _dual(node: Node, nodes: list[Node], places: dict[Node, int], taken: set[Node], limits: Limits, row: dict) -> Optional[Region]:
    """The region of two products that begins with this one, if a value reads both and one kernel serves them."""
    if node.target not in dual.PRODUCTS or limits.without & {"products", "pairs"} or limits.minimum_operators > 2:
        return None
    try:
        _check(node, *(a for a in node.args if is_tensor(a)))
        halves = dual.halves_of(node, places, limits.without)
        for region in [halves] if halves else dual.pair_of(node, nodes, places, taken, limits.without):
            trial = dict(row)
            try:
                _finished(region, nodes, places, taken, limits, trial)
            except Refused:
                continue
            if dual.joins(region):
                row.update(trial)
                return region
    except Refused:
        pass
    return None


def _found(node: Node, nodes: list[Node], places: dict[Node, int], taken: set[Node], limits: Limits, row: dict) -> Region:
    """The region of an anchor. Raises Refused."""
    if node.target in BACKWARD_CONTRACTIONS:
        raise Refused("backward passes of convolutions are PyTorch's: there are no native kernels for them yet")
    return _dual(node, nodes, places, taken, limits, row) or _finished(anchor_of(node, limits.without), nodes, places, taken, limits, row)


def _part_of(row: dict, node: Node) -> dict:
    """The row of the second product of a pair, whose arithmetic the first one's row has."""
    return {**_row(node), "taken": True, "part_of": row["anchor"], "ends": f"the second product of {row['anchor']}'s kernel"}


def fuse(module: GraphModule, limits: Limits) -> list[dict]:
    """Fuses in place; returns a row of the report for each contraction."""
    merge_duplicates(module.graph)
    fold_batches(module)
    nodes = list(module.graph.nodes)
    places = {n: i for i, n in enumerate(nodes)}
    ahead = nodes[:_first_write(nodes)]
    rows, regions, taken = [], [], set()
    for node in ahead:
        if node.op != "call_function" or node.target not in (*CONTRACTIONS, *BACKWARD_CONTRACTIONS) or node in taken:
            continue
        rows.append(row := _row(node))
        try:
            region = _found(node, ahead, places, taken, limits, row)
        except Refused as reason:
            row["ends"] = str(reason)
            continue
        taken.update(region.members)
        regions.append((region, row))
        rows += [_part_of(row, n) for n in region.heads if n is not node and n.target in CONTRACTIONS]
    if torch.cuda.is_available():
        build([region for region, _ in regions], limits)
    replaced: dict[Node, Node] = {}
    for region, row in reversed(regions):  # those that read others' results first
        if not replace(module, region, replaced, limits):
            row.update(taken=False, ends="an operand from another region comes after a reader of its result")
            for other in rows:
                if other.get("part_of") == row["anchor"]:
                    other.update(taken=False, ends=row["ends"])
    module.graph.lint()
    module.recompile()
    return rows
