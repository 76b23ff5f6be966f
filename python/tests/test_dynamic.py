"""Batches and image sizes that change: one graph for all of them, and a kernel for each."""

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from compiled import regions_alone  # noqa: E402, F401
from models import Block, UNet, compare_gradients, no_worse, randomise  # noqa: E402
from unisono.pytorch import backend, shapes  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()
    torch.manual_seed(0)


def check(model, call, *inputs):
    with torch.no_grad():
        no_worse(call(*inputs), model(*inputs), copy.deepcopy(model).double()(*(i.double() for i in inputs)))


@pytest.mark.parametrize("rest, last", [("eager", False), ("eager", True), ("inductor", True)])
def test_one_graph_for_all_batches_and_sizes(rest, last):
    block = randomise(Block())
    block = block.to(memory_format=torch.channels_last) if last else block
    call = torch.compile(block, backend=backend.unisono, options={"rest": rest}, dynamic=True, fullgraph=True)
    for n, h, w in ((4, 10, 6), (3, 10, 6), (4, 9, 12), (5, 7, 6), (4, 10, 6)):  # of the first, no two extents are equal
        x = torch.randn(n, 3, h, w)
        check(block, call, x.contiguous(memory_format=torch.channels_last) if last else x, torch.randn(n, 8))
    assert len(backend.reports()) == 1, [str(r) for r in backend.reports()]
    report = backend.reports()[0]
    assert report.regions == 2 and any(isinstance(e, str) for e in report.rows[0]["shape"]), str(report)


@pytest.mark.check
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("wide", [1, 5])
def test_an_instance_norm_of_changing_batches(affine, wide):
    """Its scale is repeated for each image, so many times as a node says."""
    net = randomise(nn.Sequential(nn.Conv2d(3, 8, 1), nn.InstanceNorm2d(8, affine=affine)))
    call = torch.compile(net, backend=backend.unisono, options={"rest": "eager", "minimum_operators": 0}, dynamic=True, fullgraph=True)
    for n, h in ((2, 6), (3, 4), (4, 7)):
        check(net, call, torch.randn(n, 3, h, wide))
    assert len(backend.reports()) == 1


@pytest.mark.check
def test_a_kernel_for_each_shape():
    block = randomise(Block())
    call = torch.compile(block, backend=backend.unisono, options={"rest": "eager"}, dynamic=True)
    for size in (11, 13):
        before = u.cache_info()
        for _ in range(2):
            check(block, call, torch.randn(2, 3, size, size), torch.randn(2, 8))
        after = u.cache_info()
        assert (after["misses"] - before["misses"], after["hits"] - before["hits"]) == (2, 2)
    assert len(backend.reports()) == 1


def test_a_marked_batch():
    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(24, 40), nn.Linear(40, 24), nn.LayerNorm(24)

        def forward(self, x):
            return self.norm(x + self.down(F.gelu(self.up(x))))

    mlp = randomise(Mlp())
    call = torch.compile(mlp, backend=backend.unisono, options={"rest": "eager"}, fullgraph=True)
    for n in (2, 3, 6):
        x = torch.randn(n, 7, 24)
        torch._dynamo.mark_dynamic(x, 0)
        check(mlp, call, x)
    assert len(backend.reports()) == 1 and backend.reports()[0].regions == 2, str(backend.reports()[0])


def test_sizes_of_which_dynamo_learns():
    """The first other size makes the graph dynamic; from then on there is no other."""
    block, t = randomise(Block()), torch.randn(2, 8)
    call = torch.compile(block, backend=backend.unisono, options={"rest": "eager"})
    for size in (8, 9, 12, 10):
        check(block, call, torch.randn(2, 3, size, size), t)
    assert [r.regions for r in backend.reports()] == [2, 2]


@pytest.mark.check
def test_training_on_changing_batches():
    model = randomise(UNet())
    call = torch.compile(model, backend=backend.unisono, options={"rest": "eager"}, dynamic=True, fullgraph=True)
    for n in (2, 3, 4):
        compare_gradients(model, call, torch.randn(n, 3, 8, 8))
    assert sorted(r.kind for r in backend.reports()) == ["backward", "forward"]
    assert next(r for r in backend.reports() if r.kind == "forward").regions >= 6


