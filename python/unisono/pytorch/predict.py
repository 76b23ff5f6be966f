"""What a region gains on a GPU, by the cost model: its kernel's time beside that of PyTorch's kernels for the same nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from .. import _native
from .._native import Device
from ..tensors import torch_dtypes
from .expressions import STATISTICS, REDUCTIONS
from .regions import Region, hinted

BANDWIDTH_SHARE = 0.85  # of what memory can do, in a pointwise kernel that streams
LAUNCH_US = 1.5  # between two kernels of one CUDA graph


@dataclass(frozen=True)
class Prediction:
    """Microseconds: the region's kernel, and PyTorch's contraction with the pointwise and reducing kernels behind it."""

    ours: float
    theirs: float

    @property
    def gain(self) -> float:
        """The share of the region's own time by which PyTorch's is longer: 0.2 is 1.2 times as fast."""
        return self.theirs / self.ours - 1 if self.ours > 0 else 0.0


def _bytes(node: Node) -> int:
    count = 1
    for extent in hinted(node):
        count *= extent
    return count * node.meta["val"].element_size()


def bandwidth(device: torch.device) -> float:
    """Bytes a second of the device's memory, by its clock and width."""
    if not torch.cuda.is_available():
        return 4.8e12  # an H200's, for which kernels are planned where there is no GPU
    properties = torch.cuda.get_device_properties(device)
    clock, width = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return 2e3 * clock * width / 8 if clock and width else 3.35e12


def passes(region: Region) -> int:
    """How often PyTorch's kernels read the contraction's result: once for each reduction that others wait for, and once more."""
    statistics = sum(n.target in STATISTICS or n.target in REDUCTIONS for n in region.absorbed)
    return statistics + 1


def has_bias_pass(region: Region) -> bool:
    """PyTorch adds the bias of a convolution in a pass of its own, cuBLAS that of a product in its kernel."""
    return region.kind == "conv2d" and region.anchor.args[2] is not None


def predict(region: Region, contraction: Any, explanation: Any, bytes_a_second: float) -> Prediction:
    """explanation: of the region's own kernel. The contraction alone is taken to be as fast in PyTorch as ours is alone, of
    images in channels last: cuDNN's kernels are about as fast in either order."""
    alone = _native.explain(contraction, _native.parse(_bare(region)), device=Device.cuda,
                            device_index=region.anchor.meta["val"].device.index or 0)
    behind = passes(region) if region.absorbed or has_bias_pass(region) else 0
    moved = behind * sum(map(_bytes, region.heads))
    moved += sum(_bytes(node) for node, _ in region.operands)
    moved += sum(_bytes(node) for node in region.results() if node not in region.heads or not region.absorbed)
    more = 1e6 * moved / (BANDWIDTH_SHARE * bytes_a_second) + LAUNCH_US * behind if behind else 0.0
    return Prediction(explanation.predicted_us, alone.predicted_us + more)


def _bare(region: Region) -> str:
    """The epilogue that only stores what is multiplied."""
    dtype = torch_dtypes()[region.anchor.meta["val"].dtype].name
    return "".join(f"store {acc} as {acc}_ : {dtype}\n" for acc in (("acc",) if region.third is None else ("acc0", "acc1")))
