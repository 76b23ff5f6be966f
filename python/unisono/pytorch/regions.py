"""Regions of an ATen graph: a contraction and the largest legal epilogue after it, as the text of a graph.

The graph must be functional, as AOTAutograd makes it. Nothing is reordered: a region becomes one call where its last
operand is known, and is cut back until every reader of its results comes after that place.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import torch
from torch.fx import Node

from ..operands import Space
from ..tensors import torch_dtypes
from . import shapes

aten, prims = torch.ops.aten, torch.ops.prims
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
RESHAPED = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
            aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
TURNED = (aten.permute.default, aten.transpose.int, aten.t.default)
# their results share memory with what they read
ALIASES = (aten.alias.default, aten.detach.default, *RESHAPED, *TURNED)
CASTS = (aten._to_copy.default, prims.convert_element_type.default)
# A backward pass reads the results of these, which are stored, and what they are of, stored or computed again
SAVED_STATISTICS = (aten.var_mean.correction, aten.amax.default)
CONSTANTS = (aten.full.default, aten.scalar_tensor.default)
OPERANDS = ("", "n", "bn", "mn", "b", "m")


class Refused(Exception):
    """Why a node cannot be part of a region."""


def shape_of(node: Node) -> tuple:
    return tuple(node.meta["val"].shape)


def hinted(node: Node) -> tuple:
    """The shape of the example. Raises Refused where nobody knows it."""
    found = tuple(shapes.hint(e) for e in shape_of(node))
    if None in found:
        raise Refused(f"{node.name} has shape {shape_of(node)}, for which no example is known")
    return found


def is_tensor(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(node.meta.get("val"), torch.Tensor)


def number(x: Any) -> str:
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return repr(float(x))
    raise Refused(f"argument {x!r} is not a number")


def is_size(node: Node) -> bool:
    """Whether a node asks for an extent, which is known without the values."""
    return node.target is aten.sym_size.int


def is_tuple(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (tuple, list))


def extent_of(argument: Any) -> Any:
    """An extent as an operator is given it: one that varies is a node."""
    return shapes.expression_of(argument.meta["val"] if isinstance(argument, Node) else argument)


def repeated(node: Node, space: Space) -> Optional[Node]:
    """The vector [n] that a value [b,n] repeats for each image: an instance norm's scale is written out so."""
    while node.target in RESHAPED:
        node = node.args[0]
    if node.target is not aten.repeat.default or len(node.args[1]) != 1 or shape_of(node.args[0]) != (space.cols,):
        return None
    return node.args[0] if extent_of(node.args[1][0]) == shapes.expression_of(space.images) else None


def is_copy(node: Node) -> bool:
    """Whether a node is a view, a copy, or a part of a tuple."""
    return getattr(node.target, "is_view", False) or node.target in (aten.clone.default, operator.getitem)


def source_of(node: Node) -> Node:
    """The value of which a node is an alias or a view, or the node itself."""
    while node.target in ALIASES:
        node = node.args[0]
    return node


# In the meta of a call: whether its kernel reads an image that is channels of a wider one
TAKES_SLICES = "unisono takes slices"
REPLACES = "unisono replaces"  # in the meta of a call that writes into a concatenation: the name of the region's call


