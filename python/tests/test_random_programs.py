"""Random programs of views, contractions, norms and activations, compiled once for all sizes, beside eager mode."""

import random

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from models import no_worse  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

ACTIVATIONS = [F.relu, F.silu, F.gelu, F.mish, F.elu, F.hardswish, F.softplus, torch.tanh, torch.square, torch.abs,
               lambda x: x.clamp(-0.5, 0.7), lambda x: torch.where(x > 0, x, 0.1 * x), lambda x: 2 - x / 3]


def turned(x, w, fork):
    return x.transpose(2, 3) if fork < 0.5 else x.flip(3)


def convolved(x, w, fork):
    return F.conv2d(x, w[:8, :x.shape[1] * 9].view(8, x.shape[1], 3, 3), padding=1, stride=2 if fork < 0.3 else 1)


def depthwise(x, w, fork):
    return F.conv2d(x, w[:x.shape[1], :9].view(-1, 1, 3, 3), padding=1, groups=x.shape[1])


def upsampled(x, w, fork):
    return F.interpolate(x, scale_factor=2) if fork < 0.5 else F.conv_transpose2d(x, w[:x.shape[1], :16].view(-1, 4, 2, 2), stride=2)


def normalised(x, w, fork):
    return F.group_norm(x, 2, w[0, :x.shape[1]], w[1, :x.shape[1]]) if fork < 0.5 else F.instance_norm(x)


def windows(x, w, fork):
    n, c, height, width = x.shape
    x = x[:, :, :height // 2 * 2, :width // 2 * 2]
    parts = x.reshape(n, c, height // 2, 2, width // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c)
    parts = F.layer_norm(F.linear(parts, w[:c, :c]), (c,))
    return parts.view(n, height // 2, width // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(x.shape)


def attended(x, w, fork):
    q = F.linear(x.flatten(2).transpose(1, 2), w[:x.shape[1], :x.shape[1]])
    q = q.view(x.shape[0], -1, 2, x.shape[1] // 2).transpose(1, 2)
    return (torch.softmax(q @ q.mT, -1) @ q).transpose(1, 2).flatten(2).transpose(1, 2).unflatten(2, x.shape[2:])


def gated(x, w, fork):
    h = F.linear(x.permute(0, 2, 3, 1), w[:16, :x.shape[1]], w[16, :16])
    return (F.silu(h[..., ::2]) * h[..., 1::2]).permute(0, 3, 1, 2)


def joined(x, w, fork):
    return torch.cat([x, x[:, :2] * 0.5], 1) if x.shape[1] < 12 else x[:, ::2]


def scaled(x, w, fork):
    return x * torch.sigmoid(F.linear(x.mean((2, 3)), w[:x.shape[1], :x.shape[1]]))[:, :, None, None]


STEPS = [turned, convolved, convolved, depthwise, upsampled, normalised, normalised, windows, attended, gated, joined, scaled]


def drawn(seed):
    """A program of an image and a weight for each step, whose forks are decided here."""
    r = random.Random(seed)
    steps = [(r.choice(STEPS), r.choice(ACTIVATIONS), r.random() < 0.3, r.random()) for _ in range(r.randint(2, 5))]

    def program(x, weights):
        kept = []
        for (step, activation, is_kept, fork), w in zip(steps, weights):
            x = activation(step(x, w, fork))
            kept += [x] if is_kept else []
        return (*kept, x)

    return program, len(steps)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 30))])
def test_random_programs(seed):
    torch._dynamo.reset()
    torch.manual_seed(seed)
    program, count = drawn(seed)
    weights = [torch.randn(32, 128) / 6 for _ in range(count)]
    call = torch.compile(program, backend=backend.unisono, options={"rest": "eager", "minimum_operators": 0}, dynamic=True)
    for shape in ((2, 4, 6, 10), (3, 4, 9, 7), (1, 4, 8, 8)):
        x = torch.randn(shape)
        with torch.no_grad():
            right, theirs, mine = program(x.double(), [w.double() for w in weights]), program(x, weights), call(x, weights)
        for one, other, exact in zip(mine, theirs, right, strict=True):
            no_worse(one, other, exact, f"seed {seed}, {shape}")
