"""unisono.swiglu for gradients and tracing: the autograd formula of unisono::dual_gemm.

The forward pass keeps both accumulators as further stores of its kernel, in the dtype of the matrices. The backward
pass is one operator for the epilogue, which autograd computes through PyTorch's operators, and after it four products.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from .. import _native, direct
from .._native import Device, DType, Gemm, Unsupported, UserError, parse
from ..epilogues import graph_of_text
from ..tensors import torch_dtypes
from . import kept
from .interpret import Interpreter
from .epilogue_backward import autograd_within_an_operator, operand, stored
from .library import DUAL_GEMM, LIBRARY, _dual_gemm, _fake_dual_gemm, define, out_dtype_of, typed
from .operators import _check_tensor, _named, join, text_of
from .texts import one_line, registered, split

dual_gemm = define("dual_gemm", DUAL_GEMM, _dual_gemm, _fake_dual_gemm)
fused_dual_gemm = torch.ops.unisono.fused_dual_gemm.default
KEPT = ("acc0", "acc1")


@functools.lru_cache(512)
def _plain(text: str, dtype: DType) -> str:
    """Statements with stores."""
    if not isinstance(registered(text), str):
        raise UserError("swiglu: for gradients, the epilogue must be a text or a unisono.Graph")
    graph = graph_of_text(text, dtype)
    if any(s.axes != "mn" or s.form for s in graph.stores):
        raise UserError("swiglu: for gradients, each store must have one element for each row and column")
    return one_line(str(graph))


@functools.lru_cache(512)
def _keeping(text: str, dtype: DType) -> str:
    return "; ".join([text, *(f"store {acc} as {kept.PREFIX}{acc} : {dtype.name}" for acc in KEPT)])


@functools.lru_cache(512)
def _is_served(text: str, m: int, n: int, k: int, turned: tuple[bool, bool], dtype: DType, index: int,
               storage: tuple[tuple[str, DType], ...], scalars: tuple[str, ...]) -> bool:
    """Whether a GPU has a kernel with the further stores; else a warning has said so."""
    contraction = Gemm(m=m, n=n, k=k, transpose_a=turned[0], transpose_b=turned[1], dtype_a=dtype, dtype_b=dtype,
                       products=2)
    try:
        _native.explain(contraction, parse(text), device=Device.cuda, device_index=index, storage=dict(storage),
                        device_scalars=list(scalars))
    except Unsupported as refusal:
        kept.warn("swiglu", str(refusal))
        return False
    return True


def _keeps(text: str, a: Tensor, b: Tensor, given: dict[str, Any]) -> bool:
    if not a.is_cuda:
        return True  # a CPU serves all
    tensors = {name: t for name, t in given.items() if isinstance(t, Tensor)}
    axes = {o.name: o.axes for o in parse(text).operands}
    kinds = torch_dtypes()
    return _is_served(text, a.shape[0], b.shape[1], a.shape[1], (a.stride(0) == 1, b.stride(0) == 1), kinds[a.dtype],
                      a.device.index or 0, tuple((n, kinds[t.dtype]) for n, t in tensors.items()),
                      tuple(n for n in tensors if axes.get(n) == ""))


BACKWARD = (
    "(Tensor[] grads, Tensor acc0, Tensor acc1, Tensor[] operands, float[] scalars, str epilogue, str names, "
    "bool[] wanted) -> Tensor[]"
)


def _epilogue_backward(grads: Sequence[Tensor], acc0: Tensor, acc1: Tensor, operands: Sequence[Tensor],
                       scalars: Sequence[float], epilogue: str, names: str, wanted: Sequence[bool]) -> list[Tensor]:
    """Gradients of both accumulators, in their dtype, if wanted[0], and of those operands for which it is so."""
    graph, space = parse(epilogue), direct.dual_space((acc0.shape[0], 0), acc0.shape)
    with autograd_within_an_operator(acc0.device.type):
        leaves = [o.detach().requires_grad_(bool(w)) for o, w in zip(operands, wanted[1:])]
        accs = [acc.detach().float().requires_grad_(bool(wanted[0])) for acc in (acc0, acc1)]
        given, inputs = split(names, scalars, leaves), {}
        for info in graph.operands:
            value = given.get(info.name, info.default_value)
            inputs[info.name] = operand(value.float(), info.axes, space) if isinstance(value, Tensor) \
                else torch.full((1, 1, 1), float(value or 0.0), device=acc0.device)
        values = Interpreter(graph, accs[0][None], inputs, second=accs[1][None]).run()
        results = [stored(v, s, space, g) for v, s, g in zip(values, graph.stores, grads)]
        floats = [leaf for leaf in (*accs, *leaves) if leaf.requires_grad]
        pairs = [(r, g) for r, g in zip(results, grads) if r.requires_grad]
        found: Sequence[Optional[Tensor]] = [None] * len(floats)
        if pairs and floats:
            found = torch.autograd.grad([r for r, _ in pairs], floats, [g for _, g in pairs], allow_unused=True)
    gradients = [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(floats, found)]
    return [(g.to(acc0.dtype) if wanted[0] and i < 2 else g).clone(memory_format=torch.contiguous_format)
            for i, g in enumerate(gradients)]


def _fake_epilogue_backward(grads: Sequence[Tensor], acc0: Tensor, acc1: Tensor, operands: Sequence[Tensor],
                            scalars: Sequence[float], epilogue: str, names: str,
                            wanted: Sequence[bool]) -> list[Tensor]:
    made = [torch.empty(acc0.shape, dtype=acc0.dtype, device=acc0.device) for _ in KEPT if wanted[0]]
    return made + [torch.empty(o.shape, dtype=o.dtype, device=o.device) for o, w in zip(operands, wanted[1:]) if w]


dual_epilogue_backward = define("dual_epilogue_backward", BACKWARD, _epilogue_backward, _fake_epilogue_backward)


class Differentiable(torch.autograd.Function):
    """A call of which PyTorch records a derivative: (arguments, a, b0, b1, *operands) → the results of its stores."""

    @staticmethod
    def forward(ctx: Any, arguments: tuple[Any, ...], a: Tensor, b0: Tensor, b1: Tensor,
                *operands: Tensor) -> tuple[Tensor, ...]:
        scalars, epilogue, names, out_dtype = arguments
        text = _plain(epilogue, out_dtype_of(a, out_dtype))
        keeping = _keeping(text, torch_dtypes()[a.dtype])
        ctx.keeps = _keeps(keeping, a, b0, split(names, scalars, operands))
        with torch._C._AutoDispatchBelowAutograd():
            try:
                made = fused_dual_gemm(a, b0, b1, list(operands), scalars, keeping if ctx.keeps else text, names,
                                       out_dtype)
            except RuntimeError as error:
                raise typed(error) from None
        count = len(parse(text).stores)
        ctx.save_for_backward(a, b0, b1, *operands, *made[count:])
        ctx.call, ctx.likes = (scalars, text, names), [(o.shape, o.dtype, o.device) for o in made[:count]]
        ctx.mark_non_differentiable(*(o for o in made[:count] if not o.is_floating_point()))
        return tuple(made[:count])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Any, ...]:
        (a, b0, b1, *rest), needs = ctx.saved_tensors, [bool(n) for n in ctx.needs_input_grad[1:]]
        operands, saved = rest[:len(needs) - 3], rest[len(needs) - 3:]
        acc0, acc1 = saved if ctx.keeps else (a @ b0, a @ b1)
        full = [torch.zeros(s, dtype=t, device=d) if g is None else g for g, (s, t, d) in zip(grads, ctx.likes)]
        wanted = [any(needs[:3]), *needs[3:]]
        found = iter(dual_epilogue_backward(full, acc0, acc1, operands, *ctx.call, wanted))
        factors: list[Optional[Tensor]] = [None, None, None]
        if wanted[0]:
            g0, g1 = next(found), next(found)
            factors = [g0 @ b0.T + g1 @ b1.T if needs[0] else None, a.T @ g0 if needs[1] else None,
                       a.T @ g1 if needs[2] else None]
        return (None, *factors, *(next(found) if w else None for w in needs[3:]))


def _autograd(keyset: Any, a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
              epilogue: str, names: str, out_dtype: Optional[torch.dtype]) -> Any:
    """The kernel at the dispatch key of autograd."""
    if torch.is_grad_enabled() and torch._C._any_requires_grad(a, b0, b1, *operands):
        return list(Differentiable.apply((list(scalars), epilogue, names, out_dtype), a, b0, b1, *operands))
    with torch._C._AutoDispatchBelowAutograd():
        return dual_gemm.redispatch(keyset & torch._C._after_autograd_keyset, a, b0, b1, operands, scalars, epilogue,
                                    names, out_dtype)


LIBRARY.impl("dual_gemm", _autograd, "Autograd", with_keyset=True)


def call_swiglu(a: Tensor, gate: Any, up: Any, epilogue: Any, out_dtype: Optional[torch.dtype],
                operands: dict[str, Any]) -> Any:
    """What unisono.swiglu returns, by the operator: gradients and torch.compile see it."""
    names, scalars, tensors = join(operands)
    for name, one in (("gate", gate), ("up", up)):
        _check_tensor(name, one)
    text = text_of(epilogue)
    return _named(dual_gemm(a, gate, up, tensors, scalars, text, names, out_dtype), text, out_dtype_of(a, out_dtype))
