"""Which regions kernels serve, and which of these gain: by compiling on a CPU, by plan and prediction on a GPU."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Optional

import torch

from .. import _native
from .._native import Device, Unsupported, UserError
from ..tensors import torch_dtypes
from .anchors import contraction_of, contractions_of_pytorch
from .precision import KINDS
from .predict import Prediction, bandwidth, passes, predict
from .products import is_transposed
from .regions import Region


@dataclass(frozen=True)
class Limits:
    """Which regions are made."""

    minimum_operators: int = 1  # after a contraction
    most_stores: int = 3  # results of one kernel with an element for each row and column
    minimum_gain: float = 0.0  # on a GPU, by prediction
    without: frozenset = frozenset()
    spare_sms: int = 0  # left to others, such as communication
    strict: bool = False  # what a call would copy before each launch is an error
    tf32: tuple[str, ...] = KINDS  # contractions of float32 that a GPU may compute as tf32
    # what was predicted for equal regions of a graph
    known: dict[tuple, Prediction] = field(default_factory=dict, compare=False)


def _given(region: Region, limits: Limits) -> dict:
    """Options of the region's kernel, as the operator has them when it runs."""
    kinds, device = torch_dtypes(), region.anchor.meta["val"].device
    found = {"storage": {name: kinds[node.meta["val"].dtype] for (node, _), name in region.operands.items()}}
    if device.type == "cuda":
        scalars = [name for (_, axes), name in region.operands.items() if axes == ""]
        found.update(device=Device.cuda, device_index=device.index or 0, device_scalars=scalars,
                     spare_sms=limits.spare_sms)
    return found


def _key(region: Region, limits: Limits) -> tuple:
    """What its kernel depends on, in the example."""
    first, second = region.first.meta["val"], region.second.meta["val"]
    orders = region.space.native_channels_last if region.kind == "conv2d" else (is_transposed(region.first),
                                                                                is_transposed(region.second))
    return (str(contraction_of(region)), region.moves, region.output_padding, len(region.factors), orders, first.dtype,
            first.device, second.dtype,
            region.text(), tuple(n.meta["val"].dtype for n, _ in region.operands), limits.spare_sms)


class Kernels:
    """Kernels of regions that other threads compile meanwhile, on a GPU: what PyTorch does with the rest of a graph
    takes one core and about as long. Calls find them in the cache.

    with Kernels() as kernels:
        kernels.begin(region, limits)
        …
        kernels.wait()
    """

    def __init__(self) -> None:
        self.problems: dict[str, Any] = {}  # by the anchor: contraction, epilogue and options, on any device
        self._begun: dict[tuple, Future] = {}
        self._pool: Optional[ThreadPoolExecutor] = None

    def __enter__(self) -> Kernels:
        return self

    def begin(self, region: Region, limits: Limits) -> None:
        """Equal kernels are compiled once."""
        problem = contraction_of(region), region.text(), _given(region, limits)
        self.problems[region.anchor.name] = problem
        if region.anchor.meta["val"].device.type != "cuda" or not torch.cuda.is_available():
            return
        if (key := _key(region, limits)) in self._begun:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) - 1)), "unisono kernels")
        contraction, text, options = problem
        self._begun[key] = self._pool.submit(_native.compile, contraction, _native.parse(text), **options)

    def wait(self) -> None:
        """Until all are there. Raises the first error, CompileError and the like."""
        for each in self._begun.values():
            each.result()

    def __exit__(self, *failure: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def judged(region: Region, limits: Limits) -> tuple[Optional[str], Optional[Prediction]]:
    """Why no kernel serves the region, or None; on a GPU, where it is planned, a prediction, which equal regions share.
    On the CPU it is compiled."""
    device = region.anchor.meta["val"].device
    try:
        graph, contraction = _native.parse(region.text()), contraction_of(region)
        if device.type == "cpu":
            _native.compile(contraction, graph, **_given(region, limits))
            return None, None
        key = (*_key(region, limits), passes(region), not region.absorbed)
        if key not in limits.known:
            explanation = _native.explain(contraction, graph, **_given(region, limits))
            limits.known[key] = predict(region, contractions_of_pytorch(region), explanation, bandwidth(device))
        return None, limits.known[key]
    except (Unsupported, UserError) as error:
        return str(error), None
