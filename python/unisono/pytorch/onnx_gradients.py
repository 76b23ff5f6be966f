"""ATen operators of training graphs as ONNX nodes: gradients, and what forward passes keep for them."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch.fx import Node

from .._native import Unsupported
from .onnx_file import Writer, dtype_of, kind_of, promoted
from .onnx_moves import reads
from .onnx_nodes import NODES, attention_nodes, group_norm_nodes, layer_norm_nodes
from .regions import aten

OWN = "unisono"  # the domain of operators that ONNX has not
ATTENTION = (aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention.default,
             aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default)


def _output_padding(node: Node) -> list[int]:
    """What a transposed convolution of the gradient adds, so that it has the image's extents."""
    gradient, image, filters, _, stride, padding, dilation = node.args[:7]
    size, taps, rows = (t.meta["val"].shape[2:] for t in (image, filters, gradient))
    return [size[i] - ((rows[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (taps[i] - 1) + 1)
            for i in range(len(stride))]


def _convolution_backward(w: Writer, node: Node) -> None:
    """The image's gradient is a convolution, the bias's a sum, and the filter's a separate operator."""
    gradient, image, filters, _, stride, padding, dilation, transposed, _, groups, mask = node.args
    shared = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation), "group": groups}
    wide, small = (gradient, image) if transposed else (image, gradient)  # of the convolution by this filter
    spare = _output_padding(node) if not transposed else [0] * len(stride)
    if transposed and _rows(wide, filters, stride, padding, dilation) != list(small.meta["val"].shape[2:]):
        raise Unsupported("export: gradients of a transposed convolution whose output padding is a stride or more")
    if mask[0]:
        w.add("Conv" if transposed else "ConvTranspose", [w.name(gradient), w.name(filters)], f"{node.name}_0",
              output_padding=None if transposed else spare, **shared)
    if mask[1] and 0 in (*wide.meta["val"].shape, *small.meta["val"].shape):
        w.add("Identity", [w.constant(torch.zeros(filters.meta["val"].shape), dtype_of(filters))], f"{node.name}_1")
    elif mask[1] and len(stride) == 3:
        _volumes_filter_gradient(w, node, wide, small)
    elif mask[1]:
        w.add("FilterGradient", [w.name(wide), w.name(small)], f"{node.name}_1", domain=OWN,
              kernel_shape=list(filters.meta["val"].shape[2:]), **shared)
    if mask[2]:
        axes = [0, *range(2, image.meta["val"].dim())]
        w.add("ReduceSum", [w.name(gradient), w.constant(axes, torch.int64)], f"{node.name}_2", keepdims=0)


def _volumes_filter_gradient(w: Writer, node: Node, wide: Node, small: Node) -> None:
    """Each tap along the planes has the gradient of a filter of images: of the planes that it reads."""
    stride, padding, dilation, groups = (node.args[i] for i in (4, 5, 6, 9))
    taps, *kernel = node.args[2].meta["val"].shape[2:]
    size, planes = (t.meta["val"].shape for t in (wide, small))
    after = max(0, (planes[2] - 1) * stride[0] + (taps - 1) * dilation[0] - padding[0] - (size[2] - 1))
    pads = [0, 0, padding[0], 0, 0, 0, 0, after, 0, 0]
    padded = w.add("Pad", [w.name(wide), w.constant(pads, torch.int64)], f"{node.name}_padded")
    of_planes = _as_images(w, w.name(small), planes, f"{node.name}_planes")
    made = []
    for tap in range(taps):
        first, name = tap * dilation[0], f"{node.name}_tap_{tap}"
        limits = (w.constant([v], torch.int64) for v in (first, first + (planes[2] - 1) * stride[0] + 1, 2, stride[0]))
        read = w.add("Slice", [padded, *limits], f"{name}_read")
        images = _as_images(w, read, (*size[:2], planes[2], *size[3:]), name)
        of_tap = w.add("FilterGradient", [images, of_planes], f"{name}_gradient", domain=OWN, kernel_shape=kernel,
                       strides=stride[1:], pads=[*padding[1:], *padding[1:]], dilations=dilation[1:], group=groups)
        made.append(w.add("Unsqueeze", [of_tap, w.constant([2], torch.int64)], f"{name}_plane"))
    w.add("Concat", made, f"{node.name}_1", axis=2)


