"""ATen operators of an exported program as ONNX nodes: a function for each kind, a table for what has the same
arguments. What moves elements is in onnx_moves."""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional, Sequence

import torch
from torch.fx import Node

from .._native import Unsupported
from .onnx_file import Writer, dtype_of, kind_of, promoted
from .onnx_moves import MOVES, reads
from .regions import aten, prims

SAME = {  # one input, one output, no attributes
    aten.relu.default: "Relu", aten.sigmoid.default: "Sigmoid", aten.tanh.default: "Tanh", aten.exp.default: "Exp",
    aten.log.default: "Log", aten.sqrt.default: "Sqrt", aten.reciprocal.default: "Reciprocal", aten.neg.default: "Neg",
    aten.abs.default: "Abs", aten.erf.default: "Erf", aten.sin.default: "Sin", aten.cos.default: "Cos",
        aten.mish.default: "Mish", aten.ceil.default: "Ceil", aten.round.default: "Round", aten.sign.default: "Sign",
    aten.cosh.default: "Cosh", aten.sinh.default: "Sinh", aten.tan.default: "Tan", aten.atan.default: "Atan",
    aten.softplus.default: "Softplus", aten.isnan.default: "IsNaN", aten.isinf.default: "IsInf",
    aten.hardswish.default: "HardSwish", aten.clone.default: "Identity", aten.alias.default: "Identity",
    aten.detach.default: "Identity", aten.dropout.default: "Identity", aten.contiguous.default: "Identity",
    aten.lift_fresh_copy.default: "Identity", aten.floor.default: "Floor", aten.matmul.default: "MatMul",
        aten.mm.default: "MatMul",
    aten.bmm.default: "MatMul", aten.maximum.default: "Max", aten.minimum.default: "Min",
    aten.bitwise_not.default: "Not", aten.logical_not.default: "Not", aten.logical_and.default: "And",
    aten.bitwise_and.Tensor: "And", aten.logical_or.default: "Or", aten.bitwise_or.Tensor: "Or",
    aten.logical_xor.default: "Xor",
}
OF_TWO = ("MatMul", "Max", "Min", "And", "Or", "Xor")  # of SAME
LOGICAL = ("Not", "And", "Or", "Xor")  # of SAME: on bools alone
ARITHMETIC = {aten.add.Tensor: "Add", aten.sub.Tensor: "Sub", aten.mul.Tensor: "Mul", aten.div.Tensor: "Div",
              aten.add.Scalar: "Add",
              aten.sub.Scalar: "Sub", aten.mul.Scalar: "Mul", aten.div.Scalar: "Div", aten.pow.Tensor_Scalar: "Pow",
              aten.pow.Tensor_Tensor: "Pow", aten.gt.Scalar: "Greater", aten.lt.Scalar: "Less",
              aten.ge.Scalar: "GreaterOrEqual",
              aten.le.Scalar: "LessOrEqual", aten.eq.Scalar: "Equal", aten.gt.Tensor: "Greater", aten.lt.Tensor: "Less",
              aten.ge.Tensor: "GreaterOrEqual", aten.le.Tensor: "LessOrEqual", aten.eq.Tensor: "Equal"}


def _same(w: Writer, node: Node) -> None:
    count = 2 if SAME[node.target] in OF_TWO else 1
    if SAME[node.target] in LOGICAL and any(dtype_of(a) != torch.bool for a in node.args[:count]):
        raise Unsupported(f"export: {node.target} of {dtype_of(node.args[0])}; expected bools")
    if node.target is aten.softplus.default and tuple(node.args[1:]) not in ((), (1,), (1, 20)):
        raise Unsupported("export: softplus with another beta or threshold than the default")
    if node.target is aten.dropout.default and node.args[1] and node.args[2]:
        raise Unsupported("export: dropout as in training")
    is_promoted = node.target in (aten.maximum.default, aten.minimum.default)
    inputs = [promoted(w, a, node, dtype_of(node)) if is_promoted else w.name(a) for a in node.args[:count]]
    w.add(SAME[node.target], inputs, node.name)


