"""Epilogue graphs by PyTorch's own operators, so that autograd differentiates them."""

from __future__ import annotations

import functools
from typing import Optional

import torch
import torch.nn.functional as F

from .._native import Graph, Unsupported
from ..tensors import torch_dtypes

UNARY = {
    "neg": torch.neg,
    "abs": torch.abs,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardswish": F.hardswish,
    "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "logsigmoid": F.logsigmoid,
    "logical_not": torch.logical_not,
}
WITH_ATTRIBUTES = {
    "leaky_relu": lambda n, x: torch.where(x > 0, x, x * n.alpha),
    "elu": lambda n, x: torch.where(x > 0, x, n.alpha * torch.expm1(x.clamp(max=0))),
    "hardsigmoid": lambda n, x: torch.clamp(n.alpha * x + n.beta, 0, 1),
    "clamp": lambda n, x: torch.clamp(x, n.lower, n.upper),
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "min": torch.minimum, "max": torch.maximum,
    "pow": torch.pow, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge,
    "equal": torch.eq, "not_equal": torch.ne, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
}
NORMALISATIONS = {"group_norm", "instance_norm", "layer_norm", "batch_norm", "rms_norm"}


def _spread(x: torch.Tensor, domain: tuple, reduce) -> torch.Tensor:
    """The reduction of x (images, rows, columns) over the domain, spread over the columns that share a result."""
    rows, cols, per_image, groups = domain
    images, count, width = x.shape
    x = x.reshape(images, count, groups, width // groups) if cols else x.unsqueeze(2)
    dims = ([1] if per_image else [0, 1]) * rows + [3] * cols
    result = reduce(x, dims)
    if cols and groups > 1:
        return result.repeat_interleave(width // groups, 2).squeeze(3)
    return result.squeeze(2)


class Normalised(torch.autograd.Function):
    """(x − mean)·rstd, with the statistics given and their derivative in the backward pass; x·rstd where there is no
    mean.

    Backward: rstd·(g − mean(g) − x̂·mean(g·x̂)), means over the domain (Ioffe & Szegedy 2015, Wu & He 2018); no mean(g)
    in RMS.
    """

    @staticmethod
    def forward(ctx, x, mean, rstd, domain):
        normalised = (x if mean is None else x - mean) * rstd
        ctx.save_for_backward(normalised, rstd)
        ctx.domain, ctx.is_centred = domain, mean is not None
        return normalised

    @staticmethod
    def backward(ctx, gradient):
        normalised, rstd = ctx.saved_tensors
        mean = functools.partial(_spread, domain=ctx.domain, reduce=REDUCTIONS["mean"])
        result = gradient - normalised * mean(gradient * normalised)
        return (result - mean(gradient) if ctx.is_centred else result) * rstd, None, None, None


def _statistics(n, x: torch.Tensor, domain: tuple, kept: Optional[tuple]) -> torch.Tensor:
    """x normalised, without scale and shift. kept: mean (or None) and rstd that the forward pass has stored."""
    if kept is not None:
        return Normalised.apply(x, *kept, domain)
    if n.op == "rms_norm":
        return x * torch.rsqrt(_spread(x.square(), domain, lambda v, d: v.mean(d, True)) + n.eps)
    centred = x - _spread(x, domain, lambda v, d: v.mean(d, True))
    return centred * torch.rsqrt(_spread(centred.square(), domain, lambda v, d: v.mean(d, True)) + n.eps)


REDUCTIONS = {
    "sum": lambda v, d: v.sum(d, True),
    "mean": lambda v, d: v.mean(d, True),
    "reduce_max": lambda v, d: v.amax(d, True),
    "reduce_min": lambda v, d: v.amin(d, True),
    "sum_squares": lambda v, d: v.square().sum(d, True),
    "variance": lambda v, d: v.var(d, unbiased=False, keepdim=True),
}


class Interpreter:
    """Values are (images or 1, rows of an image or 1, columns or 1), in the dtype of their node."""

    def __init__(self, graph: Graph, acc: torch.Tensor, operands: dict[str, torch.Tensor],
                 kept: Optional[list[tuple]] = None, second: Optional[torch.Tensor] = None):
        """kept: mean and rstd of each normalisation, in order, as wide as the accumulator, if the forward pass has
        stored them. second: the other accumulator of a dual product."""
        self.graph, self.acc, self.operands, self.second = graph, acc, operands, second
        self.kept = iter(kept) if kept is not None else None
        self.kinds = {d: t for t, d in torch_dtypes().items()}
        self.values: list[torch.Tensor] = []

    def run(self) -> list[torch.Tensor]:
        """The stored values, as wide as their axes, before they are rounded."""
        for node in self.graph.nodes:
            value = self._node(node, [self.values[i] for i in node.inputs])
            kind = self.kinds.get(node.dtype)
            if kind is None:
                raise Unsupported(f"the backward pass of an epilogue in {node.dtype.name}: PyTorch has no such dtype")
            self.values.append(
                value
                if value.dtype == kind or self.acc.dtype == torch.float64 and value.is_floating_point()
                else value.to(kind)
            )
        return [self.values[s.value] for s in self.graph.stores]

    def _full(self, x: torch.Tensor) -> torch.Tensor:
        return x.expand(self.acc.shape)

    def _node(self, node, inputs):
        op = node.op
        if op == "acc":
            return self.acc
        if op == "acc1":
            return self.second
        if op == "operand":
            return self.operands[node.name]
        if op == "constant":
            return torch.full((1, 1, 1), node.value, dtype=self.acc.dtype, device=self.acc.device)
        if op in ("cast",):
            return inputs[0]
        if op == "select":
            return torch.where(*inputs)
        if op == "fma":
            return inputs[0] * inputs[1] + inputs[2]
        if op in ("max", "min") and len(inputs) == 1:
            op = f"reduce_{op}"
        if op in UNARY:
            return UNARY[op](self._wide(inputs[0]) if op != "logical_not" else inputs[0])
        if op in WITH_ATTRIBUTES:
            return WITH_ATTRIBUTES[op](node, self._wide(inputs[0]))
        if op in BINARY:
            return BINARY[op](*inputs)
        if op in REDUCTIONS:
            return _spread(self._full(self._wide(inputs[0])), node.domain, REDUCTIONS[op])
        if op == "softmax":
            x = self._full(self._wide(inputs[0]))
            e = torch.exp(x - _spread(x, node.domain, REDUCTIONS["reduce_max"]).detach())
            return e / _spread(e, node.domain, REDUCTIONS["sum"])
        if op in NORMALISATIONS:
            result = _statistics(node, self._full(self._wide(inputs[0])), node.domain,
                                 next(self.kept) if self.kept else None)
            result = result * inputs[1] if node.has_scale else result
            return result + inputs[1 + node.has_scale] if node.has_shift else result
        raise Unsupported(f"the backward pass of '{op}' in an epilogue; detach its inputs, or compute it by PyTorch")

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        """Short floats are computed in f32 and rounded once."""
        return x.to(self.acc.dtype) if x.is_floating_point() else x
