"""What the forward pass of a functional call keeps for the backward pass: the accumulator, and each normalisation's
mean and rstd.

They are further stores of the same kernel, so that the backward pass computes neither the contraction nor a statistic
again.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Sequence

import torch
from torch import Tensor

from .. import _native
from .._native import Conv2d, Device, DType, Gemm, Layout, Unsupported, parse
from ..operands import Space
from ..tensors import torch_dtypes
from .interpret import NORMALISATIONS
from .texts import one_line
from .shapes import hint

PREFIX = "kept_"  # of the names of such stores
# whose derivatives ask for no value
LINEAR = {"acc", "operand", "constant", "add", "sub", "neg", "cast", "sum", "mean"}


@functools.lru_cache(512)
def keeping(text: str, dtype: DType) -> tuple[str, tuple[str, ...]]:
    """The text with such stores, and their names without PREFIX. The accumulator is rounded to `dtype`, statistics are
    f32.

    Nothing is kept where the epilogue has pooled, upsampled or head stores, which are not differentiated.
    """
    graph = parse(text)
    if any(s.form for s in graph.stores) or not reads_values(text):
        return text, ()
    lines, kept = [f"store acc as {PREFIX}acc : {dtype.name}"], ["acc"]
    names = {}
    for number, node in enumerate(n for n in graph.nodes if n.op in NORMALISATIONS):
        source = node.inputs[0]
        if graph.nodes[source].op != "acc":
            names[source] = f"{PREFIX}input{source}"
        value, domain = names.get(source, "acc"), _domain(node.domain)
        if node.op == "rms_norm":
            lines.append(f"store rsqrt(mean({value} * {value}, {domain}) + {node.eps!r}) as {PREFIX}rstd{number} : f32")
        else:
            lines.append(f"store mean({value}, {domain}) as {PREFIX}mean{number} : f32")
            lines.append(f"store rsqrt(variance({value}, {domain}) + {node.eps!r}) as {PREFIX}rstd{number} : f32")
            kept.append(f"mean{number}")
        kept.append(f"rstd{number}")
    return "; ".join([one_line(graph.text_naming(names)), *lines]), tuple(kept)


@functools.lru_cache(512)
def reads_values(text: str) -> bool:
    """Whether a derivative of the epilogue depends on the accumulator's values."""
    return not all(n.op in LINEAR for n in parse(text).nodes)


def _domain(domain: tuple[bool, bool, bool, int]) -> str:
    rows, cols, per_image, groups = domain
    over = "(m,n)" if rows and cols else "m" if rows else "n"
    return (
        f"over={over}"
        + (", per=b" if per_image and rows else "")
        + (f", groups={groups}" if cols and groups > 1 else "")
    )


def contraction_of(kind: str, first: Tensor, second: Tensor, rest: Sequence[Any], space: Space) -> Conv2d | Gemm:
    """The contraction of a functional call, for tensors that may be fake; symbolic sizes as in their example."""
    dtypes = torch_dtypes()
    shape, other = ([hint(e) or 1 for e in t.shape] for t in (first, second))
    if kind == "conv2d":
        stride, padding, dilation, groups = rest[:4]
        (n, c, h, w), (k, _, r, s) = shape, other
        return Conv2d(n=n, h=h, w=w, c=c, k=k, r=r, s=s, stride=tuple(stride), pad=tuple(padding),
                      dilation=tuple(dilation), groups=groups,
                      layout=Layout.nhwc if space.native_channels_last else Layout.nchw, dtype_x=dtypes[first.dtype],
                      dtype_w=dtypes[second.dtype])
    turned = [
        hint(t.stride(-2)) == 1 and hint(t.stride(-1)) != 1 and (hint(t.shape[-1]) or 1) > 1 for t in (first, second)
    ]
    return Gemm(batch=shape[0] if len(shape) == 3 else 1, m=shape[-2], n=other[-1], k=shape[-1], transpose_a=turned[0],
                transpose_b=turned[1], dtype_a=dtypes[first.dtype], dtype_b=dtypes[second.dtype])


def refusal(text: str, contraction: Conv2d | Gemm, device: torch.device, storage: dict[str, DType],
            scalars: list[str]) -> str:
    """Why no kernel of this GPU has these stores, or ''."""
    try:
        _native.explain(contraction, parse(text), device=Device.cuda, device_index=device.index or 0, storage=storage,
                        device_scalars=set(scalars))
    except Unsupported as reason:
        return str(reason)
    return ""


def warn(what: str, reason: str) -> None:
    """Warns of a fallback."""
    warnings.warn(
        f"unisono.{what}: no kernel stores what the backward pass reads, which computes the contraction and the "
        "epilogue "
        f"again by PyTorch's operators: {reason}",
        stacklevel=6,
    )


