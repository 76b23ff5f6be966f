"""ATen operators of an exported program as ONNX nodes: a function for each kind, a table for what has the same
arguments."""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch.fx import Node

from .._native import Unsupported
from .onnx_file import Writer, kind_of
from .regions import aten, prims

SAME = {  # one input, one output, no attributes
    aten.relu.default: "Relu", aten.sigmoid.default: "Sigmoid", aten.tanh.default: "Tanh", aten.exp.default: "Exp",
    aten.log.default: "Log", aten.sqrt.default: "Sqrt", aten.reciprocal.default: "Reciprocal", aten.neg.default: "Neg",
    aten.abs.default: "Abs", aten.erf.default: "Erf", aten.sin.default: "Sin", aten.cos.default: "Cos",
        aten.mish.default: "Mish",
    aten.hardswish.default: "HardSwish", aten.clone.default: "Identity", aten.alias.default: "Identity",
    aten.detach.default: "Identity", aten.dropout.default: "Identity", aten.contiguous.default: "Identity",
    aten.lift_fresh_copy.default: "Identity", aten.floor.default: "Floor", aten.matmul.default: "MatMul",
        aten.mm.default: "MatMul",
    aten.bmm.default: "MatMul", aten.maximum.default: "Max", aten.minimum.default: "Min", aten.where.self: "Where",
    aten.bitwise_not.default: "Not", aten.logical_not.default: "Not", aten.logical_and.default: "And",
}
ARITHMETIC = {aten.add.Tensor: "Add", aten.sub.Tensor: "Sub", aten.mul.Tensor: "Mul", aten.div.Tensor: "Div",
              aten.add.Scalar: "Add",
              aten.sub.Scalar: "Sub", aten.mul.Scalar: "Mul", aten.div.Scalar: "Div", aten.pow.Tensor_Scalar: "Pow",
              aten.pow.Tensor_Tensor: "Pow", aten.gt.Scalar: "Greater", aten.lt.Scalar: "Less",
              aten.ge.Scalar: "GreaterOrEqual",
              aten.le.Scalar: "LessOrEqual", aten.eq.Scalar: "Equal", aten.gt.Tensor: "Greater", aten.lt.Tensor: "Less"}


def _dtype(node: Node) -> torch.dtype:
    return node.meta["val"].dtype


def _same(w: Writer, node: Node) -> None:
    count = 3 if node.target is aten.where.self else 2 if SAME[node.target] in ("MatMul", "Max", "Min", "And") else 1
    w.add(SAME[node.target], [w.name(a) for a in node.args[:count]], node.name)


def _promoted(w: Writer, x: Any, node: Node, dtype: torch.dtype) -> str:
    """An argument of arithmetic in the dtype in which PyTorch computes it."""
    if not isinstance(x, Node):
        return w.constant(x, dtype)
    name = w.name(x)
    return name if _dtype(x) == dtype else w.add("Cast", [name], f"{node.name}_{name}_cast", to=kind_of(dtype))