def _arithmetic(w: Writer, node: Node) -> None:
    x, y = node.args[:2]
    dtype = dtype_of(node)
    if dtype == torch.bool:
        dtype = torch.result_type(*(a.meta["val"] if isinstance(a, Node) else a for a in (x, y)))
    second = promoted(w, y, node, dtype)
    alpha = node.kwargs.get("alpha", 1)
    if alpha != 1:
        second = w.add("Mul", [second, w.constant(alpha, dtype)], f"{node.name}_scaled")
    w.add(ARITHMETIC[node.target], [promoted(w, x, node, dtype), second], node.name)


def _where(w: Writer, node: Node) -> None:
    condition, *values = node.args
    w.add("Where", [w.name(condition), *(promoted(w, v, node, dtype_of(node)) for v in values)], node.name)


def _rsqrt(w: Writer, node: Node) -> None:
    w.add("Reciprocal", [w.add("Sqrt", [w.name(node.args[0])], f"{node.name}_root")], node.name)


def _silu(w: Writer, node: Node) -> None:
    x = w.name(node.args[0])
    w.add("Mul", [x, w.add("Sigmoid", [x], f"{node.name}_sigmoid")], node.name)


def _gelu(w: Writer, node: Node) -> None:
    w.add("Gelu", [w.name(node.args[0])], node.name, approximate=node.kwargs.get("approximate", "none"))


def _leaky_relu(w: Writer, node: Node) -> None:
    w.add("LeakyRelu", [w.name(node.args[0])], node.name, alpha=float(node.args[1] if len(node.args) > 1 else 0.01))


def _hardsigmoid(w: Writer, node: Node) -> None:
    w.add("HardSigmoid", [w.name(node.args[0])], node.name, alpha=1 / 6, beta=0.5)


def _clamp(w: Writer, node: Node) -> None:
    limits = list(node.args[1:3]) + [None] * (3 - len(node.args))
    if node.target is aten.clamp_max.default:
        limits = [None, node.args[1]]
    if node.target is aten.hardtanh.default:
        limits = [node.args[1] if len(node.args) > 1 else -1.0, node.args[2] if len(node.args) > 2 else 1.0]
    w.add("Clip", [w.name(node.args[0]), *("" if v is None else w.constant(v, dtype_of(node)) for v in limits[:2])],
          node.name)


def _convolution(w: Writer, node: Node) -> None:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    inputs = [w.name(x), w.name(weight)] + ([w.name(bias)] if bias is not None else [])
    w.add("ConvTranspose" if transposed else "Conv", inputs, node.name, strides=list(stride), pads=[*padding, *padding],
          dilations=list(dilation), group=groups, output_padding=list(output_padding) if transposed else None)


def _addmm(w: Writer, node: Node) -> None:
    bias, a, b = map(w.name, node.args)
    w.add("Gemm", [a, b, bias], node.name, alpha=float(node.kwargs.get("alpha", 1)),
          beta=float(node.kwargs.get("beta", 1)))


def _linear(w: Writer, node: Node) -> None:
    x, weight = node.args[:2]
    turned = w.add("Transpose", [w.name(weight)], f"{node.name}_weight", perm=[1, 0])
    has_bias = len(node.args) > 2 and node.args[2] is not None
    product = w.add("MatMul", [w.name(x), turned], f"{node.name}_product" if has_bias else node.name)
    if has_bias:
        w.add("Add", [product, w.name(node.args[2])], node.name)


