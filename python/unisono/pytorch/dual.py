"""Pairs of products that one kernel computes: SwiGLU, GEGLU and their kin in the forms in which programs write them;
and pairs of convolutions, as PixelCNN and WaveNet have them.

Two linear layers, or convolutions, of one input; or one of twice the width whose result is cut in two: by halves
(chunk, split, slices) or, of a layer, by alternating columns (slices with a step of 2, or a view whose last extent is
2). A bias, added before the cut, is cut as the weight is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Iterator, Optional

from torch._guards import detect_fake_mode
from torch.fx import Node

from ..operands import Space
from . import shapes
from .anchors import is_last_example
from .products import ALIGNED, check_matrices
from .regions import FLOATS, RESHAPED, Refused, Region, aten, is_size, is_tensor, shape_of, source_of

PRODUCTS = (aten.mm.default, aten.addmm.default)
# Kinds of pairs that are made on a CPU. Two convolutions take no longer there by themselves (docs/notes/pytorch.md)
ON_A_CPU = frozenset({"gemm"})


@dataclass(frozen=True)
class Factors:
    """What a contraction multiplies, and adds to each column; how a filter moves."""

    first: Node
    second: Node
    bias: Optional[Node]
    moves: tuple = ()  # stride, padding, dilation of a convolution

    @property
    def columns(self) -> int:
        """Which axis of the second factor has the columns."""
        return 0 if self.moves else 1


@dataclass(frozen=True)
class Cut:
    """Columns start, start + step, … of a product of twice as many."""

    start: int
    step: int


def may_pair(node: Node) -> bool:
    """Whether it is of a kind that pairs are made of where it lies."""
    kind = "conv2d" if node.target is aten.convolution.default else "gemm" if node.target in PRODUCTS else None
    return kind is not None and is_tensor(node) and (kind in ON_A_CPU or node.meta["val"].device.type != "cpu")


def _factors(node: Node) -> Factors:
    if node.target is aten.mm.default:
        return Factors(*node.args, None)
    if node.target is aten.convolution.default:
        x, w, bias, stride, padding, dilation, transposed, _, groups = node.args
        if transposed or groups != 1 or len(stride) > 2:
            raise Refused(f"{node.name} is transposed, of volumes, or has groups")
        return Factors(x, w, bias, (tuple(stride), tuple(padding), tuple(dilation)))
    if any(node.kwargs.get(k, 1) != 1 for k in ("alpha", "beta")):
        raise Refused(f"{node.name} scales its product or its bias")
    return Factors(node.args[1], node.args[2], node.args[0])


def _is_same(x: Node, y: Node) -> bool:
    """Whether two nodes are the same value in the same shape."""
    return (
        x is y
        or source_of(x) is source_of(y)
        and shape_of(x) == shape_of(y)
        and all(n.target in RESHAPED for n in (x, y))
        and x.meta["val"].stride() == y.meta["val"].stride()
    )


def _region(heads: list[list[Node]], anchor: Node, factors: Factors, rights: list[Node], biases: list,
            without: frozenset, places: dict[Node, int]) -> Region:
    """acc0 and acc1 with their biases; heads: what is called so."""
    for node in (factors.first, *rights):
        if node.meta["val"].dtype not in FLOATS or node.meta["val"].dtype != anchor.meta["val"].dtype:
            raise Refused(f"{node.name} is {node.meta['val'].dtype}")
    make = _convolutions if factors.moves else _products
    region = make(anchor, factors, rights, [h for each in heads for h in each], without, places)
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


def _products(anchor: Node, factors: Factors, rights: list[Node], heads: list[Node], without: frozenset,
              _: dict[Node, int]) -> Region:
    rows, cols = shape_of(factors.first)[0], shape_of(rights[0])[1]
    region = Region(anchor, "gemm", factors.first, rights[0], Space(1, (rows,), cols, False, False, False),
                    third=rights[1], heads=heads, without=without)
    check_matrices(factors.first)
    if rights[0].meta["val"].device.type == "cuda" and not _is_taken_on_a_gpu(*rights):
        raise Refused(
            "right matrices of a dual product must be dense, or transposed weights of linear layers with padded "
            f"rows, and begin at a multiple of {ALIGNED} bytes"
        )
    return region


def _convolutions(anchor: Node, factors: Factors, rights: list[Node], heads: list[Node], without: frozenset,
                  places: dict[Node, int]) -> Region:
    n, _, *rows = shape_of(anchor)
    image, moves = factors.first, factors.moves
    if len(rows) == 1:  # a row of pixels is an image of one image row
        image, *rights = (_derived(one, anchor, places, (aten.unsqueeze.default, (2,))) for one in (image, *rights))
        rows, moves = [1, *rows], tuple((unmoved, *move) for unmoved, move in zip((1, 0, 1), moves))
    space = Space(n, tuple(rows), shape_of(rights[0])[0], True, is_last_example(image, rights[0]))
    return Region(anchor, "conv2d", image, rights[0], space, (*moves, 1), third=rights[1], heads=heads, without=without)


def _is_taken_on_a_gpu(first: Node, second: Node) -> bool:
    def is_taken(node: Node) -> bool:
        value = node.meta["val"]
        begins = value.storage_offset() * value.element_size()  # a half of a weight, where its columns are few
        return begins % ALIGNED == 0 and (value.stride()[0] == 1 or value.stride() == (shape_of(node)[1], 1))
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
    """Regions of two products, or convolutions, of which `node` is the first."""
    own = _factors(node)
    for other in nodes[places[node] + 1:]:
        if other.op != "call_function" or not may_pair(other) or other in taken:
            continue
        if (other.target is aten.convolution.default) != bool(own.moves):
            continue
        more = _factors(other)
        right, right1 = own.second, more.second
        alike = shape_of(right) == shape_of(right1) and right.meta["val"].stride() == right1.meta["val"].stride() \
            and right.meta["val"].dtype == right1.meta["val"].dtype and right is not right1 and own.moves == more.moves
        columns = (shape_of(right)[own.columns],)
        if not alike or not _is_same(own.first, more.first) or any(b is not None and shape_of(b) != columns
                                                                   for b in (own.bias, more.bias)):
            continue
        if not _depends_on(other, node, places):
            yield _region([[node], [other]], other, own, [right, right1], [own.bias, more.bias], without, places)


def _column_axis(node: Node, is_image: bool) -> int:
    return 1 if is_image else len(shape_of(node)) - 1


def _cut_of(user: Node, node: Node, width: int, is_image: bool) -> Any:
    """How a reader cuts the columns of a value of 2·width of them, its last extent or an image's channels: a Cut, a
    list of (node, Cut), or None if otherwise."""
    axis = _column_axis(node, is_image)
    last = {axis, axis - len(shape_of(node))}
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


def _pieces_of(view: Node, width: int, is_image: bool) -> Any:
    """For a view whose last extents, or first ones after the images, are (width, 2) or (2, width): its readers that
    select one of two; None if there is another."""
    rank = len(shape_of(view))
    begin = 1 if is_image else rank - 2
    extents, found = shape_of(view)[begin:begin + 2], []
    for place, extent in enumerate(extents):
        if extents == ((width, 2) if place else (2, width)):
            dims = {begin + place, begin + place - rank}
            for user in view.users:
                if user.target is aten.select.int and user.args[1] in dims:
                    found.append((user, Cut(user.args[2] % 2, 2) if place else Cut(user.args[2] % 2 * width, 1)))
                elif user.target is aten.unbind.int and (user.args[1] if len(user.args) > 1 else 0) in dims:
                    found += [(part, Cut(part.args[1], 2) if place else Cut(part.args[1] * width, 1))
                              for part in user.users]
                else:
                    return None
    return found or None


def _added_bias(user: Node, node: Node, width: int, is_image: bool) -> Optional[Node]:
    """The vector that is added to all columns of a product, if that is what the reader does."""
    if is_image or user.target is not aten.add.Tensor or user.kwargs:
        return None
    if user.args[0] is not node or not is_tensor(user.args[1]):
        return None
    return user.args[1] if shape_of(user.args[1]) == (2 * width,) else None


def _follow(node: Node, width: int, is_image: bool, hidden: list[Node], heads: dict[Node, Cut],
            biases: list[Node]) -> bool:
    """Collects what cuts a product, through views and an addition of a bias; whether all of its readers do."""
    for user in node.users:
        if is_size(user):
            continue
        cut = _cut_of(user, node, width, is_image)
        if isinstance(cut, Cut):
            heads[user] = cut
        elif isinstance(cut, list):
            hidden.append(user)
            heads.update(cut)
        elif user.target in RESHAPED and (pieces := _pieces_of(user, width, is_image)):
            hidden.extend([user, *(u for u in user.users if u.target is aten.unbind.int)])
            heads.update(pieces)
        elif not is_image and user.target in RESHAPED and shape_of(user) and shape_of(user)[-1] == 2 * width:
            hidden.append(user)
            if not _follow(user, width, is_image, hidden, heads, biases):
                return False
        elif (bias := _added_bias(user, node, width, is_image)) is not None and len(node.users) == 1 and not biases:
            hidden.append(user)
            biases.append(bias)
            if not _follow(user, width, is_image, hidden, heads, biases):
                return False
        else:
            return False
    return True


def halves_of(node: Node, places: dict[Node, int], without: frozenset) -> Optional[Region]:
    """The region of a product, or a convolution, whose result is cut in two; None if it is not. Slices of weight and
    bias are put into the graph, where they are views; without the region nothing reads them."""
    factors = _factors(node)
    right, is_image = factors.second, bool(factors.moves)
    columns = shape_of(right)[factors.columns]
    if not isinstance(columns, int) or columns % 2:
        return None
    width, hidden, cuts, biases = columns // 2, [node], {}, [] if factors.bias is None else [factors.bias]
    if not _follow(node, width, is_image, hidden, cuts, biases) or any(shape_of(b) != (columns,) for b in biases):
        return None
    parts = sorted(set(cuts.values()), key=lambda cut: cut.start)
    halves, alternating = [Cut(0, 1), Cut(width, 1)], [Cut(0, 2), Cut(1, 2)]
    if parts != halves and (is_image or parts != alternating):  # filters are dense
        return None
    heads = [[n for n, cut in cuts.items() if cut == part] for part in parts]
    rights = [_sliced(right, factors.columns, part, node, places) for part in parts]
    vectors = [_sliced(biases[0], 0, part, node, places) if biases else None for part in parts]
    region = _region(heads, node, factors, rights, vectors, without, places)
    region.hidden = [n for n in hidden if n not in region.heads]
    return region


def _sliced(node: Node, dim: int, cut: Cut, anchor: Node, places: dict[Node, int]) -> Node:
    """A part of a weight or bias. Vectors are made dense: a kernel reads no others."""
    columns = shape_of(node)[dim]
    stop = columns if cut.step == 2 else cut.start + columns // 2
    steps = [(aten.slice.Tensor, (dim, cut.start, stop, cut.step))]
    if len(shape_of(node)) == 1 and cut.step == 2:
        steps.append((aten.clone.default, ()))
    return _derived(node, anchor, places, *steps)


def _derived(node: Node, anchor: Node, places: dict[Node, int], *steps: tuple) -> Node:
    """What steps (operation, further arguments) make of a value: new nodes before the anchor, or after what comes
    later."""
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
