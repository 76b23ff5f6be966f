"""Pairs of products that one kernel computes: SwiGLU, GEGLU and their kin in the forms in which programs write them.

Two linear layers of one input; or one layer of twice the width whose result is cut in two: by halves (chunk, split,
slices) or by alternating columns (slices with a step of 2, or a view whose last extent is 2). A bias, added ahead of
the cut, is cut as the weight is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from torch._guards import detect_fake_mode
from torch.fx import Node

from ..operands import Space
from . import shapes
from .products import check_matrices
from .regions import FLOATS, RESHAPED, Refused, Region, aten, is_size, is_tensor, shape_of, source_of

PRODUCTS = (aten.mm.default, aten.addmm.default)


@dataclass(frozen=True)
class Cut:
    """Columns start, start + step, … of a product of twice as many."""

    start: int
    step: int


def _factors(node: Node) -> tuple[Node, Node, Optional[Node]]:
    """Left and right matrix and bias."""
    if node.target is aten.mm.default:
        return (*node.args, None)
    if any(node.kwargs.get(k, 1) != 1 for k in ("alpha", "beta")):
        raise Refused(f"{node.name} scales its product or its bias")
    return node.args[1], node.args[2], node.args[0]


def _is_same(x: Node, y: Node) -> bool:
    """Whether two nodes are the same value in the same shape."""
    return (
        x is y
        or source_of(x) is source_of(y)
        and shape_of(x) == shape_of(y)
        and all(n.target in RESHAPED for n in (x, y))
        and x.meta["val"].stride() == y.meta["val"].stride()
    )


def _region(heads: list[list[Node]], anchor: Node, left: Node, rights: list[Node], biases: list,
            without: frozenset) -> Region:
    """acc0 and acc1 with their biases; heads: what is called so."""
    for node in (left, *rights):
        if node.meta["val"].dtype not in FLOATS or node.meta["val"].dtype != anchor.meta["val"].dtype:
            raise Refused(f"{node.name} is {node.meta['val'].dtype}")
    rows, cols = shape_of(left)[0], shape_of(rights[0])[1]
    region = Region(anchor, "gemm", left, rights[0], Space(1, (rows,), cols, False, False, False), third=rights[1],
                    heads=[h for each in heads for h in each], without=without)
    check_matrices(left)
    if rights[0].meta["val"].device.type == "cuda" and not _is_taken_on_a_gpu(*rights):
        raise Refused(
            "right matrices of a dual product lie dense, or have rows that lie apart in the order of a linear "
            "layer's weight"
        )
    for i, (each, bias) in enumerate(zip(heads, biases)):
        name = f"acc{i}"
        if bias is not None:
            region.lines.append((anchor, f"c{i} = acc{i} + {region.value(bias, axes='n')}"))
            name = f"c{i}"
        for head in each:
            dims = shapes.viewed(region.whole, shape_of(head))
            if dims is None:
                raise Refused(f"{head.name} of shape {shape_of(head)} cuts rows in two")
            region.names[head], region.dims[head] = name, dims
    return region


def _is_taken_on_a_gpu(first: Node, second: Node) -> bool:
    def is_taken(node: Node) -> bool:
        strides = node.meta["val"].stride()
        return strides[0] == 1 or strides == (shape_of(node)[1], 1)
    return is_taken(first) and is_taken(second)


def _depends_on(other: Node, node: Node, places: dict[Node, int]) -> bool:
    """Whether some input of `other` is computed from the result of `node`: one kernel cannot wait for itself."""
    waiting, seen = [n for n in other.all_input_nodes if places[n] >= places[node]], set()
    while waiting:
        one = waiting.pop()
        if one is node:
            return True
        if one not in seen:
            seen.add(one)
            waiting += [n for n in one.all_input_nodes if places[n] >= places[node]]
    return False


def pair_of(node: Node, nodes: list[Node], places: dict[Node, int], taken: set[Node],
            without: frozenset) -> Iterator[Region]:
    """Regions of two products of which `node` is the first."""
    left, right, bias = _factors(node)
    for other in nodes[places[node] + 1:]:
        if other.op != "call_function" or other.target not in PRODUCTS or other in taken:
            continue
        left1, right1, bias1 = _factors(other)
        alike = shape_of(right) == shape_of(right1) and right.meta["val"].stride() == right1.meta["val"].stride() \
            and right.meta["val"].dtype == right1.meta["val"].dtype and right is not right1
        if not alike or not _is_same(left, left1) or any(b is not None and shape_of(b) != shape_of(right)[1:]
                                                         for b in (bias, bias1)):
            continue
        if not _depends_on(other, node, places):
            yield _region([[node], [other]], other, left, [right, right1], [bias, bias1], without)


def _cut_of(user: Node, node: Node, width: int) -> Any:
    """How a reader cuts the last extent of a value of 2·width columns: a Cut, a list of (node, Cut), or None if
    otherwise."""
    rank = len(shape_of(node))
    last = {-1, rank - 1}
    if user.target is aten.slice.Tensor and len(user.args) > 1 and user.args[1] in last:
        start, stop, step = (*user.args[2:], *(None, None, 1)[len(user.args) - 2:])
        start = 0 if start is None else start
        stop = 2 * width if stop is None else min(stop, 2 * width)
        if isinstance(start, int) and isinstance(step, int) and len(range(start, stop, step)) == width:
            return Cut(start + 2 * width if start < 0 else start, step)
    if user.target in (aten.split.Tensor, aten.split_with_sizes.default) and user.args[1] in (width, [width, width]) \
            and (user.args[2] if len(user.args) > 2 else user.kwargs.get("dim", 0)) in last:
        return [(part, Cut(part.args[1] * width, 1)) for part in user.users]
    return None


def _pieces_of(view: Node, width: int) -> Any:
    """Of a view whose last extents are (width, 2) or (2, width): its readers that select one of two; None if there is
    another."""
    extents, found = shape_of(view)[-2:], []
    for place, extent in enumerate(extents):
        if extents == ((width, 2) if place else (2, width)):
            dims = {place - 2, place - 2 + len(shape_of(view))}
            for user in view.users:
                if user.target is aten.select.int and user.args[1] in dims:
                    found.append((user, Cut(user.args[2] % 2, 2) if place else Cut(user.args[2] % 2 * width, 1)))
                elif user.target is aten.unbind.int and (user.args[1] if len(user.args) > 1 else 0) in dims:
                    found += [(part, Cut(part.args[1], 2) if place else Cut(part.args[1] * width, 1))
                              for part in user.users]
                else:
                    return None
    return found or None


def _added_bias(user: Node, node: Node, width: int) -> Optional[Node]:
    """The vector that is added to all columns, if that is what the reader does."""
    if user.target is not aten.add.Tensor or user.kwargs or user.args[0] is not node or not is_tensor(user.args[1]):
        return None
    return user.args[1] if shape_of(user.args[1]) == (2 * width,) else None


def _follow(node: Node, width: int, hidden: list[Node], heads: dict[Node, Cut], biases: list[Node]) -> bool:
    """Collects what cuts a product, through views and an addition of a bias; whether all of its readers do."""
    for user in node.users:
        if is_size(user):
            continue
        cut = _cut_of(user, node, width)
        if isinstance(cut, Cut):
            heads[user] = cut
        elif isinstance(cut, list):
            hidden.append(user)
            heads.update(cut)
        elif user.target in RESHAPED and (pieces := _pieces_of(user, width)):
            hidden.extend([user, *(u for u in user.users if u.target is aten.unbind.int)])
            heads.update(pieces)
        elif user.target in RESHAPED and shape_of(user) and shape_of(user)[-1] == 2 * width:
            hidden.append(user)
            if not _follow(user, width, hidden, heads, biases):
                return False
        elif (bias := _added_bias(user, node, width)) is not None and len(node.users) == 1 and not biases:
            hidden.append(user)
            biases.append(bias)
            if not _follow(user, width, hidden, heads, biases):
                return False
        else:
            return False
    return True


def halves_of(node: Node, places: dict[Node, int], without: frozenset) -> Optional[Region]:
    """The region of a product whose result is cut in two; None if it is not. Slices of weight and bias are put into the
    graph, where they are views; without the region nothing reads them."""
    left, right, bias = _factors(node)
    columns = shape_of(right)[1]
    if not isinstance(columns, int) or columns % 2:
        return None
    width, hidden, cuts, biases = columns // 2, [node], {}, [] if bias is None else [bias]
    if not _follow(node, width, hidden, cuts, biases) or any(shape_of(b) != (columns,) for b in biases):
        return None
    parts = sorted(set(cuts.values()), key=lambda cut: cut.start)
    if parts not in ([Cut(0, 1), Cut(width, 1)], [Cut(0, 2), Cut(1, 2)]):
        return None
    heads = [[n for n, cut in cuts.items() if cut == part] for part in parts]
    rights = [_sliced(right, 1, part, node, places) for part in parts]
    vectors = [_sliced(biases[0], 0, part, node, places) if biases else None for part in parts]
    region = _region(heads, node, left, rights, vectors, without)
    region.hidden = [n for n in hidden if n not in region.heads]
    return region


def _sliced(node: Node, dim: int, cut: Cut, anchor: Node, places: dict[Node, int]) -> Node:
    """A part of a weight or bias, as a new node ahead of the anchor, or behind what comes later. Vectors are made
    dense: a kernel reads no others."""
    columns = shape_of(node)[dim]
    stop = columns if cut.step == 2 else cut.start + columns // 2
    steps = [(aten.slice.Tensor, (dim, cut.start, stop, cut.step))]
    if len(shape_of(node)) == 1 and cut.step == 2:
        steps.append((aten.clone.default, ()))
    mode = detect_fake_mode([node.meta["val"]])
    for target, more in steps:
        place = (
            node.graph.inserting_before(anchor) if places[node] < places[anchor] else node.graph.inserting_after(node)
        )
        with place, mode or contextlib.nullcontext():
            found = node.graph.call_function(target, (node, *more))
            found.meta["val"] = target(node.meta["val"], *more)
        places[found], node = max(places[anchor], places[node]), found
    return node


def joins(region: Region) -> bool:
    """Whether some value of the region depends on both products: otherwise two kernels do as well."""
    reached: dict[Node, set[str]] = {h: {region.names[h][-1]} for h in region.heads}
    for node in region.absorbed:
        reached[node] = set().union(*(reached.get(n, set()) for n in node.all_input_nodes))
        if len(reached[node]) == 2:
            return True
    return False
