"""Transposed convolutions, what is computed several times, losses and casts, options and caches."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import fresh, last, regions_alone, run  # noqa: E402, F401
from models import randomise  # noqa: E402
from test_pairs import GATES, Two  # noqa: E402

from unisono.pytorch import backend  # noqa: E402

# Transposed convolutions

@pytest.mark.parametrize("form", [dict(kernel_size=2, stride=2),
                                  dict(kernel_size=3, stride=2, padding=1, output_padding=1),
                                  dict(kernel_size=3, stride=1, padding=1, groups=2),
                                  dict(kernel_size=(4, 3), stride=(2, 1), padding=1)])
@pytest.mark.parametrize("is_last", [False, True])
def test_transposed_convolutions(form, is_last):
    class Up(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.norm = nn.ConvTranspose2d(8, 16, **form), nn.InstanceNorm2d(16, affine=True)

        def forward(self, x):
            return F.leaky_relu(self.norm(self.up(x)))

    module, x = randomise(Up()), torch.randn(2, 8, 6, 5)
    module, x = last(module, x) if is_last else (module, x)
    run(module, x, regions=1)


# What is computed several times

def test_duplicates_are_one():
    """An activation ahead of each of many layers: one value of the region, stored once."""
    def layers(x, w, a, b, c):
        h = x @ w
        return tuple(F.silu(h) @ v for v in (a, b, c))

    tensors = [torch.randn(9, 16), *(torch.randn(16, 16) for _ in range(4))]
    report = run(layers, *tensors, regions=4)
    assert report.rows[0]["stores"] == 1 and not report.counts["standalone after a contraction"], str(report)


def test_equal_results_stay_apart():
    def twice(x, w):
        h = x @ w
        return F.relu(h), F.relu(h)

    x, w = torch.randn(5, 8), torch.randn(8, 6)
    run(twice, x, w, regions=1)
    with torch.no_grad():
        a, b = torch.compile(twice, backend=backend.unisono, options={"rest": "eager"})(x, w)
    assert a.data_ptr() != b.data_ptr()


# Losses, softmax and reductions behind a product; casts

LOSSES = {
    "binary cross entropy": lambda z, t: F.binary_cross_entropy_with_logits(z, t),
    "its sum": lambda z, t: F.binary_cross_entropy_with_logits(z, t, reduction="sum"),
    "mean squares": lambda z, t: F.mse_loss(z, t), "mean error": lambda z, t: F.l1_loss(z, t),
    "cross entropy of probabilities": lambda z, t: F.cross_entropy(z, t),
    "softmax": lambda z, t: torch.softmax(z, 1) * t, "log_softmax": lambda z, t: F.log_softmax(z, -1),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_losses(name, rest):
    report = run(lambda a, w, t: LOSSES[name](a @ w, t), torch.randn(24, 16), torch.randn(16, 8), torch.rand(24, 8),
                 regions=1, rest=rest)
    assert not report.counts["standalone after a contraction"], str(report)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_each_cast_is_honoured(dtype):
    """(acc → short) · 3 → short + 1: two roundings that the program has written; more or fewer give another number."""
    def rounded(a, w):
        return ((a @ w).to(dtype).float() * 3).to(dtype).float() + 1

    a, w = torch.randn(17, 32), torch.randn(32, 8)
    with torch.no_grad():
        found = torch.compile(rounded, backend=backend.unisono, options={"rest": "eager"})(a, w)
        right = ((a.double() @ w.double()).float().to(dtype).float() * 3).to(dtype).float() + 1
    assert backend.reports()[-1].regions == 1
    assert (found == right).float().mean() > 0.95  # sums that lie at the border of a rounding may go either way


def test_a_result_is_joined_to_an_empty_cache():
    """Of keys: PyTorch joins an empty tensor of one extent to tensors of any rank."""
    run(lambda a, w: torch.cat([a.new_empty(0), (a @ w).relu().view(1, 4, 3, 8)], -2), torch.randn(12, 16), torch.randn(16, 8), regions=1)


# What is taken in which graph, and caches

def test_a_training_step_asks_for_more_gain(monkeypatch):
    """Predictions have errors; a step must not be slower than Inductor's. Without a number in the options, training has
    a margin."""
    asked, fuse = {}, backend.fuse

    def recorded(graph, limits, kernels):
        asked[len(asked)] = limits.minimum_gain
        return fuse(graph, limits, kernels)

    monkeypatch.setattr(backend, "fuse", recorded)
    module, x = randomise(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))), torch.randn(5, 8)
    for options, expected in (({}, [0.1, 0.1]), ({"minimum_gain": 0.25}, [0.25, 0.25])):
        asked.clear()
        torch._dynamo.reset()
        torch.compile(module, backend=backend.unisono, options={"rest": "eager", **options})(x).sum().backward()
        assert list(asked.values()) == expected
    asked.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(module, backend=backend.unisono, options={"rest": "eager"})(x)
    assert list(asked.values()) == [0.0]


@pytest.mark.long
def test_graphs_that_differ_in_a_number_or_an_option_are_not_mistaken():
    """Inductor keeps compiled graphs on disk: the epilogue's text and the calls are part of their key."""
    x, w = torch.randn(9, 24), torch.randn(24, 16)
    for slope in (0.1, 0.2, 0.1):
        torch._dynamo.reset()
        run(lambda x, w, slope=slope: F.leaky_relu(x @ w, slope), x, w, regions=1, rest="inductor")
    for without, fused in (((), 1), (("activations",), 0), ((), 1)):
        torch._dynamo.reset()
        report = run(lambda x, w: F.leaky_relu(x @ w, 0.3), x, w, regions=1, rest="inductor", without=without)
        assert len(report.rows[0]["fused"]) == fused or "where" in str(report.rows[0]["fused"]), str(report)
    for pairs in ((), ("pairs",), ()):
        torch._dynamo.reset()
        run(Two(GATES["SwiGLU"]), x, regions=2 if pairs else 1, rest="inductor", without=pairs)


def test_the_report_has_the_graph_before_and_after():
    report = run(lambda x, w: F.relu(x @ w), torch.randn(9, 24), torch.randn(24, 16), regions=1)
    assert any("aten.mm" in n and "[9, 16]" in n
               for n in report.before) and any("gemm" in n for n in report.after), (report.before, report.after)
