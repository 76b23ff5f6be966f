"""Contractions of a graph as the beginnings of regions."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.fx import Node

from .._native import Conv2d, ConvTranspose2d, Gemm, Layout
from ..operands import Space
from ..tensors import torch_dtypes
from . import shapes
from .products import check_matrices, is_transposed
from .regions import FLOATS, Refused, Region, aten, hinted, is_tensor, shape_of
from .texts import is_last


CONTRACTIONS = (aten.convolution.default, aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)
WITH_A_SUMMAND = (aten.addmm.default, aten.baddbmm.default)
# Contractions of backward passes that have no kernel here yet; native ones will be anchors as those above are
BACKWARD_CONTRACTIONS = (aten.convolution_backward.default,)


def check(node: Node, *nodes: Any) -> None:
    for one in (node, *nodes):
        if not is_tensor(one):
            raise Refused(f"{one} is not a tensor")
        value = one.meta["val"]
        if value.dtype not in FLOATS or value.dtype != node.meta["val"].dtype:
            raise Refused(f"{one.name} is {value.dtype}; regions are of one of float32, float16 and bfloat16")
        if value.device.type not in ("cpu", "cuda") or 0 in hinted(one):
            raise Refused(f"{one.name} is empty or on {value.device}")


def kind_of(node: Node) -> str:
    """The contraction's name among the kinds of fusion that can be switched off."""
    return "convolutions" if node.target is aten.convolution.default else "products"


def anchor_of(node: Node, without: frozenset = frozenset()) -> Region:
    """The region of a contraction alone, with its bias. Raises Refused."""
    is_convolution = node.target is aten.convolution.default
    if (kind := kind_of(node)) in without:
        raise Refused(f"switched off by without=('{kind}',)")
    if is_convolution:
        x, w, bias, stride, padding, dilation, transposed, more, groups = node.args
        if len(stride) != 2:
            raise Refused("a convolution of one or three dimensions")
        if any(isinstance(e, Node) for e in (*stride, *padding, *dilation, *more, groups)):
            raise Refused("a convolution whose stride, padding, dilation or groups vary from call to call")
        check(node, x, w)
        n, k, *rows = shape_of(node)
        region = Region(node, "conv2d", x, w,
                        Space(n, tuple(rows), k, True, is_last_example(x, w) or is_one_channel_last(node)),
                        (tuple(stride), tuple(padding), tuple(dilation), groups), without=without,
                        output_padding=tuple(more) if transposed else None)
    else:
        bias, (a, b) = (node.args[0], node.args[1:3]) if node.target in WITH_A_SUMMAND else (None, node.args)
        check(node, a, b)
        check_matrices(a, b)
        shape = shape_of(node)
        space = Space(shape[0] if len(shape) == 3 else 1, (shape[-2],), shape[-1], False, False, len(shape) == 3)
        region = Region(node, "gemm", a, b, space, without=without)
    region.names[node], region.dims[node] = "acc", region.whole
    if bias is not None:
        alpha, beta = (node.kwargs.get(k, 1) for k in ("alpha", "beta"))
        if isinstance(alpha, Node) or isinstance(beta, Node):
            raise Refused("a factor of the product or of its summand that varies from call to call")
        alpha, beta = float(alpha), float(beta)
        added = ""
        if beta != 0:  # else what is in it does not count
            axes = "n" if is_convolution else region.axes_of(bias, region.whole)
            added = f" + {'' if beta == 1 else f'{beta!r} * '}{region.value(bias, axes=axes)}"
        region.lines.append((node, f"c = {'' if alpha == 1 else f'{alpha!r} * '}acc{added}"))
        region.names[node] = "c"
    return region


def is_one_channel_last(node: Node) -> bool:
    """Whether a convolution of an image of one channel, which lies in either order, gives one that lies channels last
    alone: its kernel is that for few channels then, and what follows needs no conversion."""
    if node.target is not aten.convolution.default or node.args[6] or shape_of(node.args[0])[1] != 1:
        return False
    value, image = node.meta["val"], node.args[0].meta["val"]
    return (
        value.is_contiguous(memory_format=torch.channels_last) and not value.is_contiguous() and image.is_contiguous()
    )


def is_last_example(x: Node, w: Node) -> bool:
    """Uses the operator's own layout rule on meta tensors with the example's strides."""
    def example(node: Node) -> torch.Tensor:
        strides = [shapes.hint(s) for s in node.meta["val"].stride()]
        if None in strides:
            raise Refused(f"{node.name} has strides for which no example is known")
        return torch.empty_strided(hinted(node), strides, device="meta")
    return is_last(example(x), example(w), "")


def contraction_of(region: Region, layout: Optional[Layout] = None, products: Optional[int] = None,
                   filters: int = 1) -> Any:
    """As it is in the example. layout: of images, if not theirs; products: of a convolution, if not the region's;
    filters: that many times its own."""
    kinds = torch_dtypes()
    first, second = region.first.meta["val"], region.second.meta["val"]
    if region.kind == "conv2d":
        (n, c, h, w), (*_, r, s) = hinted(region.first), hinted(region.second)
        stride, padding, dilation, groups = region.moves
        layout = layout or (Layout.nhwc if region.space.native_channels_last else Layout.nchw)
        make, more = (Conv2d, {"products": products or len(region.factors) - 1}) if region.output_padding is None else \
            (ConvTranspose2d, {"output_pad": region.output_padding})
        return make(n=n, h=h, w=w, c=c, k=filters * shapes.hint(region.space.cols), r=r, s=s, stride=stride,
                    pad=padding, dilation=dilation, groups=groups,
                    layout=layout, dtype_x=kinds[first.dtype], dtype_w=kinds[second.dtype], **more)
    (*batch, m, k), n = hinted(region.first), hinted(region.second)[-1]
    return Gemm(batch=batch[0] if batch else 1, m=m, n=n, k=k, transpose_a=is_transposed(region.first),
                transpose_b=is_transposed(region.second),
                dtype_a=kinds[first.dtype], dtype_b=kinds[second.dtype], products=len(region.factors) - 1)


def contractions_of_pytorch(region: Region) -> list[Any]:
    """What PyTorch's kernels compute for it, of images in channels last: of a pair of convolutions either, or the one
    that is cut in two."""
    if region.kind != "conv2d" or region.third is None:
        return [contraction_of(region, Layout.nhwc)]
    is_cut = region.anchor not in region.heads
    one = contraction_of(region, Layout.nhwc, products=1, filters=2 if is_cut else 1)
    return [one] if is_cut else [one, one]
