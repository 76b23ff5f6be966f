"""Derivatives of volumes, their averages, resizes, products over axes, samples at positions and recurrent layers in `unisono train`, beside PyTorch's autograd in float64.

usage: operators_beside_pytorch.py COMMAND      (needs torch, onnx and numpy)

As beside_pytorch.py: SGD with a learning rate of 1 moves each parameter by its gradient. Parameters stand ahead of each
operator, so that the gradient of its data counts, too.
"""

import pathlib
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
from beside_pytorch import Call, judge, trained
from shuffles import batch_of
from torch import nn


class Product(nn.Module):
    """Of what has zeros and of what has none: each makes gradients of its own."""

    def __init__(self, dim, keepdim, rectified):
        super().__init__()
        self.dim, self.keepdim, self.rectified = dim, keepdim, rectified

    def forward(self, x):
        return (F.relu(x) if self.rectified else x).prod(self.dim, keepdim=self.keepdim)


def volumes():
    for seed, (size, taps, how) in enumerate([
        ((4, 5, 6), 3, {"padding": 1}),
        ((5, 4, 7), (3, 2, 3), {"stride": (2, 1, 3), "dilation": (2, 1, 1), "groups": 2}),
        ((1, 1, 5), (1, 1, 3), {"padding": (0, 0, 2), "stride": (1, 1, 2)}),
        ((6, 3, 1), (2, 3, 1), {"padding": (3, 1, 0), "groups": 4}),
        ((7, 8, 6), (3, 3, 2), {"stride": 3, "padding": (0, 1, 1)}),
    ]):
        yield f"Conv3d {how}", seed, (2, 4, *size), nn.Sequential(nn.Conv3d(4, 4, 1), nn.SiLU(), nn.Conv3d(4, 8, taps, **how))
    for seed, (size, taps, how) in enumerate([
        ((3, 2, 4), 3, {"padding": 1}),
        ((2, 3, 4), 2, {"stride": 2}),
        ((2, 3, 2), 3, {"stride": (2, 1, 3), "padding": (1, 0, 1), "output_padding": (1, 0, 2), "groups": 2}),
        ((1, 2, 3), (3, 1, 2), {"dilation": (2, 1, 1), "stride": (1, 2, 2), "output_padding": (0, 1, 1)}),
    ]):
        yield f"ConvTranspose3d {how}", seed, (2, 4, *size), nn.Sequential(nn.Conv3d(4, 4, 1), nn.SiLU(), nn.ConvTranspose3d(4, 6, taps, **how))


def pools():
    for seed, (size, taps, how) in enumerate([
        ((5, 4, 6), 2, {}), ((4, 7, 5), (3, 2, 3), {"stride": (2, 1, 2), "padding": (1, 1, 0)}), ((6, 5, 7), 3, {"stride": 2, "padding": 1, "count_include_pad": False}),
        ((5, 6, 7), 3, {"stride": 3, "ceil_mode": True}), ((1, 1, 3), (1, 1, 2), {"stride": 1}),
    ]):
        yield f"avg_pool3d {how}", 80 + seed, (2, 2, *size), nn.Sequential(nn.Conv3d(2, 3, 1), Call(F.avg_pool3d, kernel_size=taps, **how), nn.Conv3d(3, 2, 1))


def resizes():
    for seed, (mode, how) in enumerate([
        ("trilinear", {"size": (5, 3, 7)}), ("trilinear", {"size": (2, 7, 9), "align_corners": True}), ("nearest", {"size": (6, 2, 5)}), ("trilinear", {"scale_factor": 2.0}),
    ]):
        yield f"{mode} {how}", seed, (2, 3, 4, 5, 6), nn.Sequential(nn.Conv3d(3, 3, 1), Call(F.interpolate, mode=mode, **how), nn.Conv3d(3, 2, 1))
    for seed, (mode, how) in enumerate([
        ("bicubic", {"size": (9, 4)}), ("bicubic", {"size": (5, 11), "align_corners": True}), ("bilinear", {"size": (3, 13)}), ("bilinear", {"size": (9, 4), "align_corners": True}),
        ("nearest", {"size": (4, 15)}), ("bilinear", {"size": (1, 1)}),
    ]):
        yield f"{mode} {how}", seed, (2, 3, 7, 6), nn.Sequential(nn.Conv2d(3, 3, 1), Call(F.interpolate, mode=mode, **how), nn.Conv2d(3, 2, 1))


def products():
    for seed, (dim, keepdim, rectified) in enumerate([(1, True, False), (1, True, True), (2, False, True), (3, False, False), (1, False, True), (3, True, True)]):
        head = nn.Conv2d(1 if dim == 1 else 3, 2, 1)
        tail = [head] if keepdim else [Call(torch.unsqueeze, dim=dim), head]
        yield f"prod {dim}", 20 + seed, (3, 2, 3, 3), nn.Sequential(nn.Conv2d(2, 3, 1), Product(dim, keepdim, rectified), *tail)


