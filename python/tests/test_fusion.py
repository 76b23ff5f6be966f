"""Pairs of products, pooled and upsampled stores, concatenations, transposed convolutions: what fires, what must not, results."""

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from models import no_worse, randomise  # noqa: E402

from unisono._native import UserError  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

KINDS = [torch.float32, torch.bfloat16, torch.float16]
LAST = torch.channels_last


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def run(function, *inputs, regions, dtype=torch.float32, **options):
    """The last report; results are no worse than 1.5 times eager mode's in that dtype, and have its strides."""
    inputs = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
    exact = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    module = function.to(dtype) if isinstance(function, nn.Module) else function
    with torch.no_grad():
        right = exact(*(t.double() if t.is_floating_point() else t for t in inputs))
        theirs = module(*inputs)
        options = {"rest": "eager", "minimum_operators": 0, **options}
        compiled = torch.compile(module, backend=backend.unisono, options=options, fullgraph=True)
        mine, again = compiled(*inputs), compiled(*inputs)
    report = backend.reports()[-1]
    assert report.regions == regions, str(report)
    for one, twice, other, best in zip(*(x if isinstance(x, tuple) else (x,) for x in (mine, again, theirs, right))):
        no_worse(one, other, best, str(report))
        assert one.stride() == other.stride(), (one.stride(), other.stride())
        assert torch.equal(one, twice), "not the same from call to call"
    return report


# Pairs of products