def _normalised(w: Writer, node: Node, kind: str, vectors: list[Any], count: Any, output: str,
                **attributes: Any) -> None:
    """vectors: scale, shift and more, of `count`; None: 1 and 0. ONNX computes in one type: where vectors are wider
    than the image, in theirs. Rows (N,C) are images of one pixel."""
    x = node.args[0]
    dtype = dtype_of(x)
    for vector in vectors:
        if vector is not None:
            dtype = torch.promote_types(dtype, dtype_of(vector))
    inputs = [w.constant(torch.full(tuple(count), fill), dtype) if v is None else promoted(w, v, node, dtype)
              for v, fill in zip(vectors, (1.0, 0.0, 0.0, 1.0))]
    image, shape = promoted(w, x, node, dtype), list(x.meta["val"].shape)
    if is_row := kind == "GroupNormalization" and len(shape) == 2:
        image = w.add("Reshape", [image, w.extents(node, (*shape, 1))], f"{output}_image")
    same = dtype == dtype_of(x)
    made = w.add(kind, [image, *inputs], f"{output}_wide" if is_row or not same else output, **attributes)
    if is_row:
        made = w.add("Reshape", [made, w.extents(node, shape)], output if same else f"{output}_row")
    if not same:
        w.add("Cast", [made], output, to=kind_of(dtype_of(x)))


def group_norm_nodes(w: Writer, node: Node) -> None:
    if node.target is aten.group_norm.default:
        x, groups, scale, shift, eps = (*node.args, *(None, None, 1e-5)[len(node.args) - 2:])[:5]
        output = node.name
    else:
        x, scale, shift, _, _, _, groups, eps = node.args
        output = f"{node.name}_0"
    _normalised(w, node, "GroupNormalization", [scale, shift], (x.meta["val"].shape[1],), output, num_groups=groups,
                epsilon=float(eps))


def layer_norm_nodes(w: Writer, node: Node) -> None:
    _, extents, scale, shift, eps = (*node.args, *(None, None, 1e-5)[len(node.args) - 2:])[:5]
    output = node.name if node.target is aten.layer_norm.default else f"{node.name}_0"
    _normalised(w, node, "LayerNormalization", [scale, shift], extents, output, axis=-len(extents), epsilon=float(eps))


def _instance_norm(w: Writer, node: Node) -> None:
    x, scale, shift, _, _, own, _, eps, *_ = node.args
    if not own:
        raise Unsupported("export: an instance norm by stored statistics")
    _normalised(w, node, "InstanceNormalization", [scale, shift], (x.meta["val"].shape[1],), node.name,
                epsilon=float(eps))


def _batch_norm(w: Writer, node: Node) -> None:
    _, scale, shift, mean, variance, _, eps = node.args
    _normalised(w, node, "BatchNormalization", [scale, shift, mean, variance], mean.meta["val"].shape, f"{node.name}_0",
                epsilon=float(eps))


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value) * (2 if len(value) == 1 else 1)


def _max_pool(w: Writer, node: Node) -> None:
    x, size, stride, padding, dilation, ceil = (*node.args, *([], 0, 1, False)[len(node.args) - 2:])[:6]
    size, padding = _pair(size), _pair(padding)
    outputs = [node.name if node.target is aten.max_pool2d.default else f"{node.name}_0"]
    counted = node.target is not aten.max_pool2d.default and reads(node, 1)
    w.add_node("MaxPool", [w.name(x)], [*outputs, *[f"{node.name}_flat"] * counted], kernel_shape=size,
               strides=_pair(stride) if stride else size, pads=padding * 2, dilations=_pair(dilation),
               ceil_mode=int(ceil))
    if counted:  # PyTorch counts the pixels of each channel, ONNX all elements
        pixels = x.meta["val"].shape[-2] * x.meta["val"].shape[-1]
        w.add("Mod", [f"{node.name}_flat", w.constant(pixels, torch.int64)], f"{node.name}_1")


def _average_pool(w: Writer, node: Node) -> None:
    x, size, stride, padding, ceil, include = (*node.args, *([], 0, False, True)[len(node.args) - 2:])[:6]
    if len(node.args) > 6 and node.args[6] is not None:
        raise Unsupported("export: an average pool with divisor_override")
    size = _pair(size)
    w.add("AveragePool", [w.name(x)], node.name, kernel_shape=size, strides=_pair(stride) if stride else size,
          pads=_pair(padding) * 2,
          ceil_mode=int(ceil), count_include_pad=int(include))


def _global_pool(w: Writer, node: Node) -> None:
    if list(node.args[1]) not in ([1, 1], [1]):
        raise Unsupported(f"export: an adaptive average pool to {node.args[1]}")
    w.add("GlobalAveragePool", [w.name(node.args[0])], node.name)


