"""Which products of float32 PyTorch itself computes as tf32 on a GPU. Kernels there multiply float32 as tf32
(docs/numerics.md), so a compiled graph takes them only for these."""

from __future__ import annotations

import torch
from torch.fx import Node

from .regions import Refused

KINDS = ("convolutions", "products")
SETTINGS = {
    "convolutions": "torch.backends.cudnn.allow_tf32",
    "products": "torch.backends.cuda.matmul.allow_tf32, or torch.set_float32_matmul_precision('high')",
}


def kinds_of_tf32() -> tuple[str, ...]:
    """Those of KINDS that PyTorch's settings leave to tf32, now. Without cuDNN a convolution is one of its products."""
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        products, convolutions = (torch._C._get_fp32_precision_getter("cuda", op) == "tf32"
                                  for op in ("matmul", "conv"))
    else:  # PyTorch before 2.9
        products, convolutions = torch._C._get_cublas_allow_tf32(), torch._C._get_cudnn_allow_tf32()
    found = {"convolutions": convolutions if torch._C._get_cudnn_enabled() else products, "products": products}
    return tuple(kind for kind in KINDS if found[kind])


def guard_settings() -> None:
    """Has Dynamo compile the function again where kinds_of_tf32() has become another: by itself it looks at the setting
    of products only. Nothing is guarded outside of Dynamo, where a graph is compiled once."""
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, ImportSource, Source
    from torch._guards import TracingContext
    if TracingContext.try_get() is None:
        return
    root, *names = (*__name__.split("."), kinds_of_tf32.__name__)
    source: Source = ImportSource(root)
    for name in names:
        source = AttrSource(source, name)
    install_guard(CallFunctionNoArgsSource(source).make_guard(GuardBuilder.EQUALS_MATCH))


def check_precision(node: Node, kind: str, allowed: tuple[str, ...]) -> None:
    """Raises Refused for a contraction of float32 on a GPU that PyTorch would not compute as tf32."""
    value = node.meta["val"]
    if value.device.type == "cuda" and value.dtype == torch.float32 and kind not in allowed:
        raise Refused("float32, which kernels of a GPU multiply as tf32, and PyTorch does not: "
                      f"{SETTINGS[kind]} is off")
