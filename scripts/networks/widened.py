"""PyTorch in float64 throughout, also where a network asks for float32 by name."""
import torch
from torch.overrides import TorchFunctionMode


class Widened(TorchFunctionMode):
    """Networks compute embeddings of time and rotations in float32 whatever their weights are; in here, in float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            return args[0].double()

        def wide(value):
            return torch.float64 if value is torch.float32 else value
        return func(*map(wide, args), **{k: wide(v) for k, v in (kwargs or {}).items()})


def evaluate(net, inputs):
    """The outputs in float64. The network's own weights become float64."""
    net.double()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Widened():
            return net(*[x.double() if x.is_floating_point() else x for x in inputs])
    finally:
        torch.set_default_dtype(before)
