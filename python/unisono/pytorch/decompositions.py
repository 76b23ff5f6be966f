"""How graphs are written out before regions are found in them."""

from __future__ import annotations

import operator
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

from .expressions import HANDLERS
from .regions import ALIASES, CASTS, SAVED_STATISTICS, aten, is_tensor, source_of

# Kept whole where PyTorch's eager mode runs the rest of an inference graph: it has kernels for each of them
WHOLE = (aten.native_group_norm, aten.native_layer_norm, aten.silu, aten.gelu, aten.mish, aten.hardswish,
         aten.hardsigmoid, aten.leaky_relu, aten.hardtanh, aten.addmm, aten.cat)


def group_norm(x: Tensor, scale: Optional[Tensor], shift: Optional[Tensor], images: int, channels: int, inner: int,
               groups: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """native_group_norm by its definition, (x - mean)·rstd·scale + shift in f32. On a CPU, Inductor's own is x·A + B,
    which cancels where the mean is large."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    grouped = wide.reshape(images, groups, channels // groups, *x.shape[2:])  # a view in every memory order
    variance, mean = torch.var_mean(grouped, dim=tuple(range(2, grouped.dim())), correction=0, keepdim=True)
    rstd = torch.rsqrt(variance + eps)
    y = ((grouped - mean) * rstd).reshape(x.shape)
    for operation, per_channel in ((torch.mul, scale), (torch.add, shift)):
        if per_channel is not None:
            y = operation(y, per_channel.reshape(1, channels, *(1,) * (x.dim() - 2)))
    kept = statistics_dtype(x, scale, shift)
    y = y.contiguous(memory_format=suggest_memory_format(x))  # the layout of PyTorch's kernels for any strides of x
    return y.to(x.dtype), mean.reshape(images, groups).to(kept), rstd.reshape(images, groups).to(kept)


def statistics_dtype(x: Tensor, *vectors: Optional[Tensor]) -> torch.dtype:
    """What PyTorch's kernels give mean and rstd: on a CPU x's, unless the weights are float32; float32 of 16 bits on a
    GPU. A backward pass reads them; where its terms cancel, a rounded mean leaves nothing right."""
    is_wide = x.device.type != "cpu" or any(t is not None and t.dtype != x.dtype for t in vectors)
    return torch.float32 if is_wide and x.dtype.itemsize == 2 else x.dtype


def _with_wide_statistics(decomposition: Callable) -> Callable:
    """A layer norm. PyTorch's own decomposition rounds the mean and rstd on a CPU for weights of any dtype."""
    def layer_norm(x: Tensor, shape: Any, scale: Optional[Tensor], shift: Optional[Tensor],
                   eps: float) -> tuple[Tensor, Tensor, Tensor]:
        if x.device.type != "cpu" or (kept := statistics_dtype(x, scale, shift)) == x.dtype:
            return decomposition(x, shape, scale, shift, eps)
        y, mean, rstd = decomposition(x.to(kept), shape, scale, shift, eps)
        return y.to(x.dtype), mean, rstd
    return layer_norm


def _with_wide_averages(decomposition: Callable) -> Callable:
    """Of a batch norm in training. PyTorch's own rounds what is left of running averages of 16 bits before it adds what
    is new; its kernels round the sum alone."""
    def batch_norm(x: Tensor, scale: Optional[Tensor], shift: Optional[Tensor], mean: Tensor, variance: Tensor,
                   *more: Any) -> tuple[Tensor, ...]:
        wide = (t if t.dtype == torch.float64 else t.to(torch.float32) for t in (mean, variance))
        *results, new_mean, new_variance = decomposition(x, scale, shift, *wide, *more)
        return *results, new_mean.to(mean.dtype), new_variance.to(variance.dtype)
    return batch_norm


def glu(x: Tensor, dim: int = -1) -> Tensor:
    """By its definition; Inductor would keep it whole until after regions are found."""
    value, gate = x.chunk(2, dim)
    return value * torch.sigmoid(gate)


class _Table(dict):
    """In the key of Inductor's cache it stands by the name of what makes it. PyTorch 2.15 has it there, and some
    functions in it cannot be pickled: nothing would be kept on disk."""

    def __reduce__(self) -> tuple:
        return written_out, ()


def written_out() -> dict:
    """All that Inductor writes out; normalisations as reductions and elementwise operations."""
    import torch._inductor.lowering  # noqa: F401  (some decompositions ask it, and do not load it)
    from torch._inductor.decomposition import select_decomp_table
    table = dict(select_decomp_table())
    for op in (aten._native_batch_norm_legit_functional.default, aten._batch_norm_with_update_functional.default):
        table[op] = _with_wide_averages(table[op])
    layer_norm = aten.native_layer_norm.default
    table[layer_norm] = _with_wide_statistics(table[layer_norm])
    return _Table({**table, aten.native_group_norm.default: group_norm, aten.glu.default: glu})


def kept_whole() -> dict:
    kept = {overload for packet in WHOLE for overload in (getattr(packet, name) for name in packet.overloads())}
    return {op: how for op, how in written_out().items() if op not in kept}


def keep_statistics(graph: Graph) -> int:
    """Has a batch norm's backward pass read the mean and rstd as they were computed; returns how many. On a CPU,
    PyTorch's decomposition rounds what is saved of them to the image's dtype, which its own kernel does not with
    weights of float32; Inductor drops such casts, too. By a rounded mean, gradients that cancel do not."""
    count = 0
    for node in list(graph.nodes):
        if node.target not in CASTS or node.args[0].target not in CASTS or not is_tensor(narrow := node.args[0]):
            continue
        exact = narrow.args[0]
        if (
            "batch_norm" in str(narrow.meta.get("original_aten"))
            and narrow.meta["val"].dim() == 1
            and exact.meta["val"].dtype == node.meta["val"].dtype == torch.float32
        ):
            node.replace_all_uses_with(exact)
            graph.erase_node(node)
            count += 1
    return count


def save_normalised(graph: Graph) -> int:
    """Has the backward pass read the 16-bit values that are normalised, and not compute them again; returns how many.
    Regions take statistics of what is stored; computed again by PyTorch's kernels, one operation at a time, such a
    value would be rounded otherwise."""
    count = 0
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in SAVED_STATISTICS:
            continue
        value = source_of(node.args[0])
        while value.target in CASTS and is_tensor(value.args[0]):
            value = source_of(value.args[0])
        if value.op == "call_function" and is_tensor(value) and value.meta["val"].dtype.itemsize == 2:
            count += "recompute" not in value.meta  # which checkpointing may have set
            value.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    return count


def merge_duplicates(graph: Graph) -> int:
    """Computes what is computed several times once, such as an activation before each of many layers; returns how
    many were taken out. Values that the program sees stay apart, with what is an alias of them, and so does all after
    a write in place."""
    kept, seen, count = _seen_by_the_program(graph), {}, 0
    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            break
        if (
            node.op != "call_function"
            or node in kept
            or node.target not in HANDLERS
            or node.target is operator.getitem
            and node.args[0] in kept
        ):
            continue
        key = (node.target, _frozen(node.args), _frozen(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)
            count += 1
    return count


def _seen_by_the_program(graph: Graph) -> set[Node]:
    found = set()
    for node in next(iter(graph.find_nodes(op="output"))).all_input_nodes:
        while node not in found:
            found.add(node)
            if node.target not in ALIASES:
                break
            node = node.args[0]
    return found


def _frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return tuple((k, _frozen(v)) for k, v in sorted(value.items()))
    return value if isinstance(value, Node) else (type(value), value)  # 1 is not 1.0 here
