"""One node of an ATen graph over the values of a region, as a line of an epilogue's text."""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch.fx import Node

from ..tensors import torch_dtypes
from . import forms, shapes
from .regions import (CASTS, FLOATS, RESHAPED, TURNED, Refused, Region, aten, extent_of, is_tensor, is_tuple, number,
                      shape_of)

SAME = (aten.alias.default, aten.detach.default, aten.clone.default)
UNARY = {
    aten.relu.default: "relu", aten.sigmoid.default: "sigmoid", aten.tanh.default: "tanh", aten.silu.default: "silu",
    aten.mish.default: "mish", aten.hardswish.default: "hardswish", aten.hardsigmoid.default: "hardsigmoid",
    aten.exp.default: "exp", aten.log.default: "log", aten.log1p.default: "log1p", aten.abs.default: "abs",
    aten.sqrt.default: "sqrt", aten.rsqrt.default: "rsqrt", aten.reciprocal.default: "reciprocal",
    aten.neg.default: "neg", aten.erf.default: "erf", aten.sin.default: "sin", aten.cos.default: "cos",
    aten.square.default: "square", aten.softplus.default: "softplus", aten.log_sigmoid_forward.default: "logsigmoid",
}
BINARY = {
    aten.add.Tensor: "+", aten.sub.Tensor: "-", aten.mul.Tensor: "*", aten.div.Tensor: "/", aten.add.Scalar: "+",
    aten.sub.Scalar: "-", aten.mul.Scalar: "*", aten.div.Scalar: "/", aten.maximum.default: "max",
    aten.minimum.default: "min",
}
COMPARISONS = {
    op: sign
    for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="))
    for op in (getattr(getattr(aten, name), "Tensor"), getattr(getattr(aten, name), "Scalar"))
}
REDUCTIONS = {aten.mean.dim: "mean", aten.mean.default: "mean", aten.sum.dim_IntList: "sum", aten.sum.default: "sum",
              aten.amax.default: "max", aten.amin.default: "min"}
STATISTICS = (aten.var_mean.correction, aten.native_group_norm.default, aten.native_layer_norm.default)
# What `without` switches off; operands and anchors are looked at where they are found
FUSIONS = ("convolutions", "products", "normalisations", "activations", "operands", "casts", "backward", "pairs",
           "resampling", "concatenations", "networks")


def joined(region: Region, node: Node, *arguments: Any) -> shapes.Dims:
    """How an elementwise result lies. Raises Refused."""
    inner = [region.dims[a] for a in arguments if isinstance(a, Node) and a in region.dims]
    shape = tuple(map(shapes.expression_of, shape_of(node)))
    dims = shapes.joined(inner, len(shape))
    if (
        dims is not None
        and shapes.extents_of(dims) != shape
        and shape == tuple(map(shapes.expression_of, region.space.shape_mn))
    ):
        dims = shapes.joined([dims, region.whole], len(shape))  # the rest is another tensor's
    if dims is None or shapes.extents_of(dims) != shape:
        raise Refused(f"{node.name} has shape {shape_of(node)}, the contraction {region.space.shape_mn}")
    return dims


def _unary(region: Region, node: Node) -> tuple:
    x = node.args[0]
    if node.target is aten.softplus.default and len(node.args) > 1:
        raise Refused("a softplus with beta or threshold other than the defaults")
    return f"{UNARY[node.target]}({region.value(x)})", joined(region, node, x)


def _binary(region: Region, node: Node) -> tuple:
    if set(node.kwargs) - {"alpha"}:
        raise Refused(f"{node.target} with {', '.join(node.kwargs)}")
    dims = joined(region, node, *node.args[:2])
    x, y = (region.value(a, dims) for a in node.args[:2])
    alpha = node.kwargs.get("alpha", 1)
    y = y if alpha == 1 else f"{number(alpha)} * {y}"
    sign = BINARY.get(node.target) or COMPARISONS[node.target]
    return (f"{sign}({x}, {y})" if sign in ("max", "min") else f"{x} {sign} {y}"), dims


def _comparison(region: Region, node: Node) -> tuple:
    if any(user.target is not aten.where.self for user in node.users):
        raise Refused(f"{node.name} is a comparison whose result is read")
    return _binary(region, node)


def _where(region: Region, node: Node) -> tuple:
    condition, x, y = node.args
    if condition not in region.names:
        raise Refused(f"the condition {condition.name} is not a value of the region")
    dims = joined(region, node, condition, x, y)
    if softened := _softplus(condition, x, y):
        return f"softplus({region.value(softened)})", dims
    return f"select({region.value(condition)}, {region.value(x, dims)}, {region.value(y, dims)})", dims


