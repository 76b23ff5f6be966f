"""torch.compile with the backend: which regions fire, which must not, and results against float64."""

import json

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import KINDS, fresh, regions_alone, run_as_given as run  # noqa: E402, F401
from models import randomise  # noqa: E402

from unisono.pytorch import backend  # noqa: E402


class Block(nn.Module):
    def __init__(self, channels=16, groups=4):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(3, channels, 3, padding=1), nn.GroupNorm(groups, channels)
        self.c2, self.n2 = nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(groups, channels)
        self.time = nn.Linear(8, channels)

    def forward(self, x, t):
        h = F.silu(self.n1(self.c1(x)))
        h = h + self.time(t)[:, :, None, None]
        return h + F.mish(self.n2(self.c2(h)))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(8, 8), (7, 5)])
def test_a_block_of_a_unet(dtype, last, size):
    block, x, t = Block().to(dtype), torch.randn(2, 3, *size, dtype=dtype), torch.randn(2, 8, dtype=dtype)
    if last:
        block, x = block.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    report = run(block, x, t, regions=2)
    assert "native_group_norm" in str(report) and sum("mish" in f for row in report.rows for f in row["fused"]) == 1


def test_inductor_runs_the_rest():
    block, x, t = Block(), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    run(block, x, t, regions=2, rest="inductor")


ACTIVATIONS = {
    "silu": F.silu, "silu written out": lambda h: h * torch.sigmoid(h), "gelu": F.gelu,
    "gelu by tanh": lambda h: F.gelu(h, approximate="tanh"),
    "gelu written out": lambda h: 0.5 * h * (1 + torch.erf(h * 0.7071067811865476)), "hardswish": F.hardswish,
    "relu6": F.relu6, "leaky_relu": lambda h: F.leaky_relu(h, 0.2), "clamp": lambda h: h.clamp(-0.5, 0.25),
    "clamp below": lambda h: h.clamp_min(-0.5), "mish": F.mish, "square": lambda h: h.pow(2), "hardsigmoid": F.hardsigmoid,
    "scaled": lambda h: (h * 2 - 1) / 3, "tanh": torch.tanh, "elu": F.elu,
    "elu of 0.5": lambda h: F.elu(h, 0.5), "expm1": torch.expm1, "minus": lambda h: 1 - torch.sub(h, h.abs(), alpha=0.5),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    w = torch.randn(8, 4, 3, 3)
    run(lambda x, w: ACTIVATIONS[name](F.conv2d(x, w, padding=1)), torch.randn(1, 4, 6, 5), w, regions=1)


def test_expm1_does_not_cancel():
    """Relative to each value, of which the least are 1e-6."""
    x, w = torch.linspace(-1, 1, 64).reshape(64, 1) ** 5, torch.eye(8)[:1]
    fast = torch.compile(lambda x, w: torch.expm1(x @ w), backend=backend.unisono, options={"rest": "eager"})
    made, right = fast(x, w)[:, :1], torch.expm1(x.double())
    assert ((made - right).abs() <= 1e-6 * right.abs()).all()


@pytest.mark.parametrize("dtype", KINDS)
def test_linear_layers_over_sequences(dtype):
    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(24, 40), nn.Linear(40, 24), nn.LayerNorm(24)

        def forward(self, x):
            return self.norm(x + self.down(F.gelu(self.up(x))))

    report = run(Mlp().to(dtype), torch.randn(2, 7, 24, dtype=dtype), regions=2)
    assert any("native_layer_norm" in f for f in report.rows[1]["fused"])


def test_batched_products():
    run(lambda a, b, c: F.relu(torch.bmm(a, b) + c), torch.randn(3, 5, 8), torch.randn(3, 8, 6), torch.randn(3, 1, 6), regions=1)


def test_batch_norm_of_inference():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 8, 3, bias=False), nn.BatchNorm2d(8)

        def forward(self, x):
            return F.relu(self.norm(self.conv(x)))

    net = Net().eval()
    net.norm.running_mean.normal_(), net.norm.running_var.uniform_(0.5, 2)
    run(net, torch.randn(2, 4, 7, 6), regions=1)