GATES = {
    "SwiGLU": lambda a, b: F.silu(a) * b, "GEGLU": lambda a, b: b * F.gelu(a), "GEGLU by tanh": lambda a, b: F.gelu(a, approximate="tanh") * b,
    "GLU": lambda a, b: a * torch.sigmoid(b), "ReGLU": lambda a, b: F.relu(a) * b, "bilinear": lambda a, b: a * b,
    "clamped": lambda a, b: (lambda g, u: g * torch.sigmoid(1.702 * g) * (u + 1))(a.clamp(max=1.5), b.clamp(-1.5, 1.5)),
}
CUTS = {
    "chunk": lambda h: h.chunk(2, -1), "split": lambda h: h.split(h.shape[-1] // 2, -1), "split of two": lambda h: h.split([h.shape[-1] // 2] * 2, -1),
    "slices": lambda h: (h[..., : h.shape[-1] // 2], h[..., h.shape[-1] // 2:]), "every second": lambda h: (h[..., ::2], h[..., 1::2]),
    "unbind": lambda h: h.unflatten(-1, (-1, 2)).unbind(-1), "select": lambda h: (h.unflatten(-1, (2, -1))[..., 0, :], h.unflatten(-1, (2, -1))[..., 1, :]),
}


class Cut(nn.Module):
    """One linear layer of twice the width, cut in two."""

    def __init__(self, cut, gate, bias=True):
        super().__init__()
        self.both, self.cut, self.gate = nn.Linear(24, 2 * 16, bias=bias), cut, gate

    def forward(self, x):
        return self.gate(*self.cut(self.both(x)))


class Two(nn.Module):
    def __init__(self, gate, bias=False):
        super().__init__()
        self.g, self.u, self.gate = nn.Linear(24, 16, bias=bias), nn.Linear(24, 16, bias=bias), gate

    def forward(self, x):
        return self.gate(self.g(x), self.u(x))


@pytest.mark.parametrize("gate", GATES)
def test_gates_of_two_layers(gate):
    report = run(Two(GATES[gate]), torch.randn(2, 7, 24), regions=1)
    assert "acc1" in report.rows[0]["epilogue"] and report.rows[1]["part_of"] == report.rows[0]["anchor"], str(report)
    assert report.share_of_flop == 1


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_one_layer_cut_in_two(cut, bias):
    report = run(Cut(CUTS[cut], GATES["clamped"], bias), torch.randn(2, 7, 24), regions=1)
    assert "acc1" in report.rows[0]["epilogue"], str(report)


@pytest.mark.parametrize("dtype", KINDS)
def test_dtypes_of_pairs(dtype):
    run(Two(GATES["SwiGLU"], True), torch.randn(333, 24), regions=1, dtype=dtype)
    run(Cut(CUTS["every second"], GATES["GEGLU"]), torch.randn(333, 24), regions=1, dtype=dtype)


def test_a_bias_behind_the_product():
    run(lambda x, w, b: (lambda h: F.silu(h[:, ::2]) * h[:, 1::2])(x @ w + b), torch.randn(9, 24), torch.randn(24, 32), torch.randn(32), regions=1)


def test_sums_over_rows_of_a_pair():
    report = run(lambda x, v, w: (lambda h: (h, h.square().mean(1), h.sum(0)))(F.silu(x @ v) * (x @ w)), torch.randn(9, 24), torch.randn(24, 16),
                 torch.randn(24, 16), regions=1)
    assert report.rows[0]["stores"] == 3, str(report)


def test_pairs_beside_inductor():
    run(Two(GATES["SwiGLU"]), torch.randn(9, 24), regions=1, rest="inductor")
    run(Cut(CUTS["chunk"], GATES["GEGLU"]), torch.randn(9, 24), regions=1, rest="inductor")


def test_pairs_of_dynamic_size():
    torch._dynamo.reset()
    module = Two(GATES["SwiGLU"])
    compiled = torch.compile(module, backend=backend.unisono, options={"rest": "eager"}, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for rows in (5, 11, 64):
            x = torch.randn(rows, 24)
            torch.testing.assert_close(compiled(x), module(x))
    assert backend.reports()[-1].regions == 1 and "acc1" in backend.reports()[-1].rows[0]["epilogue"]


NO_PAIR = {
    "nothing reads both": (lambda x, v, w: (F.silu(x @ v), F.relu(x @ w)), 2),
    "the whole is read, too": (lambda x, v, w: (lambda h: (F.silu(h[:, :8]) * h[:, 8:], h))(x @ v), 1),
    "parts that overlap": (lambda x, v, w: (lambda h: F.silu(h[:, :8]) * h[:, 4:12])(x @ v), 1),
    "rows are cut": (lambda x, v, w: (lambda h: F.silu(h[:6]) * h[6:])(x @ v), 1),
    "a transposed factor beside one that is none": (lambda x, v, w: F.silu(x @ v) * (x @ w.T.contiguous().T), 2),
    "another left matrix": (lambda x, v, w: F.silu(x @ v) * ((2 * x) @ w), 2),
}


@pytest.mark.parametrize("name", NO_PAIR)
def test_must_not_pair(name):
    function, regions = NO_PAIR[name]
    report = run(function, torch.randn(12, 24), torch.randn(24, 16), torch.randn(24, 16), regions=regions)
    assert not any("acc1" in row.get("epilogue", "") for row in report.rows), str(report)


def test_pairs_are_switched_off():
    report = run(Two(GATES["SwiGLU"]), torch.randn(9, 24), regions=2, without=("pairs",))
    assert not any("acc1" in row["epilogue"] for row in report.rows)


def test_errors_of_the_dual_operator():
    a, b = torch.randn(5, 8), torch.randn(8, 6)
    call = torch.ops.unisono.dual_gemm
    for second, text in ((b[:, :3], "expected"), (b.T.contiguous().T, "strides"), (b.half(), "alike")):
        with pytest.raises(UserError, match=text):
            call(a, b, second, [], "store acc0 * acc1 as y : f32", "")


# Pooled and upsampled stores

def stage(x, w):
    return F.silu(F.conv2d(x, w, padding=1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(8, 6), (7, 9), (2, 2)])
def test_pools_and_nearest_neighbours(size, last, dtype):
    x, w = torch.randn(2, 4, *size), torch.randn(8, 4, 3, 3)
    if last:
        x, w = x.contiguous(memory_format=LAST), w.contiguous(memory_format=LAST)
    report = run(lambda x, w: (lambda h: (h, F.max_pool2d(h, 2)))(stage(x, w)), x, w, regions=1, dtype=dtype)
    assert "max_pool_2x2" in report.rows[0]["epilogue"], str(report)
    report = run(lambda x, w: F.max_pool2d(stage(x, w), 2), x, w, regions=1, dtype=dtype)
    assert report.rows[0]["epilogue"].count("store") == 2  # stored whole, too
    for up in (lambda h: F.interpolate(h, scale_factor=2), lambda h: F.interpolate(h, size=(2 * size[0], 2 * size[1]))):
        torch._dynamo.reset()
        report = run(lambda x, w: up(stage(x, w)), x, w, regions=1, dtype=dtype)
        assert "upsample_2x2" in report.rows[0]["epilogue"], str(report)


def test_resampled_stores_beside_inductor():
    x, w = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 4, 8, 6), (8, 4, 3, 3)))
    for function, form in ((lambda x, w: F.max_pool2d(stage(x, w), 2), "max_pool_2x2"), (lambda x, w: F.interpolate(stage(x, w), scale_factor=2), "upsample_2x2")):
        torch._dynamo.reset()
        for dtype in (torch.float32, torch.bfloat16):
            assert form in run(function, x, w, regions=1, rest="inductor", dtype=dtype).rows[0]["epilogue"]


NOT_RESAMPLED = {
    "other windows": lambda h: F.max_pool2d(h, 3, 2, 1), "overlapping": lambda h: F.max_pool2d(h, 2, 1), "padded": lambda h: F.max_pool2d(h, 2, padding=1),
    "rounded up": lambda h: F.max_pool2d(h, 2, ceil_mode=True), "indices": lambda h: F.max_pool2d(h, 2, return_indices=True)[1].float(),
    "threefold": lambda h: F.interpolate(h, scale_factor=3), "another size": lambda h: F.interpolate(h, size=(13, 18)),
    "linear": lambda h: F.interpolate(h, scale_factor=2, mode="bilinear"), "exact centres": lambda h: F.interpolate(h, size=(13, 11), mode="nearest-exact"),
    "other pixels": lambda h: h[:, :, torch.arange(14) % 7][:, :, :, torch.arange(18) // 2],
}


@pytest.mark.parametrize("name", NOT_RESAMPLED)
def test_must_not_resample(name):
    x, w = torch.randn(2, 4, 7, 9), torch.randn(8, 4, 3, 3)
    report = run(lambda x, w: NOT_RESAMPLED[name](stage(x, w)), x, w, regions=1)
    assert "_2x2" not in report.rows[0]["epilogue"], str(report)


def test_a_second_resampled_store_is_pytorchs():
    x, w = torch.randn(2, 4, 8, 6), torch.randn(8, 4, 3, 3)
    report = run(lambda x, w: (lambda h: (F.max_pool2d(h, 2), F.interpolate(h, scale_factor=2), F.max_pool2d(h.relu(), 2)))(stage(x, w)), x, w, regions=1)
    assert report.rows[0]["epilogue"].count("_2x2") == 1, str(report)


def test_what_reads_a_resampled_value_is_outside():
    report = run(lambda x, w: F.relu(F.max_pool2d(stage(x, w), 2)) + 1, torch.randn(2, 4, 8, 6), torch.randn(8, 4, 3, 3), regions=1)
    assert "ends a region" in report.rows[0]["ends"]


# Concatenations

class Skip(nn.Module):
    """A level of a U-Net: the skip and what comes from below are joined."""

    def __init__(self, width=8, reads=False):
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.narrow, self.up = nn.Conv2d(2 * width, width, 1), nn.Conv2d(2 * width, 5, 3, padding=1)
        self.norm, self.reads = nn.GroupNorm(2, width), reads

    def forward(self, x):
        skip = F.mish(self.norm(self.down(x)))
        h = F.silu(self.deep(F.max_pool2d(skip, 2)))
        h = self.narrow(F.interpolate(h, scale_factor=2))
        joined = F.relu(self.up(torch.cat([skip, h], 1)))
        return (joined, skip) if self.reads else joined


def last(module, *inputs):
    return module.to(memory_format=LAST), *(t.contiguous(memory_format=LAST) for t in inputs)


PLACED = "concatenations without copies"


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_skip_is_written_into_its_concatenation(rest):
    report = run(*last(randomise(Skip()), torch.randn(2, 3, 8, 6)), regions=4, rest=rest)
    assert report.counts[PLACED] == ["cat: 2 of 2 parts"] and "max_pool_2x2" in report.rows[0]["epilogue"], str(report)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_dtypes_of_concatenations(dtype):
    assert run(*last(randomise(Skip()), torch.randn(2, 3, 8, 6)), regions=4, dtype=dtype).counts[PLACED]


def test_a_part_that_the_program_sees_stays_dense():
    module, x = last(randomise(Skip(reads=True)), torch.randn(2, 3, 8, 6))
    assert run(module, x, regions=4).counts[PLACED] == ["cat: 1 of 2 parts"]


NOT_PLACED = {
    "contiguous memory": lambda: (Skip(), torch.randn(2, 3, 8, 6)),
    "channels that are no multiple of 8": lambda: last(Skip(12), torch.randn(2, 3, 8, 6)),
}


@pytest.mark.parametrize("name", NOT_PLACED)
def test_must_not_be_placed(name):
    module, x = NOT_PLACED[name]()
    assert not run(randomise(module), x, regions=4).counts[PLACED]


def test_parts_of_two_concatenations_and_twice_the_same():
    x, w = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 8, 6, 5), (8, 8, 1, 1)))
    for join in (lambda a, b: (torch.cat([a, a], 1), b), lambda a, b: (torch.cat([a, b], 1), torch.cat([b, a], 1)), lambda a, b: torch.cat([a, b], 2)):
        torch._dynamo.reset()
        run(lambda x, w: join(F.relu(F.conv2d(x, w)), F.silu(F.conv2d(x, w))), x, w, regions=2)