def _softplus(condition: Node, x: Any, y: Any) -> Any:
    """x of where(x > threshold, x, log1p(exp(x))), as PyTorch writes softplus out."""
    if (
        condition.target is aten.gt.Scalar
        and condition.args[0] is x
        and condition.args[1] >= 15
        and isinstance(y, Node)
        and y.target is aten.log1p.default
        and y.args[0].target is aten.exp.default
        and y.args[0].args[0] is x
    ):
        return x
    return None


def _same(region: Region, node: Node) -> tuple:
    return region.value(node.args[0]), region.dims[node.args[0]]


def _reshaped(region: Region, node: Node) -> tuple:
    dims = shapes.viewed(region.dims[node.args[0]], shape_of(node))
    if dims is None:
        raise Refused(f"{node.name} of shape {shape_of(node)} puts parts of two axes into one extent")
    return region.names[node.args[0]], dims


def _turned(region: Region, node: Node) -> tuple:
    dims, rank = region.dims[node.args[0]], len(region.dims[node.args[0]])
    order = list(range(rank))
    if node.target is aten.permute.default:
        order = [d % rank for d in node.args[1]]
    else:
        i, j = (
            (0, 1)
            if node.target is aten.t.default and rank == 2
            else (d % rank for d in node.args[1:])
            if rank
            else (0, 0)
        )
        order[i], order[j] = order[j], order[i]
    return region.names[node.args[0]], tuple(dims[i] for i in order)


def _is_part_of_an_elu(node: Node) -> bool:
    """Whether where(x > 0, x, expm1(x) * alpha), or without alpha, is all that reads it."""
    scaled = [n for n in node.users if n.target is aten.mul.Tensor and not is_tensor(n.args[1])]
    return all(n.target is aten.where.self or n in scaled for n in node.users) and all(map(_is_part_of_an_elu, scaled))


def _exponential_less_one(region: Region, node: Node) -> tuple:
    """exp(x) - 1 cancels near 0: it stands where passes make an ELU of it. Else elu(x), which is expm1 below 0; above,
    expm1(x) = -exp(x) expm1(-x)."""
    x, dims = region.value(node.args[0]), joined(region, node, node.args[0])
    if _is_part_of_an_elu(node):
        return f"exp({x}) - 1", dims
    return f"select({x} > 0, -(exp({x}) * elu(-{x})), elu({x}))", dims


def _norm(region: Region, name: str, x: str, scale: Any, shift: Any, rest: str) -> str:
    parts = [x] + ([rest] if rest else [])
    if scale is not None:
        parts.append(f"scale={region.value(scale, axes='n')}")
    if shift is not None:
        parts.append(f"shift={region.value(shift, axes='n')}")
    return f"{name}({', '.join(parts)})"


def _group_norm(region: Region, node: Node) -> tuple:
    x, scale, shift, images, channels, _, groups, eps = node.args
    space = region.space
    shape = tuple(map(shapes.expression_of, shape_of(x)[:2]))  # the pixels may be one extent, as attention has them
    is_image = region.kind == "conv2d" and shape == tuple(map(shapes.expression_of, (space.images, space.cols))) and \
        (extent_of(images), extent_of(channels)) == shape
    if not is_image or region.dims.get(x) != shapes.viewed(region.whole, shape_of(x)):
        raise Refused("a group_norm of something else than the convolution's channels")
    return _norm(
        region, "group_norm", region.names[x], scale, shift, f"groups={groups}, eps={float(eps)!r}"
    ), region.dims[x]


def _layer_norm(region: Region, node: Node) -> tuple:
    x, extents, scale, shift, eps = node.args
    last = region.dims[x][-1] if x in region.dims else ()
    if (
        len(extents) != 1
        or not last
        or [p.axis for p in last] != ["n"]
        or shapes.product([p.extent for p in last]) != shapes.expression_of(region.space.cols)
    ):
        raise Refused("a layer_norm over something else than the columns of the contraction")
    return _norm(region, "layer_norm", region.names[x], scale, shift, f"eps={float(eps)!r}"), region.dims[x]


def _whole_norm(region: Region, node: Node) -> tuple:
    if any(user.args[1] != 0 for user in node.users):
        raise Refused("statistics of a normalisation that are read")
    return (_group_norm if node.target is aten.native_group_norm.default else _layer_norm)(region, node)