@pytest.mark.parametrize("last", [True, False])
def test_a_block_of_convnext(last):
    """The normalisation over channels behind a permutation, and a residual that is permuted in the same way."""
    class ConvNext(nn.Module):
        def __init__(self, c=16):
            super().__init__()
            self.c, self.n, self.up, self.down = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
            self.scale = nn.Parameter(torch.rand(c) + 0.5)

        def forward(self, x):
            return x + (self.down(F.gelu(self.up(self.n(self.c(x).permute(0, 2, 3, 1))))) * self.scale).permute(0, 3, 1, 2)

    model, x = ConvNext(), torch.randn(2, 16, 6, 5)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    report = run(model, x, regions=3)
    fused = [" ".join(row["fused"]) for row in report.rows]
    assert "native_layer_norm" in fused[0] and "gelu" in fused[1] and ("add" in fused[2]) == last, str(report)


def test_softmax_and_sums_behind_a_product():
    def losses(a, b, t):
        z = a @ b
        return torch.softmax(z, 1), z.square().mean(1), (F.log_softmax(z, 1) * t).sum(1)

    report = run(losses, torch.randn(12, 7), torch.randn(7, 5), torch.rand(12, 5), regions=1)
    assert report.rows[0]["stores"] == 3, str(report)


def test_casts_are_honoured():
    def rounded(x, w):
        return (F.conv2d(x, w).float() * 1.5).to(torch.bfloat16).float() + 1

    x, w = torch.randn(2, 4, 6, 6, dtype=torch.bfloat16), torch.randn(8, 4, 1, 1, dtype=torch.bfloat16)
    with torch.no_grad():
        result = torch.compile(rounded, backend=backend.unisono, options={"rest": "eager"})(x, w) - 1
    assert backend.reports()[-1].regions == 1 and result.abs().max() > 0
    assert (result - result.to(torch.bfloat16).float()).abs().max() <= 2.0**-22 * result.abs().max()


MUST_NOT = {
    "nothing behind it": (lambda x, w: F.conv2d(x, w), "0 operators after it"),
    "a convolution of one dimension": (lambda x, w: F.relu(F.conv1d(x[:, :, 0], w[:, :, 0])), "one or three dimensions"),
    "a tensor that broadcasts along the width": (lambda x, w: F.conv2d(x, w) + torch.arange(5.0).to(x.dtype), "does not broadcast"),
    "doubles": (lambda x, w: F.relu(F.conv2d(x.double(), w.double())).float(), "float64"),
    "the statistics of a normalisation": (lambda x, w: torch.native_group_norm(F.conv2d(x, w), None, None, 2, 8, 25, 2, 1e-5)[1],
                                          "statistics of a normalisation"),
    "a transpose": (lambda x, w: F.conv2d(x, w).transpose(2, 3).contiguous().relu(), "has strides"),
}


@pytest.mark.parametrize("name", MUST_NOT)
def test_must_not_fuse(name):
    function, why = MUST_NOT[name]
    report = run(function, torch.randn(2, 4, 5, 5), torch.randn(8, 4, 1, 1), regions=0)
    import re
    assert re.search(why, report.rows[0]["ends"]), str(report)
    with pytest.raises(Exception, match="strict=True"):
        torch._dynamo.reset()
        run(function, torch.randn(2, 4, 5, 5), torch.randn(8, 4, 1, 1), regions=0, strict=True)


def test_weights_that_change_are_seen():
    block, x, t = Block(), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    with torch.no_grad():
        compiled = torch.compile(block, backend=backend.unisono, options={"rest": "eager"})
        before = compiled(x, t)
        block.c2.weight.mul_(-1.5)
        after = compiled(x, t)
        assert not torch.allclose(before, after)
        torch.testing.assert_close(after, block(x, t))


