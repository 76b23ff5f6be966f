"""Modules around networks, so that all of them take tensors and return a tuple of tensors."""
import torch


def tensors(value):
    """The tensors in what a network returns, in order."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, dict):
        value = value.values()
    return tuple(t for part in value for t in tensors(part)) if value is not None else ()


class Flat(torch.nn.Module):
    """call(net, *inputs), by default net(*inputs), with the result flattened."""

    def __init__(self, net, call=None):
        super().__init__()
        self.net = net
        self.call = call or (lambda net, *inputs: net(*inputs))

    def forward(self, a, b=None, c=None, d=None, e=None, f=None):
        return tensors(self.call(self.net, *[x for x in (a, b, c, d, e, f) if x is not None]))


def image(size, channels=3, batch=1):
    size = (size, size) if isinstance(size, int) else size
    return {"image": torch.randn(batch, channels, *size)}