def heads(x, w):
    """Views whose extents are quotients of sizes, which the graph computes behind the contraction."""
    q = (x @ w).view(x.shape[0], x.shape[1], 2, w.shape[1] // 2).transpose(1, 2)
    return torch.softmax(q @ q.mT, -1) @ q


def halves(x, w):
    h = F.relu(x @ w).view(x.shape[0], x.shape[1] // 2, 2, w.shape[1] // 2, 2)
    return h.sum(1), h


def windows(x, w):
    """2×2 pixels each, as Swin has them: the extents of views are products and quotients of sizes."""
    n, c, height, width = x.shape
    parts = x.reshape(n, c, height // 2, 2, width // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c)
    parts = F.layer_norm(F.linear(parts, w), (c,))
    return parts.view(n, height // 2, width // 2, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, height, width)


def window(x, w):
    return F.conv2d(x, w, padding=x.shape[2] // 4, stride=x.shape[3] // 4).relu()


def depthwise(x, w):
    return F.conv2d(x, w[:, :1], groups=x.shape[1]).relu()


@pytest.mark.check
@pytest.mark.parametrize("function, shapes, regions", [
    (heads, (((2, 6, 8), (8, 8)), ((3, 4, 6), (6, 6))), 3), (halves, (((2, 6, 8), (8, 12)), ((3, 4, 6), (6, 8))), 1),
    (windows, (((3, 4, 6, 10), (4, 4)), ((2, 4, 8, 6), (4, 4))), 1),
    (window, (((2, 3, 8, 8), (4, 3, 3, 3)), ((2, 3, 9, 9), (4, 3, 3, 3))), 0),
    (depthwise, (((2, 4, 6, 6), (4, 2, 3, 3)), ((2, 6, 6, 6), (6, 2, 3, 3))), 0)])
def test_numbers_that_are_computed_of_sizes(function, shapes, regions):
    """What a kernel's form takes from a size, such as a stride, leaves the contraction to PyTorch."""
    call = torch.compile(function, backend=backend.unisono, options={"rest": "eager", "minimum_operators": 0},
                         dynamic=True, fullgraph=True)
    for x, w in shapes:
        x, w = torch.randn(x), torch.randn(w)
        torch.testing.assert_close(call(x, w), function(x, w))
    assert backend.reports()[-1].regions == regions, str(backend.reports()[-1])


def test_divisions_that_leave_a_rest():
    import sympy
    from torch.utils._sympy.functions import FloorDiv
    size = sympy.Symbol("size", integer=True, positive=True)
    assert shapes.expression_of(FloorDiv(size + 1, 2)) == FloorDiv(size + 1, 2)
    assert shapes.expression_of(2 * FloorDiv(size + 1, 2)) != size + 1
    assert shapes.quotient(size + 1, 2) is None and shapes.quotient(2 * size + 2, 2) == size + 1
    assert shapes.expression_of(FloorDiv(6 * size + 2, 2)) == 3 * size + 1 == shapes.quotient(6 * size + 2, 2)


def test_factors_that_vary():
    def scaled(b, a, w, alpha):
        return torch.addmm(b, a, w, alpha=alpha, beta=2 * alpha).relu()

    call = torch.compile(scaled, backend=backend.unisono, options={"rest": "eager"}, dynamic=True, fullgraph=True)
    for alpha in (2, 3, -3):
        tensors = torch.randn(6), torch.randn(5, 4), torch.randn(4, 6)
        torch.testing.assert_close(call(*tensors, alpha), scaled(*tensors, alpha))
    assert "varies from call" in backend.reports()[-1].rows[0]["ends"]


def test_an_empty_batch():
    """No kernel serves it: its graph is left to PyTorch."""
    linear = randomise(nn.Linear(8, 8))
    call = torch.compile(lambda x: F.relu(linear(x)), backend=backend.unisono, options={"rest": "eager"}, dynamic=True)
    with torch.no_grad():
        call(torch.randn(4, 8)), call(torch.randn(5, 8))
        assert call(torch.randn(0, 8)).shape == (0, 8)
