"""What a region gains on a GPU, by the cost model: its kernel's time against that of PyTorch's kernels for the same
nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator

import torch
from torch.fx import Node

from .. import _native
from .._native import Device
from ..tensors import torch_dtypes
from .expressions import REDUCTIONS, STATISTICS
from .regions import ALIASES, CASTS, Region, aten, hinted, is_copy, is_size

BANDWIDTH_SHARE = 0.85  # of what memory can do, in a pointwise kernel that streams
LAUNCH_US = 1.5  # between two kernels of one CUDA graph


@dataclass(frozen=True)
class Prediction:
    """Microseconds: the region's kernel, and PyTorch's contraction with the pointwise and reducing kernels after
    it."""

    ours: float
    theirs: float
    takes_slices: bool = False  # whether the kernel reads an image that is channels of a wider one
    plan: str = ""
    plan_from: str = ""  # the cost model, or what was measured

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
    """How many passes of PyTorch's kernels over the contraction's result the region saves: one for each reduction, and
    the one that ends in what the region stores. A bare region saves the latter only if nothing else makes it. Others
    are credited with it in any case, although Inductor may join it with what reads it: resnet50_gn was slower in a run
    without that credit, which had another change besides (docs/notes/pytorch.md)."""
    statistics = sum(n.target in STATISTICS or n.target in REDUCTIONS for n in region.absorbed)
    return statistics + (1 if region.absorbed else has_last_pass(region))


def has_bias(region: Region) -> bool:
    """Whether it is a convolution with a bias, which PyTorch adds after it."""
    return region.kind == "conv2d" and region.anchor.args[2] is not None


def has_last_pass(region: Region) -> bool:
    """Whether PyTorch would make a value that the region computes in a separate pass: not if all that reads it is
    elementwise or reduces, which Inductor does in one kernel with what is ahead. cuBLAS adds the bias of a product in
    its own kernel. A concatenation that the region's kernel writes into is such a pass as well."""
    computed = [
        n
        for n in region.results()
        if region.is_full(n)
        and (not _is_head(n, region) or has_bias(region) or region.third is not None)
        or n in region.forms
    ]
    return any(not _joins_a_pass(reader) for n in computed for reader in _readers(n, region))


def _is_head(node: Node, region: Region) -> bool:
    """Whether a value is what the contraction gives, or a view, a copy or a cast of it: PyTorch stores it without a
    pass, but for a bias, which its reader adds."""
    while node.target in (*ALIASES, aten.clone.default, *CASTS):
        node = node.args[0]
    return node in region.heads


def _readers(node: Node, region: Region) -> Iterator[Node]:
    """What reads a result outside of the region, after views and copies."""
    for user in node.users:
        if user in region.names or is_size(user):
            continue
        if is_copy(user):
            yield from _readers(user, region)
        else:
            yield user


def _joins_a_pass(node: Node) -> bool:
    tags = {torch.Tag.pointwise, torch.Tag.reduction} & set(getattr(node.target, "tags", ()))
    return node.op == "call_function" and (bool(tags) or node.target in STATISTICS or node.target in REDUCTIONS)


def predict(region: Region, alones: list[Any], explanation: Any, bytes_a_second: float) -> Prediction:
    """alones: what PyTorch multiplies by; explanation: of the region's own kernel. The contraction alone is taken to be
    as fast in PyTorch as ours is alone, of images in channels last: cuDNN's kernels are about as fast in either
    order."""
    if not (behind := passes(region)) and not region.absorbed:
        return _prediction(explanation, explanation.predicted_us)  # bare kernels are taken to be alike
    alone = sum(
        _native.explain(
            one,
            _native.parse(_bare(region)),
            device=Device.cuda,
            device_index=region.anchor.meta["val"].device.index or 0,
        ).predicted_us
        for one in alones
    )
    moved = behind * sum(map(_bytes, region.heads))
    moved += sum(_bytes(node) for node, _ in region.operands)
    if behind:
        moved += sum(_bytes(node) for node in region.results() if not _is_head(node, region) or not region.absorbed)
    more = 1e6 * moved / (BANDWIDTH_SHARE * bytes_a_second) + LAUNCH_US * behind
    return _prediction(explanation, alone + more)


def _prediction(explanation: Any, theirs: float) -> Prediction:
    return Prediction(explanation.predicted_us, theirs, explanation.takes_slices, explanation.plan, explanation.origin)


def is_dual_product(region: Region) -> bool:
    """Pairs of convolutions are compared with those that PyTorch has: with one kernel for each, or for both."""
    return region.third is not None and region.kind == "gemm"


def _bare(region: Region) -> str:
    """The epilogue that only stores what is multiplied."""
    dtype = torch_dtypes()[region.anchor.meta["val"].dtype].name
    return "".join(
        f"store {acc} as {acc}_ : {dtype}\n" for acc in (("acc0", "acc1") if is_dual_product(region) else ("acc",))
    )