def test_reports(tmp_path):
    path, seen = tmp_path / "report.json", []
    function, x, w = (lambda x, w: F.relu(F.conv2d(x, w))), torch.randn(1, 4, 5, 5), torch.randn(8, 4, 1, 1)
    run(function, x, w, regions=1, report=str(path))
    torch._dynamo.reset()
    run(function, x, w, regions=1, report=seen.append)
    told = json.loads(path.read_text())
    assert told["regions"] == 1 and told["contractions"][0]["fused"] and "store" in told["contractions"][0]["epilogue"]
    assert seen[0].rows == told["contractions"]
    with pytest.raises(Exception, match="unknown option 'fast'|unknown option fast"):
        torch._dynamo.reset()
        run(function, x, w, regions=1, fast=True)
    with pytest.raises(Exception, match="expected 'inductor' or 'eager'"):
        torch._dynamo.reset()
        run(function, x, w, regions=1, rest="none")


def test_a_tensor_that_is_read_along_channels_and_along_the_width():
    """The bias (8,), read again by broadcasting, lies along the width: it is no [n] there, and the region ends ahead of it."""
    report = run(lambda x, w, b: F.relu(F.conv2d(x, w, b) + b), torch.randn(2, 4, 8, 8), torch.randn(8, 4, 1, 1), torch.randn(8), regions=0)
    assert "does not broadcast" in str(report)


def test_a_bias_that_does_not_count():
    bias, a, b = torch.full((5,), float("nan")), torch.randn(6, 7), torch.randn(7, 5)
    report = run(lambda c, a, b: F.relu(torch.addmm(c, a, b, beta=0, alpha=2)), bias, a, b, regions=1)
    assert "o0" not in report.rows[0]["epilogue"]


@pytest.mark.parametrize("beta, alpha", [(1, 1), (0, 0.25), (-0.5, 2)])
def test_batches_of_products_with_a_summand(beta, alpha):
    """As attention scores are computed, from an empty tensor where beta is 0."""
    summand, a, b = (
        torch.full((3, 6, 5), float("nan") if beta == 0 else 0.7),
        torch.randn(3, 6, 7),
        torch.randn(3, 7, 5),
    )
    report = run(lambda c, a, b: torch.baddbmm(c, a, b, beta=beta, alpha=alpha).softmax(-1), summand, a, b, regions=1)
    assert report.share_of_flop == 1 and ("o0" in report.rows[0]["epilogue"]) == (beta != 0), str(report)
    report = run(lambda c, a, b: torch.baddbmm(c, a, b), summand[0].nan_to_num(), a, b, regions=0)
    assert "does not broadcast" in report.rows[0]["ends"] and report.rows[0]["flop"] == 2 * 3 * 6 * 7 * 5, str(report)


def test_operations_that_stand_alone_have_their_reasons():
    """What reads nothing but one contraction's results, parameters and constants: also where PyTorch's kernel reads a scale and a shift,
    and where no epilogue has the operation. Each with the reason of its own, not that of the region's end."""

    def alone(function, *inputs, regions=1, **options):
        report = run(function, *inputs, regions=regions, **options)
        return dict(entry.split(": ", 1) for entry in report.counts["standalone after a contraction"])

    x, w, s = torch.randn(6, 8), torch.randn(8, 12), torch.randn(12)
    found = alone(
        lambda x, w, s: (
            lambda h: (F.relu(h), h.floor(), F.layer_norm(h.view(3, 24), (24,), s.repeat(2), s.repeat(2)))
        )(x @ w),
        x,
        w,
        s,
    )
    assert set(found) == {"floor (aten.floor.default)", "native_layer_norm (aten.native_layer_norm.default)"}, found
    assert "not supported in epilogues" in found["floor (aten.floor.default)"]
    found = alone(
        lambda x, w, s: F.layer_norm(x @ w, (12,), s, s), x, w, s, without=("normalisations",), minimum_operators=0
    )
    assert "switched off" in found["native_layer_norm (aten.native_layer_norm.default)"], found
    assert not alone(lambda x, w, s: F.layer_norm(x @ w, (12,), s, s), x, w, s)
    found = alone(lambda x, w, s: F.relu(x @ w) + s, x, w, s, regions=0, without=("products",))
    assert "without=('products',)" in found["relu (aten.relu.default)"] and len(found) == 1, found


