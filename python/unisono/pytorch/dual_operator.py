"""unisono::dual_gemm: two products of one left matrix, and what follows both, as one kernel. Regions alone call it."""

from __future__ import annotations

import functools
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from .. import _native
from .._native import Gemm, UserError
from ..operands import Space, operand_view, store_shape
from ..tensors import View, empty, torch_dtypes, view


@functools.lru_cache(512)
def _graph(text: str) -> Any:
    return _native.parse(text)


def _stores(text: str, space: Space) -> list[tuple]:
    """[(name, shape, dtype)] of the results."""
    return [(s.name, store_shape(s.name, s.axes, s.form, s.channels, space), s.dtype) for s in _graph(text).stores]


def _turned(x: View) -> tuple[View, bool]:
    """The matrix as it lies in memory, and whether it is a transpose there."""
    is_turned = x.strides[0] == 1 and x.strides[1] != 1 and x.shape[1] > 1
    return (x.permuted((1, 0)) if is_turned else x), is_turned


@functools.lru_cache(4096)
def _compiled(text: str, m: int, n: int, k: int, turned: tuple[bool, bool], dtype: Any, operands: tuple, device: Any, index: int) -> Any:
    """operands: ((name, dtype), …)."""
    graph = _graph(text)
    options = {"storage": dict(operands), "device": device, "device_index": index}
    if device == _native.Device.cuda:
        options["device_scalars"] = [o.name for o in graph.operands if o.axes == ""]
    contraction = Gemm(m=m, n=n, k=k, transpose_a=turned[0], transpose_b=turned[1], dtype_a=dtype, dtype_b=dtype, products=2)
    return _native.compile(contraction, graph, **options)


def _check(a: Tensor, b0: Tensor, b1: Tensor) -> None:
    if any(t.dim() != 2 for t in (a, b0, b1)) or b0.shape != b1.shape or a.shape[1] != b0.shape[0]:
        raise UserError(f"dual_gemm: a has shape {tuple(a.shape)}, b0 {tuple(b0.shape)}, b1 {tuple(b1.shape)}; expected (m,k) and twice (k,n)")
    if len({t.dtype for t in (a, b0, b1)}) > 1 or len({t.device for t in (a, b0, b1)}) > 1 or b0.stride() != b1.stride():
        raise UserError(f"dual_gemm: b0 is {b0.dtype} on {b0.device} with strides {b0.stride()}, b1 {b1.dtype} on {b1.device} with "
                        f"{b1.stride()}, a {a.dtype} on {a.device}; expected all alike")


@torch.library.custom_op("unisono::dual_gemm", mutates_args=())
def dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], epilogue: str, names: str) -> list[Tensor]:
    """a: (m,k), b0 and b1: (k,n) that lie alike; the epilogue reads acc0 and acc1, and operands by `names` in their order."""
    _check(a, b0, b1)
    (m, k), n = a.shape, b0.shape[1]
    space = Space(1, (m,), n, False, False, False)
    (left, turned_a), (right, turned_b), (right1, _) = map(_turned, (view("a", a), view("b0", b0), view("b1", b1)))
    axes = {o.name: o.axes for o in _graph(epilogue).operands}
    given = {name: view(name, t) for name, t in zip(filter(None, names.split(",")), operands)}
    executable = _compiled(epilogue, m, n, k, (turned_a, turned_b), left.dtype, tuple((name, v.dtype) for name, v in given.items()),
                           left.device, left.index)
    results = [empty(a, shape, dtype) for _, shape, dtype in _stores(epilogue, space)]
    bound = {name: operand_view(name, v, axes[name], space).native() for name, v in given.items()}
    outputs = {name: space.to_native(view(name, t)).native() for (name, shape, _), t in zip(_stores(epilogue, space), results)}
    rights = right.native(), right1.native()
    if a.is_cuda:
        with torch.cuda.device(a.device):
            executable.enqueue(left.native(), rights, bound, outputs=outputs, stream=torch.cuda.current_stream().cuda_stream)
    else:
        executable.run(left.native(), rights, bound, outputs=outputs)
    return results


@dual_gemm.register_fake
def _(a, b0, b1, operands, epilogue, names):
    space = Space(1, (a.shape[0],), b0.shape[1], False, False, False)
    kinds = {d: t for t, d in torch_dtypes().items()}
    return [torch.empty(shape, dtype=kinds[dtype], device=a.device) for _, shape, dtype in _stores(epilogue, space)]
