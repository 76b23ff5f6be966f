"""Gradients and tracing of unisono.conv2d and unisono.gemm: autograd formulas of the operators in library.py.

The forward kernel also stores what the backward pass reads: accumulator, mean and rstd (kept.py). The backward pass is
the operator unisono::epilogue_backward, which tracing does not open and which computes the epilogue's gradients with
PyTorch's operators, followed by the gradients of the contraction as PyTorch's operators. Compiled backward graphs
replace the latter with native kernels.
"""

from __future__ import annotations

import functools
import numbers
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from .._native import DType, Graph, UserError, parse
from ..epilogues import Epilogue, graph_of_text
from ..tensors import torch_dtypes
from . import kept, texts
from .epilogue_backward import stored_results
from .library import LIBRARY, conv_space, gemm_space, out_dtype_of, typed
from .texts import graph_of, registered, split, store_names

torch.utils._pytree.register_constant(Graph)  # to torch.compile: a graph does not change
one_line = torch._dynamo.assume_constant_result(texts.one_line)
aten = torch.ops.aten
conv2d, gemm = torch.ops.unisono.conv2d.default, torch.ops.unisono.gemm.default
FUSED = {"conv2d": torch.ops.unisono.fused_conv2d.default, "gemm": torch.ops.unisono.fused_gemm.default}


def text_of(epilogue: Any) -> str:
    """The epilogue as the operators take it."""
    if isinstance(epilogue, str):
        if epilogue.startswith("@"):
            raise UserError(
                f"the epilogue {epilogue!r} begins with '@'; expected an expression such as 'silu(acc + bias[n])'"
            )
        return one_line(epilogue)
    if isinstance(epilogue, Graph):
        return _text_of_graph(epilogue)
    if not isinstance(epilogue, Epilogue) or epilogue.number < 0:
        raise UserError(
            "where gradients or torch.compile need it, an epilogue is a text, a unisono.Graph, or a function made "
            "by @unisono.epilogue"
        )
    return epilogue.reference


@torch._dynamo.assume_constant_result
def _text_of_graph(graph: Graph) -> str:
    return one_line(str(graph))


def join(operands: dict[str, Any]) -> tuple[str, list[float], list[Tensor]]:
    """The reverse of texts.split."""
    given = {n: v for n, v in operands.items() if v is not None}
    for name, v in given.items():
        if not isinstance(v, numbers.Real):
            _check_tensor(name, v)
    names = ",".join(n + "=" if isinstance(v, numbers.Real) else n for n, v in given.items())
    if torch.compiler.is_compiling():
        names += texts.VERSION
    return (names, [float(v) for v in given.values() if isinstance(v, numbers.Real)],
            [v for v in given.values() if not isinstance(v, numbers.Real)])


