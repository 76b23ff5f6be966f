"""Which regions kernels serve, and which of these gain: by compiling on a CPU, by plan and prediction on a GPU."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Optional

from .. import _native
from .._native import Device, Unsupported, UserError
from ..tensors import torch_dtypes
from .anchors import contraction_of, contractions_of_pytorch
from .predict import Prediction, bandwidth, passes, predict
from .products import is_transposed
from .regions import Region



@dataclass(frozen=True)
class Limits:
    """Which regions are made."""

    minimum_operators: int = 1  # behind a contraction
    most_stores: int = 3  # results of one kernel with an element for each row and column
    minimum_gain: float = 0.0  # on a GPU, by prediction
    without: frozenset = frozenset()
    spare_sms: int = 0  # left to others, such as communication
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


def build(regions: list[Region], limits: Limits) -> None:
    """On a GPU, compiles all kernels at once, so that first calls find them in the cache."""
    wanted = {_key(region, limits): region for region in regions if region.anchor.meta["val"].device.type == "cuda"}
    with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) - 1))) as pool:
        list(pool.map(lambda r: _native.compile(contraction_of(r), _native.parse(r.text()), **_given(r, limits)),
                      wanted.values()))


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