def test_a_group_norm_of_pixels_that_are_one_extent():
    """As attention on the pixels of an image has it."""

    class Attended(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8)

        def forward(self, x):
            h = self.conv(x)
            return F.silu(self.norm(h.flatten(2))), h

    for order in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(2, 4, 7, 6).contiguous(memory_format=order)
        report = run(randomise(Attended()).to(memory_format=order), x, regions=1)
        assert "group_norm" in report.rows[0]["epilogue"], str(report)


def test_numbers_of_options():
    for options, message in (({"most_stores": "2"}, "most_stores='2'; expected an int"), ({"most_stores": 0}, "an int, 1 or more"),
                             ({"spare_sms": -1}, "spare_sms=-1; expected an int, 0 or more"), ({"report": 3}, "report=3; expected a function")):
        with pytest.raises(Exception, match=message):
            run(lambda x, w: F.relu(F.conv2d(x, w)), torch.randn(1, 4, 5, 5), torch.randn(8, 4, 1, 1), regions=1, **options)


ACTIVATED = (F.relu, F.relu6, F.elu, F.silu, F.mish, F.softplus, F.hardswish, F.leaky_relu, lambda h: h.clamp(-1, 1), lambda h: h.amax(1, True) + h,
             lambda h: torch.where(h > 0, h, -h), lambda h: h.softmax(1))


@pytest.mark.parametrize("order", range(len(ACTIVATED)))
def test_what_is_no_number_stays_so(order):
    """NaN where eager mode has it, and nowhere else; sums near the end of the range."""
    a = torch.randn(4, 8)
    a[0, 0], a[1] = torch.nan, 1e30
    with torch.no_grad():
        call = torch.compile(lambda a, b: ACTIVATED[order](a @ b), backend=backend.unisono, options={"rest": "eager"})
        mine, theirs = call(a, torch.eye(8)), ACTIVATED[order](a @ torch.eye(8))
    assert backend.reports()[-1].regions == 1
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_weights_are_replaced():
    """By new tensors, in place, through .data, and by adapters that parametrise them."""
    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(16, 2)), nn.Parameter(torch.randn(2, 8))

        def forward(self, weight):
            return weight + self.a @ self.b

    model, x = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), torch.randn(5, 8)
    nn.utils.parametrize.register_parametrization(model[0], "weight", Adapted())
    call = torch.compile(model, backend=backend.unisono, options={"rest": "eager", "minimum_operators": 0})

    def replace():
        model[2].weight = nn.Parameter(torch.randn(4, 16))

    changes = (lambda: None, lambda: model[0].parametrizations.weight[0].a.mul_(3), replace,
               lambda: setattr(model[2].weight, "data", model[2].weight.data * 2), lambda: model[2].bias.add_(1))
    with torch.no_grad():
        for change in changes:
            change()
            torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("images", [1, 2])
def test_means_of_groups_of_channels_for_each_pixel(last, images):
    """A kernel stores them pixel by pixel; an image of them has its channels apart, and PyTorch computes it, as in diffusers'
    AutoencoderDC. Where pixels come first, they are a store."""
    order = torch.channels_last if last else torch.contiguous_format
    x, w = (torch.randn(s).contiguous(memory_format=order) for s in ((images, 8, 6, 5), (32, 8, 3, 3)))

    def means(x, w):
        h = F.conv2d(x, w, padding=1)
        return h.relu(), h.unflatten(1, (4, 8)).mean(2)

    def by_pixel(x, w):
        return F.conv2d(x, w, padding=1).permute(0, 2, 3, 1).unflatten(3, (4, 8)).mean(4)

    report = run(means, x, w, regions=1)
    assert "groups=4" not in report.rows[0]["epilogue"], str(report)
    torch._dynamo.reset()
    assert "groups=4" in run(by_pixel, x, w, regions=1).rows[0]["epilogue"]
    torch._dynamo.reset()
    run(lambda a, b: (a @ b).unflatten(1, (4, 8)).mean(2), torch.randn(6, 5), torch.randn(5, 32), regions=1)