class Sampled(nn.Module):
    """Images at positions that are learnt, some of them outside."""

    def __init__(self, axes, **how):
        super().__init__()
        conv = nn.Conv2d if axes == 2 else nn.Conv3d
        self.image, self.grid, self.how = conv(2, 3, 1), conv(2, axes, 1), how

    def forward(self, x):
        grid = self.grid(x).movedim(1, -1) * 1.2
        return F.grid_sample(self.image(x), grid, **self.how)


def samples():
    for axes, size in ((2, (5, 7)), (2, (1, 4)), (3, (3, 4, 5))):
        for mode in ("bilinear", "nearest") if axes == 3 else ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                for align in (False, True):
                    how = {"mode": mode, "padding_mode": padding, "align_corners": align}
                    head = (nn.Conv2d if axes == 2 else nn.Conv3d)(3, 2, 1)
                    yield f"{axes}-D samples {how}", 40 + axes, (2, 2, *size), nn.Sequential(Sampled(axes, **how), head)


class Recurrent(nn.Module):
    """A layer ahead of which, behind which and at whose initial states parameters stand; perhaps rows of several lengths."""

    def __init__(self, kind, width, hidden, lengths, given, **how):
        super().__init__()
        states = hidden * how.get("num_layers", 1) * (2 if how.get("bidirectional") else 1)
        self.ahead, self.layer = nn.Linear(width, width), kind(width, hidden, batch_first=True, **how)
        self.head = nn.Linear(2 * hidden if how.get("bidirectional") else hidden, 3)
        self.states = nn.ModuleList([nn.Linear(width, states) for _ in range(2 if kind is nn.LSTM else 1)] if given else [])
        self.lengths, self.hidden = lengths, hidden

    def forward(self, x):
        first = [s(x[:, 0]).unflatten(1, (-1, self.hidden)).movedim(1, 0) for s in self.states]
        x = self.ahead(x)
        if self.lengths is not None:
            x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(self.lengths), batch_first=True)
        y, last = self.layer(x, *([tuple(first) if len(first) == 2 else first[0]] if first else []))
        if self.lengths is not None:
            y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        last = last if isinstance(last, tuple) else (last,)
        return self.head(y) + sum(s.sum((0, 2)) for s in last)[:, None, None]


def recurrences():
    two, both, bare = {"num_layers": 2}, {"bidirectional": True}, {"bias": False}
    for seed, (kind, steps, lengths, given, how) in enumerate([
        (nn.LSTM, 5, None, False, {}), (nn.LSTM, 4, (4, 3, 1), True, both), (nn.LSTM, 1, None, True, bare), (nn.LSTM, 3, (3, 3, 2), False, two | both),
        (nn.GRU, 5, None, False, {}), (nn.GRU, 4, (4, 2, 1), True, both), (nn.GRU, 1, None, True, bare), (nn.GRU, 3, None, True, two | both),
        (nn.RNN, 5, None, False, {}), (nn.RNN, 4, (4, 2, 2), True, both), (nn.RNN, 3, None, True, {"nonlinearity": "relu"} | two),
    ]):
        for width, hidden in ((4, 3), (1, 1)):
            name = f"{kind.__name__} {steps} steps, lengths {lengths}, {how}, {hidden} states"
            yield name, 60 + seed, (3, steps, width), Recurrent(kind, width, hidden, lengths, given, **how)


def complaints(command, seed, shape, module):
    torch.manual_seed(seed)
    for p in module.parameters():
        nn.init.normal_(p, 0, 0.5)
    x = torch.randn(shape)
    with torch.no_grad():
        target = torch.randn_like(module(x))
    with tempfile.TemporaryDirectory() as folder:
        before, after, line = trained(command, pathlib.Path(folder), module, x, target, 20)
    module.double()
    order = batch_of(0, len(x), len(x), 0)
    loss = F.mse_loss(module(x[order].double()), target[order].double())
    loss.backward()
    if not abs(line["loss"] - loss.item()) <= 1e-5 * (1 + abs(loss.item())):
        yield f"loss {line['loss']}, expected {loss.item()}"
    largest = max(p.grad.abs().max().item() for p in module.parameters())
    for name, p in module.named_parameters():
        error = numpy.abs(p.detach().numpy() - after[name] - p.grad.numpy()).max() if name in after else numpy.inf
        if not error <= 1e-6 + 2e-5 * largest:
            yield f"the gradient of {name} is off by {error:.3g}; the largest gradient is {largest:.3g}"
    if not largest > 1e-3:
        yield f"the largest gradient is {largest:.3g}, which shows nothing"


if __name__ == "__main__":
    judge("modules", [(name, complaints(sys.argv[1], seed, shape, module)) for name, seed, shape, module in (*volumes(), *pools(), *resizes(), *products(), *samples(), *recurrences())])
