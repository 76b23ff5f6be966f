"""unisono::dual_gemm: two products of one left matrix, and what follows both, as one kernel. Regions alone call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from .. import functional
from .._native import DType, Gemm, UserError
from ..launches import Launcher
from ..operands import Space
from ..tensors import View, view
from .operators import _as_list, _fake, _gemm_space, _graph, _out_dtype, _split


@dataclass(frozen=True)
class Rights:
    """Both right matrices where functional calls have one."""

    views: tuple[View, View]

    @property
    def dtype(self) -> DType:
        return self.views[0].dtype

    @property
    def strides(self) -> tuple:
        return tuple(v.strides for v in self.views)

    def native(self) -> tuple:
        return tuple(v.native() for v in self.views)


class DualLauncher(Launcher):
    """On a GPU each call brings its arguments anew, with a workspace of the library's."""

    def enqueue(self, executable: Any, a: View, b: Rights, operands: dict, outputs: dict, stream: int, allocate: Any) -> None:
        executable.enqueue(a.native(), b.native(), {n: v.native() if isinstance(v, View) else v for n, v in operands.items()},
                           outputs={n: v.native() for n, v in outputs.items()}, stream=stream)


def dual_gemm_now(a: Tensor, b0: Tensor, b1: Tensor, epilogue: str, out_dtype: DType, operands: dict) -> Any:
    """a: (m,k), b0 and b1: (k,n) that lie alike; the epilogue reads acc0 and acc1. Results as those of `unisono.gemm`."""
    first, rights = view("a", a), (view("b0", b0), view("b1", b1))
    if any(len(v.shape) != 2 for v in (first, *rights)) or rights[0].shape != rights[1].shape or first.shape[1] != rights[0].shape[0]:
        raise UserError(f"dual_gemm: a has shape {first.shape}, b0 {rights[0].shape}, b1 {rights[1].shape}; expected (m,k) and twice (k,n)")
    if rights[0].dtype != rights[1].dtype or rights[0].strides != rights[1].strides:
        raise UserError(f"dual_gemm: b0 has strides {rights[0].strides} and {rights[0].dtype.name}, b1 {rights[1].strides} and "
                        f"{rights[1].dtype.name}; expected both alike")
    (m, k), n = first.shape, rights[0].shape[1]
    first, turned_a = functional._oriented(first)
    turned_b = functional._oriented(rights[0])[1]
    rights = Rights(tuple(functional._oriented(v)[0] for v in rights))
    contraction = Gemm(m=m, n=n, k=k, transpose_a=turned_a, transpose_b=turned_b, dtype_a=first.dtype, dtype_b=rights.dtype, products=2)
    identity = ("dual_gemm", m, n, k, turned_a, turned_b)
    return functional._run(contraction, identity, first, rights, a, epilogue, operands, Space(1, (m,), n, False, False, False), out_dtype,
                           None, {}, DualLauncher)


@torch.library.custom_op("unisono::dual_gemm", mutates_args=())
def dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
              out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(dual_gemm_now(a, b0, b1, epilogue, _out_dtype(a, out_dtype), _split(names, scalars, operands)))


@dual_gemm.register_fake
def _(a, b0, b1, operands, scalars, epilogue, names, out_dtype):
    space = _gemm_space(a, b0)
    return _fake(a, _graph(epilogue, _split(names, scalars, operands), _out_dtype(a, out_dtype), space), space)
