"""float32 as tensor cores read it: contractions whose factors have the ten bits behind the point that tf32 keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# Which arguments are multiplied with one another, by the kind of PyTorch's setting
FACTORS = {
    "convolutions": {aten.convolution.default: (0, 1), aten.convolution_backward.default: (0, 1, 2)},
    "products": {aten.mm.default: (0, 1), aten.bmm.default: (0, 1), aten.addmm.default: (1, 2), aten.baddbmm.default: (1, 2)},
}
LOST = 0x1FFF  # the bits that are not read


def truncated(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~LOST).view(torch.float32) if x.dtype == torch.float32 else x


class Truncated(TorchDispatchMode):
    """Within it, contractions of these kinds read factors of float32 as tf32."""

    def __init__(self, kinds: list[str]):
        super().__init__()
        self.factors = {op: places for kind in kinds for op, places in FACTORS[kind].items()}

    def __torch_dispatch__(self, op: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        places = self.factors.get(op, ())
        return op(*(truncated(a) if i in places else a for i, a in enumerate(args)), **(kwargs or {}))
