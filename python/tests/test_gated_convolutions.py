"""Gated convolutions: what fires, what must not, results. A CPU computes two convolutions by themselves as fast, so
pairs are made there for these tests alone."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import KINDS, fresh, last, regions_alone, run  # noqa: E402, F401
from planned import planned  # noqa: E402

from unisono._native import UserError  # noqa: E402
from unisono.pytorch import backend, dual, texts  # noqa: E402

pytestmark = pytest.mark.check


@pytest.fixture
def on_a_cpu(monkeypatch):
    monkeypatch.setattr(dual, "ON_A_CPU", frozenset({"gemm", "conv2d"}))


GATES = {
    "GLU": lambda a, b: a * torch.sigmoid(b),
    "SiLU": lambda a, b: F.silu(a) * b,
    "WaveNet": lambda a, b: torch.tanh(a) * torch.sigmoid(b),
    "clamped": lambda a, b: a.clamp(-1, 1) * (b + 1),
}
CUTS = {
    "chunk": lambda h: h.chunk(2, 1),
    "split": lambda h: h.split(h.shape[1] // 2, -3),
    "slices": lambda h: (h[:, : h.shape[1] // 2], h[:, h.shape[1] // 2 :]),
    "select": lambda h: (h.unflatten(1, (2, -1))[:, 0], h.unflatten(1, (2, -1))[:, 1]),
}


class Cut(nn.Module):
    """One convolution of twice the channels, cut in two; what follows."""

    def __init__(self, cut, gate, then=None, bias=True, channels=8, **moves):
        super().__init__()
        self.both = nn.Conv2d(channels, 2 * 16, **{"kernel_size": 3, "padding": 1, **moves}, bias=bias)
        self.cut, self.gate, self.then = cut, gate, then or nn.Identity()

    def forward(self, x):
        return self.then(self.gate(*self.cut(self.both(x))))


class Two(nn.Module):
    def __init__(self, gate, more=None, **moves):
        super().__init__()
        moves = {"kernel_size": 3, "padding": 1, **moves}
        self.g, self.u, self.gate = nn.Conv2d(8, 8, **moves), nn.Conv2d(8, 8, **{**moves, **(more or {})}), gate

    def forward(self, x):
        return self.gate(self.g(x), self.u(x)) + x[..., ::self.g.stride[0], ::self.g.stride[1]]


def is_pair(report):
    return any("acc1" in row.get("epilogue", "") for row in report.rows)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("order", ["contiguous", "channels last"])
def test_one_convolution_cut_in_two(cut, order, on_a_cpu):
    given = Cut(CUTS[cut], GATES["GLU"]), torch.randn(2, 8, 9, 7)
    report = run(*(last(*given) if order == "channels last" else given), regions=1)
    assert is_pair(report), str(report)


@pytest.mark.parametrize("gate", GATES)
def test_gates_of_two_convolutions(gate, on_a_cpu):
    report = run(*last(Two(GATES[gate], stride=2, padding=2, dilation=2), torch.randn(2, 8, 9, 11)), regions=1)
    assert is_pair(report) and report.rows[1]["part_of"] == report.rows[0]["anchor"], str(report)
    assert report.share_of_flop == 1


@pytest.mark.parametrize("dtype", KINDS)
def test_a_norm_and_a_residual_behind(dtype, on_a_cpu):
    class Block(Cut):
        def forward(self, x):
            return super().forward(x) + x

    block = Block(CUTS["chunk"], GATES["GLU"], nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU()), channels=16)
    report = run(*last(block, torch.randn(2, 16, 9, 8)), regions=1, dtype=dtype)
    assert is_pair(report) and "group" in report.rows[0]["epilogue"], str(report)


@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_glu_by_its_own_name(rest, on_a_cpu):
    report = run(*last(nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.GLU(1)), torch.randn(2, 8, 5, 7)), regions=1,
                 rest=rest)
    assert is_pair(report), str(report)


class WaveNet(nn.Module):
    """A layer: a dilated gate over rows of pixels, its residual and its skip."""

    def __init__(self, is_cut):
        super().__init__()
        self.is_cut = is_cut
        self.gates = nn.ModuleList(nn.Conv1d(8, 16 * (1 + is_cut), 2, dilation=4) for _ in range(2 - is_cut))
        self.residual, self.skip = nn.Conv1d(16, 8, 1), nn.Conv1d(16, 12, 1)

    def forward(self, x):
        padded = F.pad(x, (4, 0))
        found = [gate(padded) for gate in self.gates]
        a, b = found[0].chunk(2, 1) if self.is_cut else found
        gated = torch.tanh(a) * torch.sigmoid(b)
        return x + self.residual(gated), self.skip(gated)


@pytest.mark.parametrize("is_cut", [True, False])
def test_rows_of_pixels(is_cut, on_a_cpu):
    report = run(WaveNet(is_cut), torch.randn(3, 8, 21), regions=1)
    assert is_pair(report), str(report)


def test_pairs_of_dynamic_size(on_a_cpu):
    module = Cut(CUTS["chunk"], GATES["GLU"], padding=0)
    compiled = torch.compile(module, backend=backend.unisono, options={"rest": "eager"}, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for size in (5, 11, 16):
            x = torch.randn(2, 8, size, size + 3)
            torch.testing.assert_close(compiled(x), module(x))
    assert backend.reports()[-1].regions == 1 and is_pair(backend.reports()[-1])


def test_weights_that_change_are_seen(on_a_cpu):
    module, x = Cut(CUTS["chunk"], GATES["GLU"]), torch.randn(2, 8, 9, 7)
    compiled = torch.compile(module, backend=backend.unisono, options={"rest": "eager"})
    with torch.no_grad():
        compiled(x)
        module.both.weight.mul_(2), module.both.bias.add_(1)
        torch.testing.assert_close(compiled(x), module(x))
    assert is_pair(backend.reports()[-1])


def test_training(on_a_cpu):
    module, x = Cut(CUTS["chunk"], GATES["GLU"], nn.GroupNorm(4, 16)), torch.randn(2, 8, 9, 7)
    compiled = torch.compile(module, backend=backend.unisono, options={"rest": "eager"})
    compiled(x).square().mean().backward()
    mine = {n: p.grad.clone() for n, p in module.named_parameters()}
    module.zero_grad()
    module(x).square().mean().backward()
    for name, p in module.named_parameters():
        torch.testing.assert_close(mine[name], p.grad, msg=name)


class Read(Cut):
    """A reader of the product besides the gate."""

    def __init__(self, which, **more):
        super().__init__(CUTS["chunk"], GATES["GLU"], **more)
        self.which = which

    def forward(self, x):
        h = self.both(x)
        a, b = self.cut(h)
        return self.gate(a, b), {"whole": h, "half": a.cumsum(1)}[self.which]


NO_PAIR = {
    "the whole is read, too": (lambda: Read("whole"), 1),
    "parts that overlap": (lambda: Cut(lambda h: (h[:, :16], h[:, 8:24]), GATES["GLU"]), 1),
    "alternating channels": (lambda: Cut(lambda h: (h[:, ::2], h[:, 1::2]), GATES["GLU"]), 1),
    "image rows": (lambda: Cut(lambda h: h.chunk(2, 2), GATES["GLU"]), 1),
    "groups": (lambda: Cut(CUTS["chunk"], GATES["GLU"], groups=2), 1),
    "another dilation": (lambda: Two(GATES["GLU"], {"dilation": 2, "padding": 2}), 2),
    "another extent of the filter": (lambda: Two(GATES["GLU"], {"kernel_size": 1, "padding": 0}), 2),
}


@pytest.mark.parametrize("name", NO_PAIR)
def test_must_not_pair(name, on_a_cpu):
    make, regions = NO_PAIR[name]
    report = run(make(), torch.randn(2, 8, 10, 8), regions=regions)
    assert not is_pair(report), str(report)


def test_a_half_that_is_read_is_stored(on_a_cpu):
    """Of two convolutions; one that is cut keeps its result, of which the half is a view."""
    class Shown(Two):
        def forward(self, x):
            a, b = self.g(x), self.u(x)
            return self.gate(a, b), a.cumsum(1)

    report = run(*last(Shown(GATES["GLU"]), torch.randn(2, 8, 10, 8)), regions=1)
    assert is_pair(report) and report.rows[0]["stores"] == 2, str(report)
    assert not is_pair(run(Read("half"), torch.randn(2, 8, 10, 8), regions=1))


def test_convolutions_of_another_image_are_no_pair(on_a_cpu):
    report = run(lambda x, v, w: F.conv2d(x, v) * torch.sigmoid(F.conv2d(2 * x, w)), torch.randn(2, 8, 6, 5),
                 torch.randn(8, 8, 3, 3), torch.randn(8, 8, 3, 3), regions=2)
    assert not is_pair(report)


def test_no_pair_of_convolutions_of_which_one_needs_the_other(on_a_cpu):
    report = run(lambda x, w: (lambda h: h * F.conv2d(x, h[:, :, :3, :3]))(F.conv2d(x, w, padding=1)),
                 torch.randn(8, 8, 3, 3), torch.randn(8, 8, 3, 3), regions=2)
    assert not is_pair(report)


def test_a_cpu_computes_either_by_itself():
    assert not is_pair(run(Two(GATES["GLU"]), torch.randn(2, 8, 9, 7), regions=2))
    assert not is_pair(run(Cut(CUTS["chunk"], GATES["GLU"]), torch.randn(2, 8, 9, 7), regions=1))


def test_pairs_are_switched_off(on_a_cpu):
    assert not is_pair(run(Two(GATES["GLU"]), torch.randn(2, 8, 9, 7), regions=2, without=("pairs",)))


def test_filters_that_lie_otherwise_are_an_error():
    x, w = torch.randn(2, 8, 9, 7), torch.randn(8, 8, 3, 3)
    with pytest.raises((UserError, RuntimeError), match="expected the same shape, dtype, device and strides|the same shape and strides"):
        torch.ops.unisono.fused_dual_conv2d(x, w, w[:4], [], [], "acc0 * acc1", texts.joined((), {}), [1, 1], [1, 1],
                                            [1, 1], 1, None)


# ---- As on a GPU


class Planned(nn.Module):
    def __init__(self, channels, filters, is_cut):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, filters * (1 + is_cut), 3, padding=1)
                                          for _ in range(2 - is_cut))

    def forward(self, x):
        found = [c(x) for c in self.convolutions]
        a, b = found[0].chunk(2, 1) if len(found) == 1 else found
        return F.silu(a * torch.sigmoid(b))


@pytest.mark.parametrize("is_cut", [True, False])
def test_on_a_gpu_pairs_are_made_where_they_gain(is_cut):
    large, _ = planned(lambda: (Planned(128, 128, is_cut), [torch.randn(4, 128, 64, 64)]))
    assert is_pair(large) and large.rows[0]["predicted_us"] < large.rows[0]["predicted_us_of_pytorch"], str(large)
    few, _ = planned(lambda: (Planned(2048, 64, is_cut), [torch.randn(1, 2048, 8, 8)]))
    assert not is_pair(few), "CTAs share the sums of one convolution, not of two: " + str(few)
