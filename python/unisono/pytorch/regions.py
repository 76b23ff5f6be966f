"""Regions of an ATen graph: a contraction and the largest legal epilogue behind it, as the text of a graph.

The graph must be functional, as AOTAutograd makes it. Nothing is reordered: a region becomes one call where its last
operand is known, and is cut back until every reader of its results stands behind that place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import torch
from torch.fx import Node

from ..operands import Space, _pattern
from ..tensors import torch_dtypes

aten, prims = torch.ops.aten, torch.ops.prims
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SAME = (aten.alias.default, aten.detach.default, aten.clone.default)
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
ALIASES = (aten.alias.default, aten.detach.default, *VIEWS)  # their results share memory with what they read
CASTS = (aten._to_copy.default, prims.convert_element_type.default)
UNARY = {
    aten.relu.default: "relu", aten.sigmoid.default: "sigmoid", aten.tanh.default: "tanh", aten.silu.default: "silu",
    aten.mish.default: "mish", aten.hardswish.default: "hardswish", aten.hardsigmoid.default: "hardsigmoid",
    aten.exp.default: "exp", aten.log.default: "log", aten.log1p.default: "log1p", aten.abs.default: "abs",
    aten.sqrt.default: "sqrt", aten.rsqrt.default: "rsqrt", aten.reciprocal.default: "reciprocal", aten.neg.default: "neg",
    aten.erf.default: "erf", aten.sin.default: "sin", aten.cos.default: "cos",
}
BINARY = {
    aten.add.Tensor: "+", aten.sub.Tensor: "-", aten.mul.Tensor: "*", aten.div.Tensor: "/", aten.add.Scalar: "+",
    aten.sub.Scalar: "-", aten.mul.Scalar: "*", aten.div.Scalar: "/", aten.maximum.default: "max", aten.minimum.default: "min",
}


class Refused(Exception):
    """Why a node is no part of a region."""


def shape_of(node: Node) -> tuple:
    return tuple(node.meta["val"].shape)


def is_static(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and all(isinstance(e, int) for e in (*value.shape, *value.stride()))


def _number(x: Any) -> str:
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return repr(float(x))
    raise Refused(f"an argument {x!r} that is no number")


@dataclass
class Region:
    """An anchor and the nodes behind it that become one call."""

    anchor: Node
    kind: str  # conv2d or gemm
    first: Node
    second: Node
    space: Space
    moves: tuple = ()  # stride, padding, dilation, groups
    lines: list[tuple[Node, str]] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)  # values of the region
    operands: dict[Node, tuple[str, str]] = field(default_factory=dict)  # {node: (name, axes)}
    history: list[tuple[int, int]] = field(default_factory=list)  # lines and operands ahead of each absorbed node
    absorbed: list[Node] = field(default_factory=list)

    def axes_of(self, node: Node) -> str:
        """The axes of a tensor that broadcasts to this region's values. Raises Refused."""
        shape, space = shape_of(node), self.space
        if self.kind == "gemm" and len(shape) and shape[-1] == space.cols and node.meta["val"].numel() == space.row_count * space.cols:
            return "mn"
        rank = 1 + len(space.rows) + 1 if self.kind == "conv2d" or space.is_batched else None
        if rank is None:  # rows may be seen as several extents
            if all(e == 1 for e in shape[:-1]) and (not shape or shape[-1] in (1, space.cols)):
                return "n" if shape and shape[-1] == space.cols else ""
            raise Refused(f"operand {node.name} of shape {shape} does not broadcast along rows or columns alone")
        padded = (1,) * (rank - len(shape)) + shape
        for axes in ("", "n", "bn", "mn", "b", "m"):
            if padded == _pattern(space, axes):
                if axes == "m" and not node.meta["val"].is_contiguous():
                    break
                return axes
        raise Refused(f"operand {node.name} of shape {shape} does not broadcast to values of shape {space.shape_mn}")

    def value(self, x: Any, axes: Optional[str] = None) -> str:
        """The text of an argument: a value, an operand, or a number."""
        if not isinstance(x, Node):
            return _number(x)
        if x in self.names:
            return self.names[x]
        if axes is None and x in self.operands:
            axes = self.axes_of(x)  # this time it broadcasts: [n] may be a tensor along the width here
        if x not in self.operands:
            if not is_static(x) or x.meta["val"].dtype not in FLOATS:
                raise Refused(f"operand {x.name} is no floating-point tensor of known shape")
            if x.meta["val"].device != self.anchor.meta["val"].device:
                raise Refused(f"operand {x.name} lies on {x.meta['val'].device}")
            self.operands[x] = f"o{len(self.operands)}", axes or self.axes_of(x)
        name, found = self.operands[x]
        if axes is not None and axes != found:
            raise Refused(f"operand {x.name} is read in two ways")
        return f"{name}[{','.join(found)}]"

    def absorb(self, node: Node) -> None:
        """Takes a node in. Raises Refused, and changes nothing then."""
        before = len(self.lines), len(self.operands)
        try:
            text = expression(self, node)
            name = f"v{len(self.absorbed)}"
            self.lines.append((node, f"{name} = {text}"))
        except Refused:
            self._forget(before)
            raise
        self.names[node] = name
        self.history.append(before)
        self.absorbed.append(node)

    def drop_last(self) -> None:
        del self.names[self.absorbed.pop()]
        self._forget(self.history.pop())

    def _forget(self, before: tuple[int, int]) -> None:
        del self.lines[before[0]:]
        for late in list(self.operands)[before[1]:]:
            del self.operands[late]

    def escaping(self) -> list[Node]:
        """Values that nodes outside read."""
        return [n for n in (self.anchor, *self.absorbed)
                if any(user not in self.names for user in n.users) and not _is_tuple(n)]

    def results(self) -> list[Node]:
        """The stores: each value that escapes, once for all of its aliases."""
        return list(dict.fromkeys(source_of(n) for n in self.escaping()))

    def text(self) -> str:
        kinds = torch_dtypes()
        lines = [line for _, line in self.lines]
        for i, node in enumerate(self.results()):
            lines.append(f"store {self.names[node]} as y{i} : {kinds[node.meta['val'].dtype].name}")
        return "\n".join(lines) + "\n"


