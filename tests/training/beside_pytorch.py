"""One step of `unisono train` on random PyTorch modules, whose gradients are those of PyTorch's autograd in float64.

usage: beside_pytorch.py COMMAND [--first N] [--count N]      (needs torch, onnx and numpy)

Each module is exported to ONNX as it was initialised. SGD with a learning rate of 1 and nothing else moves each parameter by
its gradient: the difference of the initializers before and after is compared, and so are loss and running statistics.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

ACTIVATIONS = [F.silu, torch.tanh, F.gelu, F.mish, F.softplus, torch.sigmoid, F.elu, F.hardswish]


def draw_convolution(r, c, h, w):
    groups = r.choice([1, 1, 2]) if c % 2 == 0 else 1
    stride, pad, dilation, taps = r.choice([1, 1, 2]), r.choice([0, 1, 2]), r.choice([1, 1, 2]), r.choice([1, 3, 3, (3, 2)])
    return nn.Conv2d(c, groups * r.choice([2, 3, 4]), taps, stride, pad, dilation, groups, bias=r.random() < 0.7)


def draw_transposed(r, c, h, w):
    stride = r.choice([1, 2])
    return nn.ConvTranspose2d(c, r.choice([2, 3, 4]), r.choice([2, 3]), stride, r.choice([0, 1]), r.choice([0, stride - 1]))


class ChannelsLast(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Gate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(c, 2, 1), nn.SiLU(), nn.Conv2d(2, c, 1))

    def forward(self, x):
        return x * torch.sigmoid(self.inner(x.mean((2, 3), keepdim=True)))


class Call(nn.Module):
    def __init__(self, function, **given):
        super().__init__()
        self.function, self.given = function, given

    def forward(self, x):
        return self.function(x, **self.given)


class Doubled(nn.Module):
    """The image beside what a convolution makes of it."""

    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        return torch.cat([self.conv(x), x], 1)


LAYERS = [
    draw_convolution, draw_convolution, draw_convolution, draw_transposed,
    lambda r, c, h, w: nn.BatchNorm2d(c),
    lambda r, c, h, w: nn.GroupNorm(2 if c % 2 == 0 else 1, c),
    lambda r, c, h, w: nn.InstanceNorm2d(c, affine=True),
    lambda r, c, h, w: ChannelsLast(c),
    lambda r, c, h, w: Gate(c),
    lambda r, c, h, w: Doubled(c),
    lambda r, c, h, w: Call(r.choice(ACTIVATIONS)),
    lambda r, c, h, w: Call(F.max_pool2d, kernel_size=3, stride=2, padding=r.choice([0, 1])),
    lambda r, c, h, w: Call(F.avg_pool2d, kernel_size=2),
    lambda r, c, h, w: Call(F.interpolate, scale_factor=2, mode=r.choice(["nearest", "bilinear"])),
]


def draw(seed):
    """(module, input): layers whose results are images of 2 to 24 rows and columns, then a product or a convolution."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(r.choice([1, 2, 5]), r.choice([1, 3, 4]), r.choice([8, 11, 12]), r.choice([8, 9, 12]))
    layers, y = [], x
    for _ in range(r.randint(2, 7)):
        layer = r.choice(LAYERS)(r, *y.shape[1:])
        try:
            made = layer(y)
        except RuntimeError:  # the window does not fit
            continue
        if 2 <= min(made.shape[2:]) and max(made.shape[2:]) <= 24:
            layers.append(layer)
            y = made.detach()
    c = y.shape[1]
    head = [Call(torch.mean, dim=(2, 3)), nn.Linear(c, 3)] if r.random() < 0.5 else [nn.Conv2d(c, 2, 1)]
    module = nn.Sequential(*layers, *head)
    for m in module.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm, nn.InstanceNorm2d)) and r.random() < 0.7:
            nn.init.normal_(m.weight, 1, 0.3)
            nn.init.normal_(m.bias, 0, 0.3)
        if isinstance(m, nn.BatchNorm2d):
            m.reset_running_stats()
    return module, x


def initializers(path):
    return {i.name: numpy_helper.to_array(i).astype(numpy.float64) for i in onnx.load(path).graph.initializer}


def trained(command, folder, module, x, target, opset=17):
    """Initializers ahead of the step and behind it, and the log's line."""
    module.eval()
    torch.onnx.export(module, (x,), folder / "m.onnx", input_names=["x"], output_names=["y"], dynamo=False, opset_version=opset,
                      training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    numpy.savez(folder / "d.npz", x=x.numpy(), target=target.numpy())
    config = {"model": "m.onnx", "folder": "out", "batch": len(x), "steps": 1, "data": {"training": "d.npz"}, "threads": 1,
              "loss": {"kind": "mean_squared_error"}, "optimiser": {"kind": "sgd", "momentum": 0, "weight_decay": 0},
              "learning_rate": {"rate": 1}}
    (folder / "c.json").write_text(json.dumps(config))
    subprocess.run([command, "train", "c.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return initializers(folder / "m.onnx"), initializers(folder / "out" / "model.onnx"), json.loads((folder / "out" / "log.jsonl").read_text().splitlines()[0])


def slopes(module, x, target, p):
    """The gradient of a parameter by central differences of the module in float64: PyTorch 2.15's own is wrong where the
    gradient of an InstanceNorm's result has its channels last."""
    result, flat = numpy.zeros(p.numel()), p.detach().view(-1)
    for i in range(p.numel()):
        value, losses = flat[i].item(), []
        for step in (1e-5, -1e-5):
            flat[i] = value + step
            losses.append(F.mse_loss(module(x), target).item())
        flat[i] = value
        result[i] = (losses[0] - losses[1]) / 2e-5
    return result.reshape(p.shape)


def complaints(command, seed):
    module, x = draw(seed)
    with torch.no_grad():
        target = torch.randn_like(module.eval()(x))
    with tempfile.TemporaryDirectory() as folder:
        before, after, line = trained(command, pathlib.Path(folder), module, x, target)
    module.double().train()
    x, target = x.double(), target.double()
    loss = F.mse_loss(module(x), target)
    loss.backward()
    if abs(line["loss"] - loss.item()) > 1e-5 * (1 + abs(loss.item())):
        yield f"loss {line['loss']}, expected {loss.item()}"
    for name, b in module.named_buffers():
        if "running" in name and numpy.abs(after[name] - b.numpy()).max() > 1e-5 * (1 + b.abs().max().item()):
            yield f"{name} is {after[name]}, expected {b.numpy()}"
    largest = max(p.grad.abs().max().item() for p in module.parameters())
    allowed = 3e-6 + 5e-5 * largest
    for name, p in module.named_parameters():
        if name not in after:
            yield f"{name} is not learnt"
            continue
        start = p.detach().numpy().copy()  # as exported; an initializer may stand for several in the exported file
        moved = start - after[name].reshape(start.shape)
        error = numpy.abs(moved - p.grad.numpy()).max()
        if error > allowed and numpy.abs(moved - slopes(module, x, target, p)).max() > allowed:
            yield f"{name} is off by {error:.3g}; the largest gradient is {largest:.3g}"


def judge(what, cases):
    """Prints the complaints of all cases, (name, complaints), and ends the program; code 1 if there are any."""
    warnings.filterwarnings("ignore")
    wrong = 0
    for name, found in cases:
        for text in found:
            print(f"{name}: {text}", flush=True)
            wrong += 1
    print(f"{len(cases)} {what}, {wrong} complaints")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    given = parser.parse_args()
    judge("modules", [(f"seed {seed}", complaints(given.command, seed)) for seed in range(given.first, given.first + given.count)])
