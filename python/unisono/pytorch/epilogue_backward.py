"""The operator unisono::epilogue_backward: gradients of an epilogue, computed by autograd through PyTorch's operators
from what the forward pass has kept (kept.py). Tracing does not open it."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional, Sequence

import torch
from torch import Tensor

from .._native import Graph, UserError, parse
from ..operands import Space
from .interpret import NORMALISATIONS, Interpreter
from .library import LIBRARY
from .texts import split


def _canonical(x: Tensor, space: Space) -> Tensor:
    """A tensor in the caller's order with the rank of values [m,n], as (images, rows, columns)."""
    if space.channels_first:
        x = x.permute(0, 2, 3, 1)
    elif not space.is_batched:
        x = x.unsqueeze(0)
    return x.reshape(x.shape[0], -1, x.shape[-1])


def operand(x: Tensor, axes: str, space: Space) -> Tensor:
    if axes == "mn":
        return _canonical(x, space)
    row, has_groups, count = axes.partition("g")
    if has_groups:  # each of its columns
        return x.reshape(space.images if row else 1, 1, -1).repeat_interleave(space.cols // int(count), -1)
    shape = {"": (1, 1, 1), "n": (1, 1, -1), "b": (-1, 1, 1), "bn": (space.images, 1, -1),
             "m": (space.images, -1, 1)}[axes]
    return x.reshape(shape)


def stored(value: Tensor, store: Any, space: Space, like: Tensor) -> Tensor:
    """A value as its store writes it, by differentiable operations."""
    row, has_groups, count = store.axes.partition("g")
    if store.form or "m" not in row and "b" not in row and row not in ("n", ""):
        raise UserError(f"the backward pass of store '{store.name}' ({store.form}) is not there; detach it")
    images, rows, cols = space.images, space.row_count // space.images, space.cols
    value = value.expand(images if "b" in row or "m" in row else 1, rows if "m" in row else 1,
                         cols if "n" in row or has_groups else 1)
    if has_groups:
        value = value[..., :: cols // int(count)]
    if store.axes == "mn" and space.channels_first:
        value = value.reshape(images, *space.rows, cols).permute(0, 3, 1, 2)
    return value.reshape(like.shape).to(like.dtype)


@contextlib.contextmanager
def autograd_within_an_operator(device: str) -> Iterator[None]:
    """Lets autograd record: kernels of operators run below its dispatch keys. Autocast stays off."""
    keys, excluded = torch._C.DispatchKey, torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradCPU, keys.AutogradCUDA, keys.AutogradOther, keys.ADInplaceOrView):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad(), \
            torch.autocast(device, enabled=False):
        yield


def _space_of(numbers_given: Sequence[int]) -> Space:
    images, *rows, cols, first, last, batched = numbers_given
    return Space(images, tuple(rows), cols, bool(first), bool(last), bool(batched))


BACKWARD = (
    "(Tensor[] grads, Tensor[] kept, Tensor[] operands, float[] scalars, str epilogue, str names, str kept_names, "
    "SymInt[] space, bool[] wanted, ScalarType dtype) -> Tensor[]"
)


def _spread_statistic(x: Tensor, domain: tuple[bool, bool, bool, int], space: Space) -> Tensor:
    """A stored statistic as wide as values (images, rows, columns)."""
    rows, cols, per_image, groups = domain
    x = x.float()
    if rows:
        x = x.reshape(space.images if per_image else 1, 1, groups if cols else space.cols)
    else:
        x = x.reshape(space.images, -1, groups)
    return x.repeat_interleave(space.cols // groups, 2) if cols and groups > 1 else x


def _statistics(graph: Graph, saved: dict[str, Tensor], space: Space) -> Optional[list[tuple[Any, ...]]]:
    nodes = [n for n in graph.nodes if n.op in NORMALISATIONS]
    if not any(name.startswith("rstd") for name in saved):
        return None
    return [
        tuple(
            _spread_statistic(saved[f"{what}{i}"], n.domain, space) if f"{what}{i}" in saved else None
            for what in ("mean", "rstd")
        )
        for i, n in enumerate(nodes)
    ]


def stored_results(graph: Graph, acc: Tensor, given: dict[str, Any], space: Space, likes: Sequence[Tensor],
                    statistics: Optional[list[tuple[Any, ...]]] = None) -> list[Tensor]:
    """What the epilogue stores of an accumulator, by differentiable operations.

    likes: a tensor of each store's shape and dtype.
    """
    inputs = {}
    for info in graph.operands:
        value = given.get(info.name, info.default_value)
        if isinstance(value, Tensor):
            value = operand(value.float() if value.is_floating_point() else value, info.axes, space)
        else:
            value = torch.full((1, 1, 1), float(value or 0.0), dtype=torch.float32, device=acc.device)
        inputs[info.name] = value
    values = Interpreter(graph, _canonical(acc, space), inputs, statistics).run()
    return [stored(v, s, space, g) for v, s, g in zip(values, graph.stores, likes)]


def _epilogue_backward(grads: Sequence[Tensor], saved: Sequence[Tensor], operands: Sequence[Tensor],
                       scalars: Sequence[float], epilogue: str, names: str, kept_names: str,
                       space_numbers: Sequence[int], wanted: Sequence[bool], dtype: torch.dtype) -> list[Tensor]:
    """Gradients of the accumulator, if wanted[0], in `dtype`, and of those operands for which it is so; f32 at least
    inside."""
    space, device = _space_of(space_numbers), grads[0].device
    graph = parse(epilogue)
    values = dict(zip(filter(None, kept_names.split(",")), saved))
    with autograd_within_an_operator(device.type):
        leaves = [o.detach().requires_grad_(bool(w)) for o, w in zip(operands, wanted[1:])]
        given = split(names, scalars, leaves)
        acc = values["acc"].detach().float() if "acc" in values else torch.zeros(space.shape_mn, device=device)
        acc.requires_grad_(bool(wanted[0]))
        results = stored_results(graph, acc, given, space, grads, _statistics(graph, values, space))
        floats = [leaf for leaf in (acc, *leaves) if leaf.requires_grad]
        pairs = [(r, g) for r, g in zip(results, grads) if r.requires_grad]
        found: Sequence[Optional[Tensor]] = [None] * len(floats)
        if pairs and floats:
            found = torch.autograd.grad([r for r, _ in pairs], floats, [g for _, g in pairs], allow_unused=True)
    gradients = [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(floats, found)]
    if wanted[0]:
        gradients[0] = gradients[0].to(dtype)
    return [_laid(g, space if i == 0 and wanted[0] else None) for i, g in enumerate(gradients)]


def _laid(gradient: Tensor, space: Optional[Space]) -> Tensor:
    """A gradient in separate memory; that of the accumulator in the order of the images."""
    order = (
        torch.channels_last
        if space is not None and space.channels_first and space.native_channels_last
        else torch.contiguous_format
    )
    return gradient.clone(memory_format=order)


def _fake_epilogue_backward(grads: Sequence[Tensor], saved: Sequence[Tensor], operands: Sequence[Tensor],
                            scalars: Sequence[float], epilogue: str, names: str, kept_names: str,
                            space_numbers: Sequence[int], wanted: Sequence[bool], dtype: torch.dtype) -> list[Tensor]:
    space, device, made = _space_of(space_numbers), grads[0].device, []
    if wanted[0]:
        last = space.channels_first and space.native_channels_last
        made.append(torch.empty(space.shape_mn, dtype=dtype, device=device,
                                memory_format=torch.channels_last if last else torch.contiguous_format))
    return made + [torch.empty(o.shape, dtype=o.dtype, device=device) for o, w in zip(operands, wanted[1:]) if w]


LIBRARY.define("epilogue_backward" + BACKWARD, tags=(torch.Tag.pt2_compliant_tag,))
LIBRARY.impl("epilogue_backward", _epilogue_backward, "CompositeExplicitAutograd")
torch.library.register_fake("unisono::epilogue_backward", _fake_epilogue_backward, lib=LIBRARY)