def _arithmetic(w: Writer, node: Node) -> None:
    x, y = node.args[:2]
    tensors = [a for a in (x, y) if isinstance(a, Node)]
    dtype = _dtype(node)
    if dtype == torch.bool:
        dtype = torch.promote_types(*(_dtype(t) for t in tensors)) if len(tensors) == 2 else _dtype(tensors[0])
    second = _promoted(w, y, node, dtype)
    alpha = node.kwargs.get("alpha", 1)
    if alpha != 1:
        second = w.add("Mul", [second, w.constant(alpha, dtype)], f"{node.name}_scaled")
    w.add(ARITHMETIC[node.target], [_promoted(w, x, node, dtype), second], node.name)


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
    w.add("Clip", [w.name(node.args[0]), *("" if v is None else w.constant(v, _dtype(node)) for v in limits[:2])],
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


def _affine(w: Writer, node: Node, scale: Any, shift: Any, count: Any) -> list[str]:
    dtype = (node.args[0].meta["val"]).dtype
    return [w.name(v) if v is not None else w.constant(torch.full(tuple(count), fill), dtype)
            for v, fill in ((scale, 1.0), (shift, 0.0))]


def _group_norm(w: Writer, node: Node) -> None:
    if node.target is aten.group_norm.default:
        x, groups, scale, shift, eps = (*node.args, None, None, 1e-5)[:5] if len(node.args) < 5 else node.args[:5]
        output = node.name
    else:
        x, scale, shift, _, _, _, groups, eps = node.args
        output = f"{node.name}_0"
    w.add("GroupNormalization", [w.name(x), *_affine(w, node, scale, shift, (x.meta["val"].shape[1],))], output,
          num_groups=groups, epsilon=float(eps))


def _layer_norm(w: Writer, node: Node) -> None:
    x, extents, scale, shift, eps = (*node.args, None, None, 1e-5)[:5] if len(node.args) < 5 else node.args[:5]
    scale, shift = _affine(w, node, scale, shift, extents)
    w.add("LayerNormalization", [w.name(x), scale, shift], node.name if node.target is aten.layer_norm.default
          else f"{node.name}_0",
          axis=-len(extents), epsilon=float(eps))


def _instance_norm(w: Writer, node: Node) -> None:
    x, scale, shift, _, _, own, _, eps, *_ = node.args
    if not own:
        raise Unsupported("export: an instance norm by stored statistics")
    w.add("InstanceNormalization", [w.name(x), *_affine(w, node, scale, shift, (x.meta["val"].shape[1],))], node.name,
          epsilon=float(eps))


def _batch_norm(w: Writer, node: Node) -> None:
    x, scale, shift, mean, variance, _, eps = node.args
    scale, shift = _affine(w, node, scale, shift, mean.meta["val"].shape)
    w.add("BatchNormalization", [w.name(x), scale, shift, w.name(mean), w.name(variance)], f"{node.name}_0",
          epsilon=float(eps))


def _getitem(w: Writer, node: Node) -> None:
    source, index = node.args
    if source.target in PARTS:
        return  # named where it is made
    if index != 0:
        raise Unsupported(f"export: result {index} of {source.target} is read")
    w.add("Identity", [f"{source.name}_0"], node.name)


def _split(w: Writer, node: Node) -> None:
    x, sizes = node.args[:2]
    axis = node.args[2] if len(node.args) > 2 else 0
    values = node.meta["val"]
    lengths = [v.shape[axis] for v in values]
    named = {user.args[1]: user.name for user in node.users}
    outputs = [named.get(i, f"{node.name}_{i}") for i in range(len(values))]
    w.nodes.append(w.onnx.helper.make_node("Split", [w.name(x), w.constant(lengths, torch.int64)], outputs,
                                           name=f"{node.name}_split", axis=axis))


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value) * (2 if len(value) == 1 else 1)


def _max_pool(w: Writer, node: Node) -> None:
    x, size, stride, padding, dilation, ceil = (*node.args, *([], 0, 1, False)[len(node.args) - 2:])[:6]
    size, padding = _pair(size), _pair(padding)
    output = node.name if node.target is aten.max_pool2d.default else f"{node.name}_0"
    w.add("MaxPool", [w.name(x)], output, kernel_shape=size, strides=_pair(stride) if stride else size,
          pads=padding * 2,
          dilations=_pair(dilation), ceil_mode=int(ceil))


def _average_pool(w: Writer, node: Node) -> None:
    x, size, stride, padding, ceil, include = (*node.args, *([], 0, False, True)[len(node.args) - 2:])[:6]
    if len(node.args) > 6 and node.args[6] is not None:
        raise Unsupported("export: an average pool with a divisor of its own")
    size = _pair(size)
    w.add("AveragePool", [w.name(x)], node.name, kernel_shape=size, strides=_pair(stride) if stride else size,
          pads=_pair(padding) * 2,
          ceil_mode=int(ceil), count_include_pad=int(include))


def _global_pool(w: Writer, node: Node) -> None:
    if list(node.args[1]) not in ([1, 1], [1]):
        raise Unsupported(f"export: an adaptive average pool to {node.args[1]}")
    w.add("GlobalAveragePool", [w.name(node.args[0])], node.name)


def _resize(w: Writer, node: Node) -> None:
    nearest = "nearest" in str(node.target)
    x = node.args[0]
    before, after = x.meta["val"].shape[2:], node.meta["val"].shape[2:]
    corners = not nearest and bool(node.args[2])
    if all(isinstance(e, int) for e in (*before, *after)):
        sizes = [1.0, 1.0, *(a / b for a, b in zip(after, before))]
    else:
        factors = node.args[-1]
        sizes = [1.0, 1.0, *factors]
    w.add("Resize", [w.name(x), "", w.constant(sizes, torch.float32)], node.name, mode="nearest" if nearest
          else "linear",
          coordinate_transformation_mode="asymmetric" if nearest else "align_corners" if corners else "half_pixel",
          nearest_mode="floor" if nearest else None)


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
    w.add("Concat", [w.name(t) for t in node.args[0]], node.name, axis=node.args[1] if len(node.args) > 1 else 0)


def _slice(w: Writer, node: Node) -> None:
    x, axis, start, end, step = (*node.args, *(0, None, None, 1)[len(node.args) - 1:])
    ends = [start or 0, 2**63 - 1 if end is None else end]
    w.add("Slice", [w.name(x), *(w.constant([v], torch.int64) for v in (*ends, axis, step))], node.name)


def _select(w: Writer, node: Node) -> None:
    x, axis, index = node.args
    w.add("Gather", [w.name(x), w.constant(index, torch.int64)], node.name, axis=axis)


