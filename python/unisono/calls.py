"""Calls that were prepared: a compiled kernel with the shapes, strides and dtypes of all tensors; later calls give
addresses."""

from __future__ import annotations

import itertools
import numbers
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from ._native import Device, DType, Graph
from .operands import Space
from .tensors import empty_like_layout, is_torch

MOST_PLANS = 4096
ALIGNMENT = 16  # bytes: where tensors of a GPU's kernels begin, and their pixels, if these lie apart


@dataclass
class Plan:
    """A compiled kernel and how its outputs are made."""

    executable: Any
    graph: Graph
    stores: list[tuple[str, tuple[int, ...], DType, bool]]  # (name, caller's shape, dtype, whether it is an image)
    axes: dict[str, str | None]  # {operand: axes}
    space: Space


class Call:
    """One call, ready but for the addresses of its tensors and its numbers."""

    def __init__(self, native: Any, orders: Sequence[str], results: Sequence[tuple[Any, ...]], device: Device,
                 index: int):
        self.native = native
        self.orders = [(i, o) for i, o in enumerate(orders) if o]  # of the tensors that must be copied
        self.results = results  # (name, shape, strides, dtype)
        self.device, self.index = device, index

    def run(self, tensors: list[Any], numbers_given: list[float], out: dict[str, Any] | None) -> dict[str, Any]:
        """tensors: the two of the contraction, and the operands'. Returns the results by name, new ones or those of
        `out`."""
        like = tensors[0]
        if self.orders:
            for place, order in self.orders:
                tensors[place] = ordered(tensors[place], order)
        if out is None:
            out = {name: empty_like_layout(like, shape, strides, dtype) for name, shape, strides, dtype in self.results}
        given = itertools.chain(tensors, (out[r[0]] for r in self.results))
        addresses = [t.data_ptr() if is_torch(t) else t.__array_interface__["data"][0] for t in given]
        if self.device == Device.cpu:
            self.native.run(addresses, numbers_given)
        else:
            import torch
            stream = torch.cuda.current_stream(self.index)
            self.native.run(addresses, numbers_given, stream.cuda_stream,
                            lambda size: workspace(size, like.device, stream))
        return out


def ordered(tensor: Any, order: str) -> Any:
    """A copy of a tensor of PyTorch in this order of memory that begins at a multiple of ALIGNMENT bytes, or the tensor
    itself where it does."""
    import torch
    form = torch.contiguous_format if order == "contiguous" else getattr(torch, order)
    made = tensor.contiguous(memory_format=form)
    return made if made.data_ptr() % ALIGNMENT == 0 else made.clone(memory_format=form)


def workspace(size: int, device: Any, stream: Any) -> Any:
    """Bytes of a GPU for as long as a call is kept, of PyTorch's allocator and in the order of the stream. A thread of
    its own asks for them: while PyTorch warms up a CUDA graph, what this thread allocates is of the graph's pool and
    must not outlive the run."""
    import torch

    def allocate() -> Any:
        with torch.cuda.stream(stream):
            return torch.empty(size, dtype=torch.uint8, device=device)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(allocate).result()


_plans: OrderedDict[tuple[Any, ...], Plan] = OrderedDict()
_calls: OrderedDict[tuple[Any, ...], Call] = OrderedDict()
_captured: list[Call] = []  # those that a CUDA graph may replay outlive the cache
_lock = threading.Lock()
# compilations, runs of calls that were forgotten, and tensors that prepared calls copy before each launch
_counts = {"misses": 0, "runs": 0, "copies": 0}


def cache_info() -> dict[str, int]:
    """Counts of this process, for all calls and the regions of compiled graphs.

    'plans': compiled kernels in the cache. 'hits': calls that found theirs. 'misses': compilations. 'copies': tensors
    that are copied before each launch because the kernel cannot read their memory order.
    """
    with _lock:
        runs = _counts["runs"] + sum(c.native.runs for c in _calls.values())
        return {"plans": len(_plans), "hits": max(0, runs - _counts["misses"]), "misses": _counts["misses"],
                "copies": _counts["copies"]}


def cache_clear() -> None:
    """Drops all compiled kernels except those that a CUDA graph has captured, and resets the counts."""
    with _lock:
        for call in _calls.values():
            _retire(call)
        _calls.clear()
        _plans.clear()
        _counts.update(misses=0, runs=0, copies=0)


def count_copies(tensors: int) -> None:
    with _lock:
        _counts["copies"] += tensors


def _retire(call: Call) -> None:
    call.native.retire()
    _counts["runs"] += call.native.runs
    if call.native.was_captured:
        _captured.append(call)


def plan_of(key: tuple[Any, ...], make: Callable[[], Plan]) -> Plan:
    """The compiled kernel of a key, made at the first time."""
    with _lock:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
            return plan
    plan = make()
    with _lock:
        _counts["misses"] += 1
        plan = _plans.setdefault(key, plan)
        while len(_plans) > MOST_PLANS:
            _plans.popitem(last=False)
    return plan


def call_of(key: tuple[Any, ...], make: Callable[[], Call]) -> Call:
    """The prepared call of a key, made at the first time."""
    call = _calls.get(key)
    if call is not None:
        return call
    call = make()
    with _lock:
        if (other := _calls.get(key)) is not None:
            return other
        _calls[key] = call
        while len(_calls) > 2 * MOST_PLANS:
            _retire(_calls.popitem(last=False)[1])
    return call


def signature(x: Any) -> Any:
    """What a call is told apart by, of one argument: all of a tensor but its address and values, nothing of a number.
    """
    kind = type(x)
    if kind is float or kind is int:
        return None
    if is_torch(x):
        if x.layout is not sys.modules["torch"].strided:
            return x.layout
        place = x.data_ptr() % ALIGNMENT if x.is_cuda and x.numel() else 0  # whether a slice may be read where it is
        return x.shape, x.stride(), x.dtype, x.device, x.is_neg(), x.is_conj(), place
    if isinstance(x, np.ndarray):
        return x.shape, x.strides, x.dtype, x.flags.writeable
    if isinstance(x, numbers.Real):
        return None
    return kind  # refused with its name when the call is prepared