def _resized_by(w: Writer, node: Node, before: Sequence[Any], after: Sequence[Any]) -> tuple[list[str], bool]:
    """Inputs of a Resize over all axes but the first two: factors or, where these are no numbers of f32, extents. And
    whether the factors are whole."""
    given = node.args[-1] if str(node.target).endswith(".vec") else None
    known = all(isinstance(e, int) for e in (*before, *after))
    factors = list(given) if given else [a / b for a, b in zip(after, before)]
    whole = not any(factor % 1 for factor in factors)
    near = [_made_by(f, b, a) for f, b, a in zip(factors, before, after)] if given and known else factors
    if not known or whole or given and None not in near:
        return ["", w.constant(near, torch.float32)], whole
    return ["", "", w.constant(list(after), torch.int64)], whole


def _made_by(factor: float, before: int, after: int) -> Optional[float]:
    """The factor, or the number of f32 above it, by which the extent becomes the other."""
    rounded = torch.tensor(factor, dtype=torch.float32)
    for one in (rounded, rounded.nextafter(torch.tensor(torch.inf))):
        if int(one.double() * before) == after:
            return one.item()
    return None


def _resize(w: Writer, node: Node) -> None:
    nearest, exact = "nearest" in str(node.target), "exact" in str(node.target)
    x = node.args[0]
    before, after = x.meta["val"].shape[2:], node.meta["val"].shape[2:]
    corners = not nearest and bool(node.args[2])
    how, whole = _resized_by(w, node, before, after)
    exact = exact and not whole  # of whole factors it is no other than "nearest"
    w.add("Resize", [w.name(x), *how], node.name, mode="nearest" if nearest
          else "linear",
          coordinate_transformation_mode="asymmetric" if nearest and not exact else "align_corners" if corners
          else "half_pixel", nearest_mode=None if not nearest else "round_prefer_ceil" if exact else "floor",
          axes=list(range(2, 2 + len(after))))


def _mean(w: Writer, node: Node) -> None:
    kind = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax",
            "amin": "ReduceMin"}[str(node.target).split(".")[1]]
    axes = node.args[1] if len(node.args) > 1 else None
    inputs = [promoted(w, node.args[0], node, dtype_of(node))] + ([w.constant(list(axes), torch.int64)] if axes else [])
    w.add(kind, inputs, node.name, keepdims=int(bool(node.args[2])) if len(node.args) > 2 else 0)


def _softmax(w: Writer, node: Node) -> None:
    w.add("Softmax", [promoted(w, node.args[0], node, dtype_of(node))], node.name, axis=node.args[1])


def _cast(w: Writer, node: Node) -> None:
    w.add("Cast", [w.name(node.args[0])], node.name, to=kind_of(dtype_of(node)))


def _attention(w: Writer, node: Node) -> None:
    named = {a.name: node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
             for i, a in enumerate(node.target._schema.arguments)}
    attention_nodes(w, node, node.name, named["attn_mask"], named["is_causal"], named["dropout_p"], named["scale"])


def _groups_of(q: torch.Size, k: torch.Size) -> int:
    """Heads of queries for each of keys. Raises Unsupported."""
    if q[:-2] == k[:-2]:
        return 1
    if len(q) < 3 or len(q) != len(k) or q[:-3] != k[:-3] or 0 in (q[-3], k[-3]) or q[-3] % k[-3]:
        raise Unsupported(f"export: attention of queries {tuple(q)} and keys {tuple(k)}")
    return q[-3] // k[-3]