def _mean(w: Writer, node: Node) -> None:
    kind = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax",
            "amin": "ReduceMin"}[str(node.target).split(".")[1]]
    axes = node.args[1] if len(node.args) > 1 else None
    inputs = [w.name(node.args[0])] + ([w.constant(list(axes), torch.int64)] if axes else [])
    w.add(kind, inputs, node.name, keepdims=int(bool(node.args[2])) if len(node.args) > 2 else 0)


def _softmax(w: Writer, node: Node) -> None:
    w.add("Softmax", [w.name(node.args[0])], node.name, axis=node.args[1])


def _cast(w: Writer, node: Node) -> None:
    w.add("Cast", [w.name(node.args[0])], node.name, to=kind_of(_dtype(node)))


def _embedding(w: Writer, node: Node) -> None:
    w.add("Gather", [w.name(node.args[0]), w.name(node.args[1])], node.name, axis=0)


def _full(w: Writer, node: Node) -> None:
    shape = node.args[0] if node.target is aten.full.default else ()
    value = node.args[1] if node.target is aten.full.default else node.args[0]
    w.small[node.name] = torch.full(tuple(shape), value, dtype=_dtype(node))


def _attention(w: Writer, node: Node) -> None:
    q, k, v = node.args[:3]
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    if (len(node.args) > 5 and node.args[5]) or node.kwargs.get("is_causal"):
        raise Unsupported("export: causal attention; pass a mask")
    rank, width = q.meta["val"].dim(), q.meta["val"].shape[-1]
    scale = node.kwargs.get("scale") or width**-0.5
    turned = w.add("Transpose", [w.name(k)], f"{node.name}_keys", perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.add("MatMul", [w.name(q), turned], f"{node.name}_scores")
    scores = w.add("Mul", [scores, w.constant(scale, _dtype(q))], f"{node.name}_scaled")
    if mask is not None:
        if _dtype(mask) == torch.bool:
            raise Unsupported("export: attention with a mask of bools; pass one that is added")
        scores = w.add("Add", [scores, w.name(mask)], f"{node.name}_masked")
    w.add("MatMul", [w.add("Softmax", [scores], f"{node.name}_weights", axis=-1), w.name(v)], node.name)


PARTS = (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)
HANDLERS: dict[Any, Callable[[Writer, Node], None]] = {
    **{op: _same for op in SAME}, **{op: _arithmetic for op in ARITHMETIC}, **{op: _split for op in PARTS},
    aten.rsqrt.default: _rsqrt, aten.silu.default: _silu, aten.gelu.default: _gelu,
                                                       aten.leaky_relu.default: _leaky_relu,
    aten.hardsigmoid.default: _hardsigmoid, aten.clamp.default: _clamp, aten.clamp_min.default: _clamp,
    aten.clamp_max.default: _clamp, aten.hardtanh.default: _clamp, aten.convolution.default: _convolution,
    aten.addmm.default: _addmm, aten.linear.default: _linear, aten.native_group_norm.default: _group_norm,
    aten.group_norm.default: _group_norm, aten.native_layer_norm.default: _layer_norm,
                                                       aten.layer_norm.default: _layer_norm,
    aten.instance_norm.default: _instance_norm, aten._native_batch_norm_legit_no_training.default: _batch_norm,
                                                       operator.getitem: _getitem,
    aten.max_pool2d_with_indices.default: _max_pool, aten.max_pool2d.default: _max_pool,
                                                       aten.avg_pool2d.default: _average_pool,
    aten.adaptive_avg_pool2d.default: _global_pool, aten._adaptive_avg_pool2d.default: _global_pool,
    aten.upsample_nearest2d.vec: _resize, aten.upsample_nearest2d.default: _resize,
                                                       aten.upsample_bilinear2d.vec: _resize,
    aten.view.default: _reshape, aten._unsafe_view.default: _reshape, aten.reshape.default: _reshape,
    aten.unsqueeze.default: _reshape, aten.squeeze.dims: _reshape, aten.squeeze.dim: _reshape,
                                                       aten.squeeze.default: _reshape,
    aten.permute.default: _permute, aten.transpose.int: _permute, aten.t.default: _permute,
                                                       aten.expand.default: _expand,
    aten.cat.default: _concat, aten.slice.Tensor: _slice, aten.select.int: _select, aten.mean.dim: _mean,
                                                       aten.mean.default: _mean,
    aten.sum.dim_IntList: _mean, aten.amax.default: _mean, aten.amin.default: _mean, aten._softmax.default: _softmax,
    aten.softmax.int: _softmax, aten._to_copy.default: _cast, prims.convert_element_type.default: _cast,
    aten.embedding.default: _embedding, aten.full.default: _full, aten.scalar_tensor.default: _full,
    aten.scaled_dot_product_attention.default: _attention,
}