def _over(region: Region, node: Node, dims: Any, keep: bool) -> tuple[str, shapes.Dims]:
    """Over what a reduction runs, as the text says it, and how its result lies. Raises Refused."""
    x, space = region.dims[node.args[0]], region.space
    rank = len(x)
    reduced = set(range(rank)) if not dims else {d % rank for d in dims}
    gone = shapes.merged([p for i in reduced for p in x[i]])
    left = tuple(() if i in reduced else dim for i, dim in enumerate(x))
    result = left if keep else tuple(dim for i, dim in enumerate(left) if i not in reduced)
    axes, by = shapes.axes_of(left, space), {p.axis for p in gone}
    before = shapes.axes_of(x, space)
    if axes is None or before is None:
        raise Refused(f"{node.name} runs over a part of the rows or columns")
    rows, cols = "m" in before and "m" not in axes, "n" in by
    if not rows and "b" in before and "b" not in axes:
        raise Refused(f"{node.name} runs over images of a value that has no rows")
    parts = (["m"] if rows else []) + (["n"] if cols else [])
    if not parts:
        raise Refused(f"{node.name} runs over extents of 1 alone")
    text = f"over=({','.join(parts)})" if len(parts) == 2 else f"over={parts[0]}"
    if rows and ("b" in axes or region.kind == "conv2d" and shapes.expression_of(space.images) == 1):
        text += ", per=b"
    if cols and "g" in axes:
        text += f", groups={axes.partition('g')[2]}"
    return text, result


def _reduction(region: Region, node: Node) -> tuple:
    if set(node.kwargs) - {"dtype"} or node.kwargs.get("dtype") not in (None, *FLOATS):
        raise Refused(f"{node.target} with {', '.join(node.kwargs)}")
    dims = node.args[1] if len(node.args) > 1 else None
    text, result = _over(region, node, dims, len(node.args) > 2 and bool(node.args[2]))
    return f"{REDUCTIONS[node.target]}({region.value(node.args[0])}, {text})", result


def _moments(region: Region, node: Node) -> tuple:
    """var_mean, whose two results are made where they are read."""
    if node.kwargs.get("correction", 1) != 0:
        raise Refused("a variance with Bessel's correction; expected correction=0")
    _, result = _over(region, node, node.args[1] if len(node.args) > 1 else None,
                      bool(node.kwargs.get("keepdim", False)))
    return "", result


def _getitem(region: Region, node: Node) -> tuple:
    source, index = node.args
    if source not in region.names:
        raise Refused(f"{node.name} is not a value of the region")
    if source.target is not aten.var_mean.correction:
        if index != 0:
            raise Refused("statistics of a normalisation that are read")
        return region.names[source], region.dims[source]
    text, result = _over(region, source, source.args[1] if len(source.args) > 1 else None,
                         bool(source.kwargs.get("keepdim", False)))
    return f"{('variance', 'mean')[index]}({region.value(source.args[0])}, {text})", result


def _clamp(region: Region, node: Node) -> tuple:
    low = node.args[1] if len(node.args) > 1 and node.target is not aten.clamp_max.default else None
    high = node.args[1] if node.target is aten.clamp_max.default else node.args[2] if len(node.args) > 2 else None
    if node.target is aten.hardtanh.default:
        low, high = (*node.args, -1.0, 1.0)[1:3] if len(node.args) == 1 else (node.args[1], node.args[2])
    limits = [f"{n}={number(v)}" for n, v in (("lower", low), ("upper", high)) if v is not None]
    return f"clamp({', '.join([region.value(node.args[0]), *limits])})", joined(region, node, node.args[0])


def _power(region: Region, node: Node) -> tuple:
    x, exponent = node.args
    special = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
    text = f"{special}({region.value(x)})" if special else f"pow({region.value(x)}, {number(exponent)})"
    return text, joined(region, node, x)


def _gelu(region: Region, node: Node) -> tuple:
    name = "gelu_tanh" if node.kwargs.get("approximate", "none") == "tanh" else "gelu"
    return f"{name}({region.value(node.args[0])})", joined(region, node, node.args[0])


def _leaky_relu(region: Region, node: Node) -> tuple:
    slope = number(node.args[1] if len(node.args) > 1 else 0.01)
    return f"leaky_relu({region.value(node.args[0])}, slope={slope})", joined(region, node, node.args[0])


def is_asked_for(node: Node) -> bool:
    """Whether the program, or autocast, has written the cast: not a decomposition, which computes in f32 as regions do.
    """
    return str(node.meta.get("original_aten") or aten._to_copy.default) == str(aten._to_copy.default)