def _by_groups(w: Writer, node: Node, x: Node, groups: int, label: str) -> str:
    """(…, h, l, d) as (…, h/groups, groups, l, d), or (…, 1, l, d) as (…, 1, 1, l, d)."""
    shape = x.meta["val"].shape
    if groups == 1 or len(shape) < 3:
        return w.name(x)
    heads = [1, 1] if shape[-3] == 1 else [shape[-3] // groups, groups]
    places = w.constant([*shape[:-3], *heads, *shape[-2:]], torch.int64)
    return w.add("Reshape", [w.name(x), places], f"{node.name}_{label}")


def _hidden_rows(w: Writer, node: Node, added: str) -> str:
    """Rows of what is added to scores that are minus infinity alone: PyTorch gives them the weights 0."""
    most = w.add("ReduceMax", [added, w.constant([-1], torch.int64)], f"{node.name}_most", keepdims=1)
    return w.add("Equal", [most, w.constant(float("-inf"), dtype_of(node.args[0]))], f"{node.name}_hidden")


def attention_nodes(w: Writer, node: Node, output: str, mask: Any, causal: bool, dropout: float, scale: Any) -> None:
    """Of the queries, keys and values that are the node's first arguments. Where these have fewer heads the queries are
    (…, heads of keys, groups, l, d), and keys (…, heads, 1, s, d)."""
    q, k, v = node.args[:3]
    if dropout:
        raise Unsupported("export: attention with dropout")
    (queries, width), rank, groups = q.meta["val"].shape[-2:], q.meta["val"].dim(), _groups_of(*(
        t.meta["val"].shape for t in (q, k)))
    of_queries, of_keys, of_values = w.name(q), w.name(k), w.name(v)
    if groups > 1:
        if _groups_of(q.meta["val"].shape, v.meta["val"].shape) != groups:
            raise Unsupported("export: attention with other heads of values than of keys")
        rank, axis = rank + 1, w.constant([-3], torch.int64)
        of_queries = _by_groups(w, node, q, groups, "groups")
        of_keys, of_values = (w.add("Unsqueeze", [x, axis], f"{node.name}_{label}")
                              for x, label in ((of_keys, "one_key"), (of_values, "one_value")))
    turned = w.add("Transpose", [of_keys], f"{node.name}_keys", perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("MatMul", [of_queries, turned], f"{node.name}_scores")
    factor = w.constant(width**-0.5 if scale is None else scale, dtype_of(q))
    scores = w.add("Mul", [scores, factor], f"{node.name}_scaled")
    hidden = None
    if mask is not None:
        added = _by_groups(w, node, mask, groups, "mask")
        if dtype_of(mask) == torch.bool:
            zero, lowest = w.constant(0, dtype_of(q)), w.constant(float("-inf"), dtype_of(q))
            scores = w.add("Where", [added, scores, lowest], f"{node.name}_chosen")
            added = w.add("Where", [added, zero, lowest], f"{node.name}_added")
        else:
            scores = w.add("Add", [scores, added], f"{node.name}_masked")
        hidden = _hidden_rows(w, node, added)
    if causal:
        later = torch.full((queries, k.meta["val"].shape[-2]), float("-inf")).triu(1)
        scores = w.add("Add", [scores, w.constant(later, dtype_of(q))], f"{node.name}_causal")
    weights = w.add("Softmax", [scores], f"{node.name}_weights", axis=-1)
    if hidden is not None:
        weights = w.add("Where", [hidden, w.constant(0, dtype_of(q)), weights], f"{node.name}_seen")
    if groups == 1:
        w.add("MatMul", [weights, of_values], output)
        return
    made = w.add("MatMul", [weights, of_values], f"{node.name}_made")
    shape = [*q.meta["val"].shape[:-1], v.meta["val"].shape[-1]]
    w.add("Reshape", [made, w.constant(shape, torch.int64)], output)


def _modulo(w: Writer, node: Node) -> None:
    """remainder: it has the sign of the divisor, as in Python."""
    dtype = dtype_of(node)
    x, y = (promoted(w, a, node, dtype) for a in node.args[:2])
    if not dtype.is_floating_point:
        w.add("Mod", [x, y], node.name, fmod=0)
        return
    zero, part = w.constant(0, dtype), w.add("Mod", [x, y], f"{node.name}_part", fmod=1)
    signs = [w.add("Less", [v, zero], f"{node.name}_sign_{i}") for i, v in enumerate((part, y))]
    differs = w.add("Xor", signs, f"{node.name}_differs")
    some = w.add("Not", [w.add("Equal", [part, zero], f"{node.name}_none")], f"{node.name}_some")
    moved = w.add("Add", [part, y], f"{node.name}_moved")
    w.add("Where", [w.add("And", [differs, some], f"{node.name}_moves"), moved, part], node.name)


def _elu(w: Writer, node: Node) -> None:
    alpha, *scales = (*node.args[1:], *(1, 1, 1)[len(node.args) - 1:])
    if scales[1] != 1:
        raise Unsupported("export: elu of a scaled input")
    scaled = scales[0] != 1  # selu
    y = w.add("Elu", [w.name(node.args[0])], f"{node.name}_elu" if scaled else node.name, alpha=float(alpha))
    if scaled:
        w.add("Mul", [y, w.constant(scales[0], dtype_of(node))], node.name)


def _log_softmax(w: Writer, node: Node) -> None:
    w.add("LogSoftmax", [promoted(w, node.args[0], node, dtype_of(node))], node.name, axis=node.args[1])


def _rounded_quotient(w: Writer, node: Node) -> None:
    mode, is_float = node.kwargs.get("rounding_mode"), dtype_of(node).is_floating_point
    if not is_float and mode != "trunc" or is_float and mode == "trunc":
        raise Unsupported(f"export: a quotient of {dtype_of(node)} with rounding_mode={mode}")
    x, y = (promoted(w, a, node, dtype_of(node)) for a in node.args[:2])
    quotient = w.add("Div", [x, y], f"{node.name}_quotient" if mode == "floor" else node.name)
    if mode == "floor":
        w.add("Floor", [quotient], node.name)


def _remainder(w: Writer, node: Node) -> None:
    x, y = (promoted(w, a, node, dtype_of(node)) for a in node.args[:2])
    w.add("Mod", [x, y], node.name, fmod=1)


def _power_of_number(w: Writer, node: Node) -> None:
    base, exponent = node.args
    w.add("Pow", [w.constant(base, dtype_of(node)), w.name(exponent)], node.name)


def _extreme(w: Writer, node: Node) -> None:
    """max.dim and min.dim: values, and where they are."""
    x, axis = node.args[:2]
    keep = int(len(node.args) > 2 and bool(node.args[2]))
    kind = "Max" if node.target is aten.max.dim else "Min"
    w.add(f"Reduce{kind}", [w.name(x), w.constant([axis], torch.int64)], f"{node.name}_0", keepdims=keep)
    if reads(node, 1):
        w.add(f"Arg{kind}", [w.name(x)], f"{node.name}_1", axis=axis, keepdims=keep)


def _arg(w: Writer, node: Node) -> None:
    x, axis, keep = (*node.args, *(None, False)[len(node.args) - 1:])
    if axis is None:
        raise Unsupported("export: argmax or argmin over all elements")
    w.add("ArgMax" if node.target is aten.argmax.default else "ArgMin", [w.name(x)], node.name, axis=axis,
          keepdims=int(keep))


def _not_equal(w: Writer, node: Node) -> None:
    x, y = node.args
    dtype = torch.result_type(x.meta["val"], y.meta["val"] if isinstance(y, Node) else y)
    same = w.add("Equal", [promoted(w, x, node, dtype), promoted(w, y, node, dtype)], f"{node.name}_same")
    w.add("Not", [same], node.name)


def _nothing(w: Writer, node: Node) -> None:
    """An assertion that the export has checked."""


def _variance(w: Writer, node: Node) -> None:
    """var.correction by its definition, in the type of the tensor."""
    x, axes = node.args[0], node.args[1] if len(node.args) > 1 else None
    shape = x.meta["val"].shape
    axes = list(range(len(shape))) if axes is None else list(axes)
    correction = node.kwargs.get("correction")
    count = 1
    for axis in axes:
        count *= shape[axis]
    divisor = count - (1 if correction is None else correction)
    if divisor <= 0:
        raise Unsupported(f"export: a variance of {count} elements with correction {correction}")
    where, keep = w.constant(axes, torch.int64), int(node.kwargs.get("keepdim", False))
    mean = w.add("ReduceMean", [w.name(x), where], f"{node.name}_mean", keepdims=1)
    apart = w.add("Sub", [w.name(x), mean], f"{node.name}_apart")
    square = w.add("Mul", [apart, apart], f"{node.name}_square")
    average = w.add("ReduceMean", [square, where], f"{node.name}_average", keepdims=keep)
    w.add("Mul", [average, w.constant(count / divisor, dtype_of(node))], node.name)


def _norm(w: Writer, node: Node) -> None:
    x, order, axes, keep = (*node.args, *(2, None, False)[len(node.args) - 1:])[:4]
    if order not in (1, 2) or node.kwargs.get("dtype") is not None:
        raise Unsupported(f"export: a vector norm of order {order}")
    inputs = [w.name(x)] + ([w.constant(list(axes), torch.int64)] if axes is not None else [])
    w.add(f"ReduceL{int(order)}", inputs, node.name, keepdims=int(keep))


def _cumulative(w: Writer, node: Node) -> None:
    x, axis = node.args[:2]
    w.add("CumSum", [promoted(w, x, node, dtype_of(node)), w.constant(axis, torch.int64)], node.name)


NODES: dict[Any, Callable[[Writer, Node], None]] = {
    **MOVES, **{op: _same for op in SAME}, **{op: _arithmetic for op in ARITHMETIC},
    aten.rsqrt.default: _rsqrt, aten.silu.default: _silu, aten.gelu.default: _gelu,
    aten.leaky_relu.default: _leaky_relu, aten.hardsigmoid.default: _hardsigmoid, aten.clamp.default: _clamp,
    aten.clamp_min.default: _clamp, aten.clamp_max.default: _clamp, aten.hardtanh.default: _clamp,
    aten.convolution.default: _convolution, aten.addmm.default: _addmm, aten.linear.default: _linear,
    aten.native_group_norm.default: group_norm_nodes, aten.group_norm.default: group_norm_nodes,
    aten.native_layer_norm.default: layer_norm_nodes, aten.layer_norm.default: layer_norm_nodes,
    aten.instance_norm.default: _instance_norm, aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.max_pool2d_with_indices.default: _max_pool, aten.max_pool2d.default: _max_pool,
    aten.avg_pool2d.default: _average_pool, aten.adaptive_avg_pool2d.default: _global_pool,
    aten._adaptive_avg_pool2d.default: _global_pool, aten.upsample_nearest2d.vec: _resize,
    aten.upsample_nearest3d.vec: _resize, aten.upsample_nearest3d.default: _resize,
    aten._upsample_nearest_exact2d.vec: _resize, aten._upsample_nearest_exact2d.default: _resize,
    aten.upsample_nearest2d.default: _resize, aten.upsample_bilinear2d.vec: _resize, aten.mean.dim: _mean,
    aten.mean.default: _mean, aten.sum.dim_IntList: _mean,
    aten.sum.default: _mean, aten.amax.default: _mean, aten.amin.default: _mean,
    aten._softmax.default: _softmax, aten.softmax.int: _softmax, aten._to_copy.default: _cast,
    prims.convert_element_type.default: _cast, aten.scaled_dot_product_attention.default: _attention,
    aten.div.Tensor_mode: _rounded_quotient, aten.fmod.Scalar: _remainder, aten.fmod.Tensor: _remainder,
    aten.pow.Scalar: _power_of_number, aten.max.dim: _extreme, aten.min.dim: _extreme, aten.argmax.default: _arg,
    aten.argmin.default: _arg, aten.ne.Scalar: _not_equal, aten.ne.Tensor: _not_equal,
    aten._assert_tensor_metadata.default: _nothing, aten.var.correction: _variance,
    aten.linalg_vector_norm.default: _norm, aten.cumsum.default: _cumulative, aten.where.self: _where,
    aten.remainder.Scalar: _modulo, aten.remainder.Tensor: _modulo, aten.elu.default: _elu,
    aten._log_softmax.default: _log_softmax,
}