@dataclass
class Region:
    """An anchor and the nodes after it that become one call."""

    anchor: Node
    kind: str  # conv2d or gemm
    first: Node
    second: Node
    space: Space
    moves: tuple = ()  # stride, padding, dilation, groups
    lines: list[tuple[Node, str]] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)  # values of the region
    dims: dict[Node, shapes.Dims] = field(default_factory=dict)  # how they lie in its space
    operands: dict[tuple[Node, str], str] = field(default_factory=dict)  # {(node, axes): name}
    placed: dict[Node, shapes.Dims] = field(default_factory=dict)  # how operands [m,n] lie
    history: list[tuple[int, int]] = field(default_factory=list)  # lines and operands before each absorbed node
    absorbed: list[Node] = field(default_factory=list)
    without: frozenset = frozenset()  # kinds of fusion that are switched off
    third: Optional[Node] = None  # the second right matrix, or filter, of a pair
    # values that the contraction itself gives: the anchor; of a pair its two results
    heads: list[Node] = field(default_factory=list)
    output_padding: Optional[tuple] = None  # of a transposed convolution; None of others
    # {node: (form, the value that is stored so)}: pooled and upsampled values
    forms: dict[Node, tuple] = field(default_factory=dict)
    hidden: list[Node] = field(default_factory=list)  # what a pair replaces and nothing else reads
    left: dict[Node, str] = field(default_factory=dict)  # why a node that reads a value of the region is not part of it
    call: Optional[Node] = None  # what stands in its place
    takes_slices: bool = True  # whether its kernel reads an image that is channels of a wider one

    def __post_init__(self) -> None:
        self.heads = self.heads or [self.anchor]

    @property
    def values(self) -> list[Node]:
        """All that is computed here and has a name."""
        return [*self.heads, *self.absorbed]

    @property
    def members(self) -> list[Node]:
        """All nodes that the call replaces."""
        return [*self.hidden, *self.values]

    @property
    def factors(self) -> list[Node]:
        """What is multiplied."""
        return [self.first, self.second, *([self.third] if self.third is not None else [])]

    @property
    def whole(self) -> shapes.Dims:
        return shapes.of_space(self.space)

    def axes_of(self, node: Node, dims: shapes.Dims) -> str:
        """The axes of a tensor that broadcasts to values that lie as `dims`. Raises Refused."""
        shape, space = shape_of(node), self.space
        padded = (*((1,) * (len(dims) - len(shape))), *map(shapes.expression_of, shape))
        own = tuple(() if extent == 1 else dim for extent, dim in zip(padded, dims))
        axes = shapes.axes_of(own, space) if len(padded) == len(dims) and shapes.extents_of(own) == padded else None
        if axes == "mn" and self.placed.setdefault(node, own) != own:
            raise Refused(f"operand {node.name} is read along its rows and along its columns")
        if axes not in OPERANDS or axes != "mn" and not shapes.is_in_order(own, space):
            raise Refused(
                f"operand {node.name} of shape {shape} does not broadcast to values of shape {space.shape_mn} "
                "along rows, columns or images alone"
            )
        return axes

    def value(self, x: Any, dims: Optional[shapes.Dims] = None, axes: Optional[str] = None) -> str:
        """The text of an argument: a value, a number, or an operand of these axes, or as it broadcasts to `dims`."""
        if not isinstance(x, Node):
            return number(x)
        if x in self.names:
            return self.names[x]
        if x.target in CONSTANTS:
            return number(x.args[1] if x.target is aten.full.default else x.args[0])
        if not is_tensor(x) or x.meta["val"].dtype not in FLOATS:
            raise Refused(f"operand {x.name} is not a floating-point tensor")
        if x.meta["val"].device != self.anchor.meta["val"].device:
            raise Refused(f"operand {x.name} is on {x.meta['val'].device}")
        if "operands" in self.without and axes is None:
            raise Refused(f"{x.name} is a tensor, and without=('operands',) allows only biases")
        axes = self.axes_of(x, self.whole if dims is None else dims) if axes is None else axes
        if axes == "bn" and (vector := repeated(x, self.space)) is not None:
            x, axes = vector, "n"
        name = self.operands.setdefault((x, axes), f"o{len(self.operands)}")
        return f"{name}[{','.join(axes)}]"

    def absorb(self, node: Node, write: Callable[[Region, Node], tuple[str, shapes.Dims]]) -> None:
        """Takes a node in. write: its text and how its result lies. Raises Refused, and changes nothing then."""
        before = len(self.lines), len(self.operands)
        try:
            text, dims = write(self, node)
        except Refused:
            self._forget(before)
            raise
        name = f"v{len(self.absorbed)}"
        self.lines.append((node, f"{name} = {text}" if text else ""))
        self.names[node], self.dims[node] = name, dims
        self.history.append(before)
        self.absorbed.append(node)

    def drop_last(self, why: str) -> None:
        node = self.absorbed.pop()
        self.left[node] = why
        del self.names[node], self.dims[node]
        self.forms.pop(node, None)
        self._forget(self.history.pop())

    def _forget(self, before: tuple[int, int]) -> None:
        del self.lines[before[0]:]
        for late in list(self.operands)[before[1]:]:
            del self.operands[late]

    def escaping(self) -> list[Node]:
        """Values that nodes outside read."""
        return [n for n in self.values
                if any(user not in self.names and not is_size(user) for user in n.users) and not is_tuple(n)]

    def sizes(self) -> list[Node]:
        """Nodes outside that ask for extents of the region's values."""
        return [user for n in self.members for user in n.users if is_size(user)]

    def results(self) -> list[Node]:
        """The stores: each value that escapes, once for all of its aliases."""
        escaping = self.escaping()
        alone = {source: [n for n in escaping if source_of(n) is source] for source in map(source_of, escaping)}
        stored = [found[0] if len(found) == 1 and source not in escaping else source for source, found in alone.items()]
        # stored whole, too
        whole = [x for n, (form, x) in self.forms.items() if n in stored and form == "max_pool_2x2"]
        return stored + [
            x
            for x in dict.fromkeys(whole)
            if not any(self.names[n] == self.names[x] for n in stored if n not in self.forms)
        ]

    def is_full(self, node: Node) -> bool:
        """Whether a value has an element for each row and column."""
        return node not in self.forms and shapes.product(shape_of(node)) == shapes.product(self.space.shape_mn)

    def unstorable(self) -> Optional[str]:
        """Why a result cannot be stored where and as PyTorch would have it, or None."""
        for node in self.results():
            value, dims = node.meta["val"], self.dims[node]
            if value.dtype not in FLOATS:
                return f"{node.name} is {value.dtype}, and read outside"
            is_small = not self.is_full(node) and node not in self.forms
            if is_small and (not shapes.is_stored_in_order(dims) or shapes.axes_of(dims, self.space) is None):
                return (f"{node.name} of shape {tuple(value.shape)} has its axes in another order than the "
                        "contraction's values")
            if self.order_of(node) is None:
                return f"{node.name} has strides {tuple(value.stride())}; results are contiguous, or channels last"
        return None

    def order_of(self, node: Node) -> Optional[torch.memory_format]:
        """The memory format in which the result must lie so that a view of it has the node's strides; None if there is
        none."""
        wanted, shape = [shapes.hint(s) for s in node.meta["val"].stride()], hinted(node)
        if node in self.forms:
            return next(
                (
                    order
                    for order in (torch.contiguous_format, torch.channels_last)
                    if all(
                        s == w
                        for s, w, e in zip(
                            torch.empty(shape, device="meta", memory_format=order).stride(), wanted, shape
                        )
                        if e != 1
                    )
                ),
                None,
            )
        stored = tuple(shapes.hint(e) for e in self.space.shape_mn) if self.is_full(node) else shape
        split, permutation = shapes.turned(self.dims[node], self.space)
        is_turned = self.is_full(node) and permutation != tuple(range(len(permutation)))
        if is_turned and not all(isinstance(e, int) for e in split):
            return None
        for order in (torch.contiguous_format, torch.channels_last):
            if order is torch.channels_last and (self.kind != "conv2d" or len(stored) != 4):
                continue
            found = torch.empty(stored, device="meta", memory_format=order)
            try:
                found = (found.view(split).permute(permutation) if is_turned else found).view(shape)
            except (RuntimeError, ValueError):
                continue
            if all(s == w for s, w, e in zip(found.stride(), wanted, shape) if e != 1):
                return order
        return None

    def rounded(self) -> list[Node]:
        """Values that are stored in 16 bits, of which statistics are computed that are stored as well: a mean and a
        variance, or the largest element, as a softmax takes it. A backward pass normalises what it computes of the
        stored value: by a statistic of anything else, gradients that cancel do not, as that of a bias before a norm.
        """
        results = self.results()
        stored = {source_of(n) for n in results if n.meta["val"].dtype.itemsize == 2}
        if all(self.is_full(n) or n in self.forms for n in results):
            return []
        waiting = [node.args[0] for node in self.absorbed if node.target in SAVED_STATISTICS]
        behind = set[Node]()  # what statistics are computed of
        while waiting:
            node = waiting.pop()
            if node in self.names and node not in behind:
                behind.add(node)
                waiting += [] if node in self.heads else node.all_input_nodes
        return [node for node in self.values if node in behind and node in stored]

    def _rounded_lines(self) -> tuple[list[str], dict[str, str]]:
        """The lines, where values of rounded() are rounded once they are computed; and their other names."""
        kinds = torch_dtypes()
        dtypes = {self.names[node]: kinds[node.meta["val"].dtype].name for node in self.rounded()}
        made = [line.partition(" = ")[::2] for _, line in self.lines if line]
        computed = {name for name, _ in made}
        first, other, lines = [], dict[str, str](), []
        for i, name in enumerate(n for n in dtypes if n not in computed):  # what the contraction itself gives
            other[name] = f"stored{i}"
            first.append(f"stored{i} = cast(cast({name}, {dtypes[name]}), f32)")
        for name, expression in made:
            for old, new in other.items():
                expression = re.sub(rf"\b{old}\b", new, expression)
            if name in dtypes:
                expression = f"cast(cast({expression}, {dtypes[name]}), f32)"
            lines.append(f"{name} = {expression}")
        return first + lines, other

    def text(self) -> str:
        kinds = torch_dtypes()
        lines, other = self._rounded_lines()
        for i, node in enumerate(self.results()):
            name = other.get(self.names[node], self.names[node])
            value = f"{self.forms[node][0]}({name})" if node in self.forms else name
            lines.append(f"store {value} as y{i} : {kinds[node.meta['val'].dtype].name}")
        return "\n".join(lines) + "\n"