def is_widening(node: Node) -> bool:
    """Whether it is a cast of a decomposition to a wider dtype, which each reader makes on the way."""
    if node.target not in CASTS or is_asked_for(node) or not is_tensor(node) or not is_tensor(node.args[0]):
        return False
    return node.meta["val"].dtype.itemsize > node.args[0].meta["val"].dtype.itemsize


def _cast(region: Region, node: Node) -> tuple:
    """Rounded as the cast says; computed in f32 further on."""
    source, dtype = node.args[0], node.meta["val"].dtype
    if set(node.kwargs) - {"dtype", "memory_format", "layout", "device", "pin_memory"} or dtype not in FLOATS:
        raise Refused(f"a cast to {dtype}")
    if node.meta["val"].device != source.meta["val"].device:
        raise Refused("a copy to another device")
    x = region.value(source)
    rounds = dtype != torch.float32 and is_asked_for(node)
    return (f"cast(cast({x}, {torch_dtypes()[dtype].name}), f32)" if rounds else x), region.dims[source]


HANDLERS: dict[Any, Callable[[Region, Node], tuple]] = {
    **{op: _unary for op in UNARY}, **{op: _binary for op in BINARY}, **{op: _comparison for op in COMPARISONS},
    **{op: _reduction for op in REDUCTIONS}, **{op: _same for op in SAME}, **{op: _reshaped for op in RESHAPED},
    **{op: _turned for op in TURNED}, **{op: _cast for op in CASTS}, operator.getitem: _getitem,
    aten.where.self: _where, aten.var_mean.correction: _moments, aten.native_group_norm.default: _whole_norm,
    aten.native_layer_norm.default: _whole_norm, aten.expm1.default: _exponential_less_one, aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp, aten.clamp_max.default: _clamp, aten.hardtanh.default: _clamp,
    aten.pow.Tensor_Scalar: _power, aten.gelu.default: _gelu, aten.leaky_relu.default: _leaky_relu,
    **{op: forms.upsampled for op in (*forms.UPSAMPLES, *forms.INDEXED)},
}
NORMALISATIONS = {*REDUCTIONS, *STATISTICS}
ACTIVATIONS = {*UNARY, aten.where.self, aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default,
               aten.hardtanh.default, aten.gelu.default, aten.leaky_relu.default, aten.expm1.default}


def _check_switches(region: Region, node: Node) -> None:
    for name, ops in (("normalisations", NORMALISATIONS), ("activations", ACTIVATIONS), ("casts", CASTS),
                      ("resampling", (*forms.pools(), *forms.UPSAMPLES, *forms.INDEXED))):
        if name in region.without and node.target in ops:
            raise Refused(f"{node.name} ({node.target}) is switched off by without=('{name}',)")


def expression(region: Region, node: Node) -> tuple[str, shapes.Dims]:
    """The text of one node over the values of the region, and how its result lies. Raises Refused."""
    _check_switches(region, node)
    handler = HANDLERS.get(node.target) or (forms.pooled if node.target in forms.pools() else None)
    if form := next((region.forms[n] for n in node.all_input_nodes if n in region.forms), None):
        text = forms.continued(region, node, CASTS)
        region.forms[node] = form
        return text
    if node.target is aten.cat.default:
        dim = int(node.args[1]) if len(node.args) > 1 else 0
        parts = [shape for shape in map(shape_of, node.args[0]) if shape != (0,)]  # such as a cache that is empty yet
        widths = ", ".join(str(shape[dim]) for shape in parts)
        raise Refused(
            f"{node.name} joins tensors of extents {widths}: what is computed after it, such as a normalisation, "
            "reads more than this contraction's values"
        )
    if handler is None:
        raise Refused(f"{node.target} is not supported in epilogues here")
    kinds = (*FLOATS, torch.bool) if handler is _comparison else FLOATS
    if not is_tuple(node) and (not is_tensor(node) or node.meta["val"].dtype not in kinds):
        raise Refused(f"{node.name} is not a floating-point tensor")
    # what is read as one value must be one
    if (
        handler not in (_binary, _comparison, _where)
        and node.args[0] not in region.names
        or node.target in forms.INDEXED
        and len(region.names.keys() & set(node.all_input_nodes)) > 1
    ):
        raise Refused(f"{node.name} reads {node.args[0]}, which is not a value of the region")
    text = handler(region, node)
    if handler in (forms.pooled, forms.upsampled):
        region.forms[node] = (forms.POOL if handler is forms.pooled else forms.UPSAMPLE, node.args[0])
    return text