def source_of(node: Node) -> Node:
    """The value of which a node is an alias or a view, or the node itself."""
    while node.target in ALIASES:
        node = node.args[0]
    return node


def _is_tuple(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (tuple, list))


def _norm(region: Region, name: str, x: str, scale: Any, shift: Any, rest: str) -> str:
    parts = [x] + ([rest] if rest else [])
    if scale is not None:
        parts.append(f"scale={region.value(scale, 'n')}")
    if shift is not None:
        parts.append(f"shift={region.value(shift, 'n')}")
    return f"{name}({', '.join(parts)})"


def _group_norm(region: Region, node: Node) -> str:
    x, scale, shift, _, channels, _, groups, eps = node.args
    if region.kind != "conv2d" or channels != region.space.cols or x not in region.names:
        raise Refused("a group_norm of something else than the convolution's channels")
    return _norm(region, "group_norm", region.names[x], scale, shift, f"groups={groups}, eps={float(eps)!r}")


def _layer_norm(region: Region, node: Node) -> str:
    x, extents, scale, shift, eps = node.args
    if region.kind != "gemm" or list(extents) != [region.space.cols] or x not in region.names:
        raise Refused("a layer_norm over something else than the columns of a product")
    return _norm(region, "layer_norm", region.names[x], scale, shift, f"eps={float(eps)!r}")


def _clamp(region: Region, node: Node) -> str:
    low = node.args[1] if len(node.args) > 1 and node.target is not aten.clamp_max.default else None
    high = node.args[1] if node.target is aten.clamp_max.default else node.args[2] if len(node.args) > 2 else None
    if node.target is aten.hardtanh.default:
        low, high = (*node.args, -1.0, 1.0)[1:3] if len(node.args) == 1 else (node.args[1], node.args[2])
    limits = [f"{n}={_number(v)}" for n, v in (("lower", low), ("upper", high)) if v is not None]
    return f"clamp({', '.join([region.value(node.args[0]), *limits])})"