def test_concatenations_are_switched_off():
    module, x = last(randomise(Skip()), torch.randn(2, 3, 8, 6))
    assert PLACED not in run(module, x, regions=4, without=("concatenations",)).counts


def test_training_with_concatenations():
    from models import UNet, compare_gradients
    module, x = last(randomise(UNet()), torch.randn(2, 3, 16, 12))
    compare_gradients(module, torch.compile(module, backend=backend.unisono, options={"rest": "eager"}), x)


# Transposed convolutions

@pytest.mark.parametrize("form", [dict(kernel_size=2, stride=2), dict(kernel_size=3, stride=2, padding=1, output_padding=1),
                                  dict(kernel_size=3, stride=1, padding=1, groups=2), dict(kernel_size=(4, 3), stride=(2, 1), padding=1)])
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
    assert report.rows[0]["stores"] == 1 and not report.counts["standalone behind a contraction"], str(report)


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
    report = run(lambda a, w, t: LOSSES[name](a @ w, t), torch.randn(24, 16), torch.randn(16, 8), torch.rand(24, 8), regions=1, rest=rest)
    assert not report.counts["standalone behind a contraction"], str(report)


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


# What is taken in which graph, and caches

def test_a_training_step_asks_for_more_gain(monkeypatch):
    """Predictions have errors; a step must not be slower than Inductor's. Without a number in the options, training has a margin."""
    asked, fuse = {}, backend.fuse

    def recorded(graph, limits):
        asked[len(asked)] = limits.minimum_gain
        return fuse(graph, limits)

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
    assert any("aten.mm" in n and "[9, 16]" in n for n in report.before) and any("gemm" in n for n in report.after), (report.before, report.after)
