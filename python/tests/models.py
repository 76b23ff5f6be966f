"""Small networks that several tests compile, and comparisons with float64."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}


def norm(x):
    return x.double().flatten().norm()


def no_worse(mine, theirs, right, what=""):
    """Relative L2 against float64 is at most 1.5 times PyTorch's in the same precision, or two units of the dtype."""
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, what
    assert torch.isfinite(mine).all(), what
    ours, others = norm(mine.double() - right), norm(theirs.double() - right)
    assert ours <= max(1.5 * others, 2 * UNITS[mine.dtype] * norm(right)), f"{what}: {ours / norm(right)} beside {others / norm(right)}"


class Block(nn.Module):
    """Conv → GroupNorm → SiLU, a time embedding, Conv → GroupNorm → Mish, a residual."""

    def __init__(self, channels=16, groups=4, inputs=3):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(inputs, channels, 3, padding=1), nn.GroupNorm(groups, channels)
        self.c2, self.n2 = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(groups, channels)
        self.time = nn.Linear(8, channels)

    def forward(self, x, t):
        h = F.silu(self.n1(self.c1(x)))
        h = h + self.time(t)[:, :, None, None]
        return h + F.mish(self.n2(self.c2(h)))


class Pair(nn.Module):
    """Conv → GroupNorm → Mish, twice."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(4, outputs)
        self.c2, self.n2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(4, outputs)

    def forward(self, x):
        return F.mish(self.n2(self.c2(F.mish(self.n1(self.c1(x))))))


class UNet(nn.Module):
    """Two levels, two Conv → GroupNorm → Mish a level, a skip connection and a 1×1 head."""

    def __init__(self, width=8, inputs=3, outputs=2):
        super().__init__()
        self.down, self.deep, self.up = Pair(inputs, width), Pair(width, 2 * width), Pair(2 * width, width)
        self.narrow, self.head = nn.Conv2d(2 * width, width, 1), nn.Conv2d(width, outputs, 1)

    def forward(self, x):
        skip = self.down(x)
        h = self.narrow(F.interpolate(self.deep(F.max_pool2d(skip, 2)), scale_factor=2, mode="nearest"))
        return self.head(self.up(torch.cat([skip, h], 1)))


def randomise(module, seed=0):
    """All parameters drawn anew, so that none is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            scale = 0.5 if p.dim() == 1 else (2 / p[0].numel()) ** 0.5
            p.copy_(torch.randn(p.shape, generator=generator) * scale + (1 if p.dim() == 1 else 0) * 0.5)
    return module


def gradients(module, call, *inputs):
    """Result of call(*inputs) and gradients of a weighted sum of it: of the floating-point inputs and of all parameters."""
    leaves = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in inputs]
    module.zero_grad(set_to_none=True)
    result = call(*leaves)
    weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(7)).to(result)
    (result * weight).sum().backward()
    return [result.detach(), *(t.grad for t in leaves if t.requires_grad), *(p.grad for p in module.parameters() if p.grad is not None)]


def root_sum(errors):
    return sum(e**2 for e in errors) ** 0.5


def errors_of_gradients(module, call, inputs, runs=()):
    """Relative L2 against float64 of each tensor that gradients() gives: by call, or those of its results in runs."""
    wide = copy.deepcopy(module).double()
    right = gradients(wide, wide, *(t.double() if t.is_floating_point() else t for t in inputs))
    runs = runs or gradients(module, call, *inputs)
    assert len(runs) == len(right)
    return [(norm(one.double() - exact) / norm(exact)).item() for one, exact in zip(runs, right)]


def nudged(module, unit, draw):
    """A copy of module with every parameter changed in its last bits."""
    other, generator = copy.deepcopy(module), torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1 + 2 * unit * torch.randn(p.shape, generator=generator).to(p))
    return other


def compare_gradients(module, compiled, *inputs):
    """Compares result and gradients with float64 and with eager mode in the same precision.

    The gradient of a bias may be a few numbers, each a long sum of terms that cancel. Its error is a draw in eager mode too: one
    that is above the bound is compared with the largest of eager mode's errors over parameters that differ in their last bits.
    """
    mine, theirs = gradients(module, compiled, *inputs), gradients(module, module, *inputs)
    assert len(mine) == len(theirs)
    for i, (one, other) in enumerate(zip(mine, theirs)):
        assert one.shape == other.shape and one.dtype == other.dtype and torch.isfinite(one).all(), f"tensor {i}"
    ours, eager = (errors_of_gradients(module, None, inputs, runs) for runs in (mine, theirs))
    units = [UNITS[t.dtype] for t in mine]

    def within(draws, of_all):
        bounds = [max(3 * max(e), 8 * unit) for e, unit in zip(zip(*draws), units)]
        total, most = root_sum(ours), of_all * max(root_sum(errors) for errors in draws)
        return [f"tensor {i}: {o}, at most {b}" for i, (o, b) in enumerate(zip(ours, bounds)) if o > b] + [
            f"of all gradients: {total}, at most {most}"] * (total > most)

    if within([eager], 1.5):
        others = [nudged(module, max(units), draw) for draw in range(8)]
        wrong = within([eager, *(errors_of_gradients(other, other, inputs) for other in others)], 2)
        assert not wrong, "; ".join(wrong)


class Strided(nn.Module):
    """A level of nnU-Net: the skip is read by the next convolution, too, and a transposed one joins it."""

    def __init__(self, width=8, residual=False, inputs=3):
        super().__init__()
        self.down, self.deep = nn.Conv2d(inputs, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.up, self.join = nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(2 * width, width, 3, padding=1)
        self.norms, self.residual = nn.ModuleList(nn.GroupNorm(2, w) for w in (width, 2 * width)), residual

    def forward(self, x):
        skip = F.leaky_relu(self.norms[0](self.down(x)))
        deep = F.leaky_relu(self.norms[1](self.deep(skip)))
        h = self.join(torch.cat([self.up(deep), skip], 1))
        return F.leaky_relu(h + skip if self.residual else h)