def _power(region: Region, node: Node) -> str:
    x, exponent = node.args
    special = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
    return f"{special}({region.value(x)})" if special else f"pow({region.value(x)}, {_number(exponent)})"


def _gelu(region: Region, node: Node) -> str:
    name = "gelu_tanh" if node.kwargs.get("approximate", "none") == "tanh" else "gelu"
    return f"{name}({region.value(node.args[0])})"


def _leaky_relu(region: Region, node: Node) -> str:
    return f"leaky_relu({region.value(node.args[0])}, slope={_number(node.args[1] if len(node.args) > 1 else 0.01)})"


def _cast(region: Region, node: Node) -> str:
    """Rounded as the cast says; computed in f32 further on."""
    source, dtype = node.args[0], node.meta["val"].dtype
    if set(node.kwargs) - {"dtype", "memory_format", "layout", "device", "pin_memory"} or dtype not in FLOATS:
        raise Refused(f"a cast to {dtype}")
    if node.meta["val"].device != source.meta["val"].device:
        raise Refused("a copy to another device")
    x = region.value(source)
    return x if dtype == torch.float32 else f"cast(cast({x}, {torch_dtypes()[dtype].name}), f32)"


SPECIAL: dict[Any, Callable[[Region, Node], str]] = {
    aten.native_group_norm.default: _group_norm, aten.native_layer_norm.default: _layer_norm, aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp, aten.clamp_max.default: _clamp, aten.hardtanh.default: _clamp,
    aten.pow.Tensor_Scalar: _power, aten.gelu.default: _gelu, aten.leaky_relu.default: _leaky_relu,
    **{cast: _cast for cast in CASTS},
}


def _getitem(region: Region, node: Node) -> str:
    source, index = node.args
    if source not in region.names or index != 0:
        raise Refused("statistics of a normalisation that are read")
    return region.names[source]


def expression(region: Region, node: Node) -> str:
    """The text of one node over the values of the region. Raises Refused."""
    target = node.target
    if getattr(target, "__name__", "") == "getitem":
        return _getitem(region, node)
    if target in (aten.native_group_norm.default, aten.native_layer_norm.default):
        if any(user.args[1] != 0 for user in node.users):
            raise Refused("statistics of a normalisation that are read")
        return SPECIAL[target](region, node)
    if not is_static(node) or node.meta["val"].dtype not in FLOATS:
        raise Refused(f"{node.name} is no floating-point tensor of known shape")
    _check_shape(region, node)
    if target in SAME or target in VIEWS:
        return region.value(node.args[0])
    if target in SPECIAL:
        return SPECIAL[target](region, node)
    if target in UNARY:
        return f"{UNARY[target]}({region.value(node.args[0])})"
    if target in BINARY:
        if set(node.kwargs) - {"alpha"}:
            raise Refused(f"{target} with {', '.join(node.kwargs)}")
        x, y = (region.value(a) for a in node.args[:2])
        alpha = node.kwargs.get("alpha", 1)
        y = y if alpha == 1 else f"{_number(alpha)} * {y}"
        operation = BINARY[target]
        return f"{x} {operation} {y}" if operation in "+-*/" else f"{operation}({x}, {y})"
    raise Refused(f"{target} is none of the operations that epilogues have here")


def _check_shape(region: Region, node: Node) -> None:
    shape, space, value = shape_of(node), region.space, node.meta["val"]
    if not value.is_contiguous() and not (region.kind == "conv2d" and value.is_contiguous(memory_format=torch.channels_last)):
        raise Refused(f"{node.name} has strides {tuple(value.stride())}; results are contiguous, or channels last")
    if shape == space.shape_mn:
        return
    views = region.kind == "gemm" and not space.is_batched
    if not views or not shape or shape[-1] != space.cols or node.meta["val"].numel() != space.row_count * space.cols:
        raise Refused(f"{node.name} has shape {shape}, the contraction {space.shape_mn}")