def _check_tensor(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise UserError(
            f"argument '{name}' is a {type(x).__name__}, and gradients or tracing need PyTorch tensors; convert it, "
            "for example by torch.from_numpy()"
        )


class Plan:
    """How one differentiable call is computed, apart from its tensors and numbers."""

    def __init__(self, kind: str, first: Tensor, second: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
                 epilogue: str, names: str, rest: tuple[Any, ...]):
        self.kind, self.names, self.rest = kind, names, rest
        self.space = conv_space(first, second, *rest[:3]) if kind == "conv2d" else gemm_space(first, second)
        given, out = split(names, scalars, operands), out_dtype_of(first, rest[-1])
        self.text = _plain(epilogue, out) if isinstance(registered(epilogue), str) \
            else one_line(str(graph_of(epilogue, given, out, self.space)))
        self.stores = len(parse(self.text).stores)
        self.kept_text, self.kept = kept.keeping(self.text, torch_dtypes()[first.dtype])
        if self.kept and first.is_cuda:  # a CPU serves all
            self._check(first, second, given)

    def _check(self, first: Tensor, second: Tensor, given: dict[str, Any]) -> None:
        tensors = {n: v for n, v in given.items() if isinstance(v, Tensor)}
        axes = {o.name: o.axes for o in parse(self.text).operands}
        reason = kept.refusal(self.kept_text, kept.contraction_of(self.kind, first, second, self.rest, self.space),
                              first.device, {n: torch_dtypes()[v.dtype] for n, v in tensors.items()},
                              [n for n in tensors if axes.get(n) == ""])
        if reason:
            kept.warn(self.kind, reason)
            self.kept_text, self.kept = self.text, ()

    def space_numbers(self) -> list[int]:
        """The iteration space as the operator of the backward pass takes it."""
        s = self.space
        return [s.images, *s.rows, s.cols, int(s.channels_first), int(s.native_channels_last), int(s.is_batched)]


_plans: dict[Any, Plan] = {}


def plan_of(kind: str, first: Tensor, second: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
            epilogue: str, names: str, rest: tuple[Any, ...]) -> Plan:
    """The plan for tensors such as these, made once; anew where extents are symbols, which is while something traces.
    """
    tensors = (first, second, *operands)
    if any(not isinstance(e, int) for t in tensors for e in (*t.shape, *t.stride())):
        return Plan(kind, first, second, operands, scalars, epilogue, names, rest)
    moves = tuple(tuple(r) if isinstance(r, (list, tuple)) else r for r in rest)
    key = (kind, epilogue, names, moves, tuple((tuple(t.shape), t.stride(), t.dtype, t.device) for t in tensors))
    if (plan := _plans.get(key)) is None:
        if len(_plans) >= 4096:
            _plans.clear()
        plan = _plans[key] = Plan(kind, first, second, operands, scalars, epilogue, names, rest)
    return plan


@functools.lru_cache(512)
def _plain(text: str, dtype: DType) -> str:
    return one_line(str(graph_of_text(text, dtype)))


def _contracted(kind: str, first: Tensor, second: Tensor, rest: tuple[Any, ...]) -> Any:
    """The accumulator by PyTorch, where the forward pass could not keep it."""
    if kind == "gemm":
        return torch.matmul(first, second)
    stride, padding, dilation, groups = rest[:4]
    return aten.convolution.default(first, second, None, stride, padding, dilation, False, [0, 0], groups)


def _contraction_gradients(kind: str, gradient: Tensor, first: Tensor, second: Tensor, rest: tuple[Any, ...],
                           wanted: Sequence[bool]) -> list[Optional[Tensor]]:
    """By PyTorch's operators: native kernels for them are put in their place in the backward graph
    (BACKWARD_CONTRACTIONS)."""
    if kind == "conv2d":
        stride, padding, dilation, groups = rest[:4]
        found = aten.convolution_backward.default(gradient, first, second, None, stride, padding, dilation, False,
                                                  [0, 0], groups, [wanted[0], wanted[1], False])
        return [g if w else None for g, w in zip(found, wanted)]
    return [torch.matmul(gradient, second.mT) if wanted[0] else None,
            torch.matmul(first.mT, gradient) if wanted[1] else None]


def _differentiated(
    plan: Plan, scalars: Sequence[float], tensors: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
) -> Any:
    """Gradients that are differentiable themselves: contraction and epilogue once more, by PyTorch's operators."""
    tensors = [t.view_as(t) for t in tensors]  # of what is given twice, each has its own gradient
    first, second, *operands = tensors
    with torch.autocast(first.device.type, enabled=False):
        acc = _contracted(plan.kind, first, second, plan.rest).float()
        results = stored_results(parse(plan.text), acc, split(plan.names, scalars, operands), plan.space, grads)
        wanted = [t for t, w in zip(tensors, needs) if w]
        pairs = [(r, g) for r, g in zip(results, grads) if r.requires_grad]
        found = iter(
            torch.autograd.grad(
                [r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True
            )
            if pairs
            else [None] * len(wanted)
        )
    return tuple(next(found) if w else None for w in needs)


class Differentiable(torch.autograd.Function):
    """A call of which PyTorch records a derivative: (plan, numbers, first, second, *operands) → the results of its
    stores."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, scalars: list[float], first: Tensor, second: Tensor,
                *operands: Tensor) -> tuple[Tensor, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            try:
                made = FUSED[plan.kind](first, second, list(operands), scalars, plan.kept_text, plan.names, *plan.rest)
            except RuntimeError as error:
                raise typed(error) from None
        results, ctx.plan, ctx.scalars = made[:plan.stores], plan, scalars
        ctx.save_for_backward(first, second, *operands, *made[plan.stores:])
        ctx.likes = [(o.shape, o.dtype, o.device) for o in results]
        ctx.mark_non_differentiable(*(o for o in results if not o.is_floating_point()))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Optional[Tensor]) -> tuple[Any, ...]:
        plan, count = ctx.plan, len(ctx.needs_input_grad) - 4
        first, second, *others = ctx.saved_tensors
        operands, saved, kept_names = others[:count], others[count:], ",".join(plan.kept)
        full = [torch.zeros(s, dtype=t, device=d) if g is None else g for g, (s, t, d) in zip(grads, ctx.likes)]
        needs = [bool(n) for n in ctx.needs_input_grad[2:]]
        if torch.is_grad_enabled():  # create_graph=True
            return (None, None, *_differentiated(plan, ctx.scalars, (first, second, *operands), full, needs))
        if not plan.kept and kept.reads_values(plan.text):
            saved, kept_names = [_contracted(plan.kind, first, second, plan.rest)], "acc"
        wanted = [needs[0] or needs[1], *needs[2:]]
        made = torch.ops.unisono.epilogue_backward(full, saved, operands, ctx.scalars, plan.text, plan.names,
                                                   kept_names, plan.space_numbers(), wanted, first.dtype)
        found = iter(made)
        gradients = (
            _contraction_gradients(plan.kind, next(found), first, second, plan.rest, needs[:2])
            if wanted[0]
            else [None, None]
        )
        return (None, None, *gradients, *(next(found) if w else None for w in needs[2:]))


def _autograd(kind: str, operator: Any) -> Any:
    """The kernel at the dispatch key of autograd."""
    def kernel(keyset: Any, first: Tensor, second: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
               epilogue: str, names: str, *rest: Any) -> Any:
        if torch.is_grad_enabled() and torch._C._any_requires_grad(first, second, *operands):
            plan = plan_of(kind, first, second, operands, scalars, epilogue, names, rest)
            return list(Differentiable.apply(plan, list(scalars), first, second, *operands))
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, first, second, operands, scalars,
                                       epilogue, names, *rest)
    return kernel


LIBRARY.impl("conv2d", _autograd("conv2d", conv2d), "Autograd", with_keyset=True)
LIBRARY.impl("gemm", _autograd("gemm", gemm), "Autograd", with_keyset=True)


def call_conv2d(x: Tensor, w: Any, epilogue: Any, stride: Sequence[int], padding: Sequence[int],
                dilation: Sequence[int], groups: int, out_dtype: Optional[torch.dtype],
                operands: dict[str, Any]) -> Any:
    """What unisono.conv2d returns, by the operator: gradients and torch.compile see it."""
    names, scalars, tensors = join(operands)
    _check_tensor("w", w)
    text = text_of(epilogue)
    results = conv2d(x, w, tensors, scalars, text, names, list(stride), list(padding), list(dilation), groups,
                     out_dtype)
    return _named(results, text, out_dtype_of(x, out_dtype))


def call_conv2d_into(
    x: Tensor,
    w: Any,
    epilogue: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    out: Any,
    operands: dict[str, Any],
) -> None:
    """What unisono.conv2d_into does, by the operator: torch.compile sees that `out` is written."""
    names, scalars, tensors = join(operands)
    text, outs = text_of(epilogue), [out]
    if isinstance(out, dict):
        stores = _names_of_stores(text)
        if sorted(stores) != sorted(out):
            raise UserError(f"conv2d_into: out= has {', '.join(sorted(out))}; expected the stores {', '.join(stores)}")
        outs = [out[name] for name in stores]
    for name, one in (("w", w), *(("out", o) for o in outs)):
        _check_tensor(name, one)
    torch.ops.unisono.conv2d_out(
        x, w, tensors, scalars, text, names, list(stride), list(padding), list(dilation), groups, outs
    )


def call_gemm(a: Tensor, b: Any, epilogue: Any, out_dtype: Optional[torch.dtype], operands: dict[str, Any]) -> Any:
    names, scalars, tensors = join(operands)
    _check_tensor("b", b)
    text = text_of(epilogue)
    return _named(gemm(a, b, tensors, scalars, text, names, out_dtype), text, out_dtype_of(a, out_dtype))


def _named(results: list[Tensor], text: str, dtype: DType) -> Any:
    return results[0] if len(results) == 1 else dict(zip(_names_of_stores(text), results))


@torch._dynamo.assume_constant_result
def _names_of_stores(text: str) -> list[str]:
    return store_names(text)