def _as_images(w: Writer, volumes: str, shape: Sequence[int], name: str) -> str:
    """Volumes (N,C,D,H,W) as images (N·D,C,H,W)."""
    apart = w.add("Transpose", [volumes], f"{name}_apart", perm=[0, 2, 1, 3, 4])
    where = w.constant([shape[0] * shape[2], shape[1], *shape[3:]], torch.int64)
    return w.add("Reshape", [apart, where], f"{name}_images")


def _rows(image: Node, filters: Node, stride: list, padding: list, dilation: list) -> list[int]:
    size, taps = (t.meta["val"].shape[2:] for t in (image, filters))
    return [(size[i] + 2 * padding[i] - dilation[i] * (taps[i] - 1) - 1) // stride[i] + 1 for i in range(len(stride))]


def _statistics(w: Writer, node: Node, source: str, axes: list[int], eps: Optional[float], names: tuple[str, str],
                keep: bool, correction: float = 1.0) -> None:
    """Mean and variance of a tensor, or with `eps` 1 ÷ √(variance + eps)."""
    dtype = node.meta["val"][1].dtype
    where, mean, second = w.constant(axes, torch.int64), f"{node.name}_mean_of", names[1]
    w.add("ReduceMean", [source, where], mean, keepdims=1)
    apart = w.add("Sub", [source, mean], f"{node.name}_apart")
    square = w.add("Mul", [apart, apart], f"{node.name}_square")
    variance = w.add("ReduceMean", [square, where], f"{node.name}_variance", keepdims=int(keep))
    if correction != 1:
        variance = w.add("Mul", [variance, w.constant(correction, dtype)], f"{node.name}_corrected")
    if eps is not None:
        root = w.add("Sqrt", [w.add("Add", [variance, w.constant(eps, dtype)], f"{node.name}_more")],
                     f"{node.name}_root")
        w.add("Reciprocal", [root], second)
    else:
        w.add("Identity", [variance], second)
    if keep:
        w.add("Identity", [mean], names[0])
    else:
        w.add("Squeeze", [mean, where], names[0])


def _group_norm(w: Writer, node: Node) -> None:
    """mean and rstd, (N,groups), where they are read."""
    group_norm_nodes(w, node)
    if not (reads(node, 1) or reads(node, 2)):
        return
    x, _, _, images, channels, inner, groups, eps = node.args
    wide = promoted(w, x, node, node.meta["val"][1].dtype)
    shape = w.constant([images, groups, channels // groups * inner], torch.int64)
    rows = w.add("Reshape", [wide, shape], f"{node.name}_groups")
    _statistics(w, node, rows, [2], eps, (f"{node.name}_1", f"{node.name}_2"), False)


def _layer_norm(w: Writer, node: Node) -> None:
    """mean and rstd, of one element a row, where they are read."""
    layer_norm_nodes(w, node)
    if not (reads(node, 1) or reads(node, 2)):
        return
    x, extents, _, _, eps = node.args
    rank = x.meta["val"].dim()
    wide = promoted(w, x, node, node.meta["val"][1].dtype)
    _statistics(w, node, wide, list(range(rank - len(extents), rank)), eps, (f"{node.name}_1", f"{node.name}_2"), True)


def _batch_norm(w: Writer, node: Node) -> None:
    """By the statistics of its own image. Instance norms are so, too, of images in which each channel is a group.
    Results: the image, mean, rstd, and the new running averages."""
    x, scale, shift, *running = node.args
    if node.target is aten._native_batch_norm_legit.no_stats:
        averages, (training, momentum, eps) = [], running
    else:
        averages, (training, momentum, eps) = running[:2], running[2:]
    if not training:
        raise Unsupported("export: a batch norm by stored statistics, in training")
    dtype = node.meta["val"][1].dtype
    shape = x.meta["val"].shape
    wide = promoted(w, x, node, dtype)
    axes = [0, *range(2, len(shape))]
    count = x.meta["val"].numel() // shape[1]
    mean, rstd = f"{node.name}_1", f"{node.name}_2"
    _statistics(w, node, wide, axes, eps, (mean, rstd), False)
    spread = w.constant([1, shape[1], *(1,) * (len(shape) - 2)], torch.int64)
    scales = [rstd]
    if scale is not None:
        scales = [w.add("Mul", [rstd, promoted(w, scale, node, dtype)], f"{node.name}_scales")]
    factor = w.add("Reshape", [scales[0], spread], f"{node.name}_factor")
    centred = w.add("Sub", [wide, f"{node.name}_mean_of"], f"{node.name}_centred")
    y = w.add("Mul", [centred, factor], f"{node.name}_scaled")
    if shift is not None:
        y = w.add("Add", [y, w.add("Reshape", [promoted(w, shift, node, dtype), spread], f"{node.name}_shift")],
                  f"{node.name}_shifted")
    w.add("Cast", [y], f"{node.name}_0", to=kind_of(dtype_of(x)))
    if averages:
        flat = w.add("Reshape", [f"{node.name}_variance", w.constant([-1], torch.int64)], f"{node.name}_flat")
        unbiased = w.add("Mul", [flat, w.constant(count / max(count - 1, 1), dtype)], f"{node.name}_unbiased")
        for i, (average, new) in enumerate(zip(averages, (mean, unbiased)), 3):
            old = w.add("Mul", [promoted(w, average, node, dtype), w.constant(1 - momentum, dtype)],
                        f"{node.name}_{i}_old")
            more = w.add("Mul", [new, w.constant(momentum, dtype)], f"{node.name}_{i}_new")
            w.add("Cast", [w.add("Add", [old, more], f"{node.name}_{i}_sum")], f"{node.name}_{i}",
                  to=kind_of(node.meta["val"][i].dtype))


def _var_mean(w: Writer, node: Node) -> None:
    x, axes = node.args[0], node.args[1] if len(node.args) > 1 else None
    shape = x.meta["val"].shape
    axes = list(range(len(shape))) if not axes else [a % len(shape) for a in axes]
    count = 1
    for axis in axes:
        count *= shape[axis]
    less = node.kwargs.get("correction")
    less = 1 if less is None else less
    if count - less <= 0:
        raise Unsupported(f"export: a variance of {count} elements with correction {less}")
    _statistics(w, node, w.name(x), axes, None, (f"{node.name}_1", f"{node.name}_0"),
                bool(node.kwargs.get("keepdim", False)), count / (count - less))


def _max_pool_backward(w: Writer, node: Node) -> None:
    """Each element is added where its window had its maximum."""
    gradient, x, indices = node.args[0], node.args[1], node.args[-1]
    images, channels, height, width = x.meta["val"].shape
    flat = w.constant([images, channels, -1], torch.int64)
    values, places = (w.add("Reshape", [w.name(t), flat], f"{node.name}_{what}")
                      for t, what in ((gradient, "rows"), (indices, "places")))
    nothing = w.constant(torch.zeros(images, channels, height * width), dtype_of(x))
    put = w.add("ScatterElements", [nothing, places, values], f"{node.name}_put", axis=2, reduction="add")
    w.add("Reshape", [put, w.constant(list(x.meta["val"].shape), torch.int64)], node.name)


def _average_pool_backward(w: Writer, node: Node) -> None:
    """Each element's share of what its windows have."""
    gradient, x, size, stride, padding, ceil, include, divisor = (*node.args, *([], 0, False, True, None)
                                                                 [len(node.args) - 3:])[:8]
    size, padding = ([v[0], v[-1]] if isinstance(v, (list, tuple)) else [v, v] for v in (size, padding))
    stride = [stride[0], stride[-1]] if stride else size
    shape, made = x.meta["val"].shape, gradient.meta["val"].shape
    more = [shape[-2 + i] - ((made[-2 + i] - 1) * stride[i] - 2 * padding[i] + size[i]) for i in (0, 1)]
    if min(more) < 0 or len(shape) != 4:
        raise Unsupported("export: the gradient of an average pool whose last window ends after the image")
    inside = torch.nn.functional.avg_pool2d(torch.ones(1, 1, *shape[2:]), size, stride, padding, bool(ceil), True, 1)
    count = divisor or (size[0] * size[1] if include else inside)
    shares = w.add("Mul", [w.name(gradient), w.constant(1 / count, dtype_of(x))], f"{node.name}_shares")
    w.add("ConvTranspose", [shares, w.constant(torch.ones(shape[1], 1, *size), dtype_of(x))], node.name,
          strides=stride, pads=[*padding, *padding], group=shape[1], output_padding=more)


def _upsample_backward(w: Writer, node: Node) -> None:
    """Sums of the pixels that were one."""
    gradient, after, before = node.args[:3]
    factors = [a // b for a, b in zip(after, before[2:])]
    if any(a != b * f for a, b, f in zip(after, before[2:], factors)):
        raise Unsupported("export: the gradient of an upsampling by no whole number")
    images, channels, height, width = before
    parts = w.constant([images, channels, height, factors[0], width, factors[1]], torch.int64)
    split = w.add("Reshape", [w.name(gradient), parts], f"{node.name}_parts")
    w.add("ReduceSum", [split, w.constant([3, 5], torch.int64)], node.name, keepdims=0)


def _log1p(w: Writer, node: Node) -> None:
    """log(1 + x), exact to the last digits where x is small: x·log(u) ÷ (u − 1), with u = 1 + x as it was rounded."""
    x, one = w.name(node.args[0]), w.constant(1, dtype_of(node))
    u = w.add("Add", [x, one], f"{node.name}_u")
    less = w.add("Sub", [u, one], f"{node.name}_less")
    none = w.add("Equal", [less, w.constant(0, dtype_of(node))], f"{node.name}_none")
    safe = w.add("Where", [none, one, less], f"{node.name}_safe")
    ratio = w.add("Div", [x, safe], f"{node.name}_ratio")
    scaled = w.add("Mul", [w.add("Log", [u], f"{node.name}_log"), ratio], f"{node.name}_by")
    w.add("Where", [none, x, scaled], node.name)


def _expm1(w: Writer, node: Node) -> None:
    """exp(x) − 1 in the same way: x·(u − 1) ÷ log(u), with u = exp(x) as it was rounded; u − 1 where that is −1."""
    x, zero = w.name(node.args[0]), w.constant(0, dtype_of(node))
    u = w.add("Exp", [x], f"{node.name}_u")
    less = w.add("Sub", [u, w.constant(1, dtype_of(node))], f"{node.name}_less")
    none = w.add("Equal", [less, zero], f"{node.name}_none")
    large = w.add("Greater", [w.add("Abs", [less], f"{node.name}_size"), w.constant(0.5, dtype_of(node))],
                  f"{node.name}_large")
    plain = w.add("Or", [none, large], f"{node.name}_plain")
    log = w.add("Log", [w.add("Where", [plain, w.constant(2, dtype_of(node)), u], f"{node.name}_safe")],
                f"{node.name}_log")
    exact = w.add("Mul", [less, w.add("Div", [x, log], f"{node.name}_ratio")], f"{node.name}_exact")
    w.add("Where", [none, x, w.add("Where", [large, less, exact], f"{node.name}_other")], node.name)


def _attention(w: Writer, node: Node) -> None:
    """Of several results, only the first is known here: a backward pass computes the rest again (decompositions)."""
    if any(reads(node, i) for i in range(1, 9)):
        raise Unsupported("export: attention's logarithms of sums")
    attention_nodes(w, node, f"{node.name}_0", *attention_arguments(node))


def attention_arguments(node: Node) -> tuple[Any, bool, float, Optional[float]]:
    """Mask, whether causal, dropout and scale of an operator of ATTENTION."""
    named = {a.name: node.args[i] if i < len(node.args) else node.kwargs.get(a.name, a.default_value)
             for i, a in enumerate(node.target._schema.arguments)}
    return (named.get("attn_mask", named.get("attn_bias")), bool(named["is_causal"]), float(named["dropout_p"]),
            named.get("scale"))


def _any(w: Writer, node: Node) -> None:
    x = node.args[0]
    if dtype_of(x) != torch.bool:
        raise Unsupported(f"export: any() of {dtype_of(x)}; expected bools")
    axes = node.args[1] if len(node.args) > 1 else list(range(x.meta["val"].dim()))
    inputs = [w.add("Cast", [w.name(x)], f"{node.name}_number", to=kind_of(torch.float32)),
              w.constant([axes] if isinstance(axes, int) else list(axes), torch.int64)]
    most = w.add("ReduceMax", inputs, f"{node.name}_most", keepdims=int(len(node.args) > 2 and bool(node.args[2])))
    w.add("Cast", [most], node.name, to=kind_of(torch.bool))


HANDLERS: dict[Any, Callable[[Writer, Node], None]] = {
    **NODES,
    aten.convolution_backward.default: _convolution_backward, aten.native_group_norm.default: _group_norm,
    aten.native_layer_norm.default: _layer_norm, aten._native_batch_norm_legit.no_stats: _batch_norm,
    aten._native_batch_norm_legit_functional.default: _batch_norm, aten.var_mean.correction: _var_mean,
    aten.max_pool2d_with_indices_backward.default: _max_pool_backward,
    aten.avg_pool2d_backward.default: _average_pool_backward,
    aten.upsample_nearest2d_backward.default: _upsample_backward, aten.log1p.default: _log1p,
    aten.expm1.default: _expm1,
    aten.any.dim: _any, aten.any.dims: _any, aten.any.default: _any,
    **{op: _attention for op in ATTENTION},
}
