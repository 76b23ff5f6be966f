"""How graphs are written out before regions are found in them."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .regions import aten

# Kept whole where PyTorch's eager mode runs the rest of an inference graph: it has kernels for each of them
WHOLE = (aten.native_group_norm, aten.native_layer_norm, aten.silu, aten.gelu, aten.mish, aten.hardswish, aten.hardsigmoid,
         aten.leaky_relu, aten.hardtanh, aten.addmm)


def group_norm(x: Tensor, scale: Optional[Tensor], shift: Optional[Tensor], images: int, channels: int, inner: int, groups: int,
               eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """native_group_norm by its definition, (x - mean)·rstd·scale + shift in f32. On a CPU, Inductor's own is x·A + B, which
    cancels where the mean is large."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    grouped = wide.reshape(images, groups, channels // groups, *x.shape[2:])  # a view in every memory order
    variance, mean = torch.var_mean(grouped, dim=tuple(range(2, grouped.dim())), correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    y = ((grouped - mean) * rstd).reshape(x.shape)
    for operation, per_channel in ((torch.mul, scale), (torch.add, shift)):
        if per_channel is not None:
            y = operation(y, per_channel.reshape(1, channels, *(1,) * (x.dim() - 2)))
    return y.to(x.dtype), mean.reshape(images, groups).to(x.dtype), rstd.reshape(images, groups).to(x.dtype)


def written_out() -> dict:
    """All that Inductor writes out; normalisations as reductions and elementwise operations."""
    import torch._inductor.lowering  # noqa: F401  (some decompositions ask it, and do not load it)
    from torch._inductor.decomposition import select_decomp_table
    return {**select_decomp_table(), aten.native_group_norm.default: group_norm}


def kept_whole() -> dict:
    kept = {overload for packet in WHOLE for overload in (getattr(packet, name) for name in packet.overloads())}
    return {op: how for op, how in written_out().items() if op not in kept}
