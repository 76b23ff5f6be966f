"""torch.compile with the backend where gradients are asked for: forward and backward graphs, and what they save."""

import copy

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import unisono as u  # noqa: E402
from compiled import regions_alone  # noqa: E402, F401
from models import Block, UNet, compare_gradients, gradients, randomise  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

KINDS = [torch.float32, torch.bfloat16, torch.float16]
EAGER = {"rest": "eager"}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()
    torch.manual_seed(0)


def compiled(function, **options):
    return torch.compile(function, backend=backend.unisono, options={**EAGER, **options}, fullgraph=True)


def of(kind):
    """The one report of a kind."""
    found = [r for r in backend.reports() if r.kind == kind]
    assert len(found) == 1, [r.kind for r in backend.reports()]
    return found[0]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(7, 5), pytest.param((8, 8), marks=pytest.mark.check)])
def test_gradients_of_a_block(dtype, last, size):
    block, x, t = randomise(Block()).to(dtype), torch.randn(2, 3, *size, dtype=dtype), torch.randn(2, 8, dtype=dtype)
    if last:
        block, x = block.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    compare_gradients(block, compiled(block), x, t)
    assert of("forward").regions == 2, str(of("forward"))
    report = of("backward")
    assert report.regions == 1 and "image's gradient is in" in str(report), str(report)
    assert "gradients of filters are PyTorch's" in str(report)


def backward_of(report, name=""):
    """The nodes of this name, or whose names begin so, as text."""
    return [n for n in report.after if "target=torch.ops.aten.convolution_backward" in n
            and (not name or n.startswith(f"%{name} "))]


MOVES = [{"padding": 1}, {}, {"padding": (2, 0), "dilation": (2, 1)}, {"padding": 1, "stride": 2}, {"padding": 3},
         {"padding": 1, "groups": 2}]


@pytest.mark.parametrize("moves", MOVES, ids=str)
@pytest.mark.parametrize("kind", ["convolution", "transposed"])
@pytest.mark.parametrize("last", [False, True])
def test_the_image_s_gradient_has_what_is_behind_it_in_its_kernel(kind, moves, last):
    make = nn.Conv2d if kind == "convolution" else nn.ConvTranspose2d
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), make(8, 6, 3, **moves), nn.Tanh())
    x = torch.randn(2, 3, 9, 8)
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    compare_gradients(model, compiled(model), x)
    report = of("backward")
    rows = [r for r in report.rows if "gradient_of" in r]
    assert len(rows) == 1 and rows[0]["taken"] and rows[0]["shape"] == [2, 8, 9, 8], str(report)
    assert any("mul" in name for name in rows[0]["fused"]), str(report)
    (left,) = backward_of(report, rows[0]["gradient_of"])
    assert "[False, True, True])" in left, left


def test_a_gradient_that_no_region_takes_stays_part_of_its_operator():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3), nn.Flatten())
    compare_gradients(model, compiled(model), torch.randn(2, 3, 9, 8))
    report = of("backward")
    assert report.regions == 0 and report.counts["backward contractions"] == 2, str(report)
    assert any("[True, True, True])" in n for n in backward_of(report)), report.after
    assert "the image's gradient: 0 operators after it" in str(report)


def test_convolutions_switched_off_leave_all_of_their_backward_pass():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 6, 3), nn.Tanh())
    compare_gradients(model, compiled(model, without=("convolutions",)), torch.randn(2, 3, 9, 8))
    assert of("backward").regions == 0
    assert any("[True, True, True])" in n for n in backward_of(of("backward")))


def test_what_the_backward_pass_reads_is_stored():
    """The convolution's result, mean and rstd are extra stores of its kernel; what is cheap is computed again."""
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    gradients(block, compiled(block), x, t)
    for row in (r for r in of("forward").rows if r["taken"]):
        text = row["epilogue"]
        assert row["stores"] == 4 and "variance(" in text and "rsqrt(" in text, text
        assert sum(line.startswith("store") for line in text.splitlines()) == 4
    names = [n for r in of("forward").rows for n in r["fused"]]
    assert any("var_mean" in n for n in names)


@pytest.mark.check
def test_inductor_runs_the_rest():
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    compare_gradients(block, torch.compile(block, backend=backend.unisono, fullgraph=True), x, t)
    assert of("forward").regions == 2, str(of("forward"))
    assert of("backward").counts["backward contractions"] == 2


@pytest.mark.check
def test_a_unet_of_our_backend_trains_as_eager_does():
    def losses(compile):
        torch.manual_seed(1)
        model = randomise(UNet())
        call, found = compile(model), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for step in range(12):
            x = torch.randn(2, 3, 8, 8)
            loss = (call(x) - x[:, :2].roll(1, 2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    ours, theirs = losses(compiled), losses(lambda m: m)
    assert of("forward").regions >= 6
    assert ours[-1] < 0.9 * ours[0]
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=2e-3, atol=0)


def test_kernels_really_run():
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    call = compiled(block)
    gradients(block, call, x, t)
    before = u.cache_info()
    gradients(block, call, x, t)
    after = u.cache_info()
    expected = of("forward").regions + of("backward").regions
    assert after["hits"] - before["hits"] == expected > 0 and after["misses"] == before["misses"]


def test_products():
    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(24, 40), nn.Linear(40, 24), nn.LayerNorm(24)

        def forward(self, x):
            return self.norm(x + self.down(F.gelu(self.up(x))))

    mlp = randomise(Mlp())
    compare_gradients(mlp, compiled(mlp), torch.randn(2, 7, 24))
    assert of("forward").regions == 2, str(of("forward"))
    assert of("backward").regions >= 1, str(of("backward"))  # gelu's derivative behind a product


def test_regions_of_backward_graphs_can_be_switched_off():
    linear = randomise(nn.Linear(8, 8))
    call = compiled(lambda x: F.gelu(F.gelu(linear(x)) @ linear.weight), without=("backward",))
    gradients(linear, call, torch.randn(5, 8))
    assert of("backward").regions == 0 and "without=('backward',)" in str(of("backward")) and of("forward").regions == 2


@pytest.mark.check
def test_activation_checkpointing():
    """The checkpointed convolution is computed again in the backward graph, in one kernel there too."""
    block = randomise(Block())

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = block

        def forward(self, x, t):
            return checkpoint(self.block, x, t, use_reentrant=False)

    module = Checkpointed()
    compare_gradients(module, compiled(module), torch.randn(2, 3, 8, 8), torch.randn(2, 8))
    assert of("forward").regions == 2 and of("backward").regions >= 1, str(of("backward"))


@pytest.mark.check
def test_autocast_and_gradient_scaling():
    def train(compile):
        model = randomise(UNet())
        call = compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for step in range(4):
            x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = call(x).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if step == 1:  # an overflow: the step is left out, and the scale halved
                next(model.parameters()).grad.fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
        return model, scaler

    ours, theirs = train(compiled), train(lambda m: m)
    forward = of("forward")
    assert forward.regions >= 6 and all(r["dtype"] == "torch.bfloat16" for r in forward.rows), str(forward)
    assert ours[1].get_scale() == theirs[1].get_scale() == 2.0**9
    start = randomise(UNet())
    for mine, other, first in zip(ours[0].parameters(), theirs[0].parameters(), start.parameters()):
        assert (mine - other).norm() <= 0.05 * (other - first).norm()


@pytest.mark.parametrize("cast", [torch.bfloat16, torch.float16])
def test_autocast_reaches_functional_calls(cast):
    x, w, b = torch.randn(2, 4, 6, 5, requires_grad=True), torch.randn(8, 4, 3, 3, requires_grad=True), torch.randn(8)
    with torch.autocast("cpu", dtype=cast):
        y, z = u.conv2d(x, w, "silu(acc + b[n])", b=b, padding=1), F.silu(F.conv2d(x, w, b, padding=1))
        assert y.dtype == z.dtype == cast
        assert u.gemm(x[0, 0], x[0, 0].T).dtype == cast
    torch.testing.assert_close(y, z, rtol=0.02, atol=0.02)
    y.sum().backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32 and w.grad.abs().max() > 0


def test_batch_normalisation_that_trains():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 8, 3, bias=False), nn.BatchNorm2d(8)

        def forward(self, x):
            return F.relu(self.norm(self.conv(x)))

    net = Net().train()
    other, x = copy.deepcopy(net), torch.randn(3, 4, 7, 6) + 0.5
    call = compiled(net)
    for mine, theirs in zip(gradients(net, call, x), gradients(other, other, x)):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(net.norm.running_mean, other.norm.running_mean)
    torch.testing.assert_close(net.norm.running_var, other.norm.running_var)


MUST_NOT = {
    "a mask that is saved": lambda x, w: torch.where(F.conv2d(x, w) > 0, 1.0, 2.0) * F.conv2d(x, w),
    "a saved value in another order": lambda x, w: F.conv2d(x, w).transpose(2, 3).exp(),
    "dropout": lambda x, w: F.dropout(F.conv2d(x, w), 0.0) * 2,
}


@pytest.mark.parametrize("name", MUST_NOT)
def test_results_are_right_whatever_is_taken(name):
    w = nn.Parameter(torch.randn(8, 4, 1, 1))
    holder = nn.Module()
    holder.w = w
    call = compiled(lambda x: MUST_NOT[name](x, holder.w))
    x = torch.randn(2, 4, 5, 5)
    mine, theirs = (gradients(holder, f, x) for f in (call, lambda x: MUST_NOT[name](x, holder.w)))
    for one, other in zip(mine, theirs):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_values_that_escape_and_inputs_that_change():
    conv, state = randomise(nn.Conv2d(4, 8, 3, padding=1)), torch.zeros(2, 8, 6, 6)

    def step(x, state):
        h = conv(x)
        state.add_(h.detach())
        y = F.silu(h)
        return y * 2 + h, h

    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    mine, theirs = state.clone(), state.clone()
    (a, b), (c, d) = compiled(step)(x, mine), step(x, theirs)
    torch.testing.assert_close(mine, theirs)
    ours = torch.autograd.grad((a * b).sum(), [x, *conv.parameters()])
    for one, other in zip((a, b, *ours), (c, d, *torch.autograd.grad((c * d).sum(), [x, *conv.parameters()]))):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert of("forward").regions == 1


@pytest.mark.check
def test_gradients_by_differences():
    """gradcheck of a compiled region and of a functional call; in f32, so that steps are large."""
    conv, norm = randomise(nn.Conv2d(2, 4, 3, padding=1)), randomise(nn.GroupNorm(2, 4))
    call = compiled(lambda x, w: F.silu(norm(F.conv2d(x, w, conv.bias, padding=1))))
    inputs = torch.randn(1, 2, 4, 4, requires_grad=True), conv.weight
    check = dict(eps=1e-2, atol=2e-2, rtol=2e-2, nondet_tol=1e-5)
    with pytest.warns(UserWarning, match="double precision"):
        assert torch.autograd.gradcheck(call, inputs, **check)
        assert torch.autograd.gradcheck(lambda x, w: u.conv2d(x, w, "silu(group_norm(acc + b[n], groups=2))", b=conv.bias, padding=1),
                                        inputs, **check)
    assert of("forward").regions == 1


@pytest.mark.check
@pytest.mark.parametrize("kind", ["convolutions", "products", "normalisations", "activations", "operands"])
def test_switches(kind):
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    with torch.no_grad():
        compiled(block, without=(kind,))(x, t)
    fused = " ".join(f for row in backend.reports()[-1].rows for f in row["fused"])
    words = {"convolutions": "norm", "normalisations": "norm", "activations": "silu", "products": "nothing", "operands": "add"}
    assert words[kind] not in fused
    with pytest.raises(Exception, match="without='casts'; expected a tuple"):
        torch._dynamo.reset()
        compiled(block, without="casts")(x, t)


BETWEEN = {"nothing": lambda y, t: y, "an embedding": lambda y, t: y + t, "a scale": lambda y, t: y * 0.5 + 1,
           "casts": lambda y, t: y.float() + t.float()}


@pytest.mark.check
@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("norm", [nn.InstanceNorm2d, nn.BatchNorm2d])
def test_a_bias_ahead_of_a_norm_has_no_gradient(norm, between, rest):
    """What is left of it is rounding, of which a mean that is rounded to 16 bits would be most: PyTorch's decomposition of a
    batch norm has such a mean on a CPU."""
    convolution, norm = randomise(nn.Conv2d(8, 64, 3, padding=1)), randomise(norm(64, affine=True))
    convolution.bias.data += 8
    x, t, weights = torch.randn(3, 8, 5, 4), torch.randn(3, 64, 1, 1).bfloat16(), torch.randn(3, 64, 5, 4)

    def net(x, t):
        return norm(BETWEEN[between](convolution(x), t))

    def noise(call):
        convolution.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            result = call(x, t)
        (result * result + result * weights).sum().backward()
        return float(convolution.bias.grad.norm())

    mine = noise(torch.compile(net, backend=backend.unisono, options={"rest": rest}))
    assert mine < 2 * noise(net)


def test_what_a_softmax_does_not_see_has_no_gradient():
    """A factor that all columns of a row share: its gradient is rounding alone. The backward pass takes exponentials of the
    products as they were stored, less the largest, which must be of these. On a GPU, autocast writes such casts."""
    x, w, v = (torch.randn(s).bfloat16() for s in ((64, 16), (16, 24), (24, 8)))
    w[0], weights = 8, torch.randn(64, 8)

    def function(x):
        return torch.softmax((x @ w).float(), -1).bfloat16() @ v

    def noise(call):
        one = x.clone().requires_grad_()
        (call(one) * weights).sum().backward()
        return float(one.grad[:, 0].float().norm())

    mine = noise(compiled(function))
    text = next(r["epilogue"] for r in of("forward").rows if "max(" in r["epilogue"])
    assert text.count("store") > 1, text
    assert mine < 2 * noise(function)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_averages_of_16_bits_are_rounded_once(dtype):
    """As by PyTorch's kernels: its decomposition rounds what is left of an average before it adds what is new."""
    net, x = nn.BatchNorm1d(256).to(dtype), torch.randn(40, 256, dtype=dtype)
    for buffer in (net.running_mean, net.running_var):
        buffer.copy_(1 + torch.rand(256))
    exact = copy.deepcopy(net).double()
    other = copy.deepcopy(net)
    compiled(net)(x), other(x), exact(x.double())
    for name in ("running_mean", "running_var"):
        right = getattr(exact, name)
        mine, theirs = ((getattr(n, name).double() - right).abs().max() for n in (net, other))
        assert mine <= 1.02 * theirs, (name, mine, theirs)


class Narrowed(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16)


@pytest.mark.parametrize("autocast, most, shape, layers", [
    (True, 0.5, (1, 8, 1, 1), (nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU())),
    (False, 2.0**-9, (4, 32, 2), (nn.Linear(2, 3), Narrowed(), nn.LayerNorm(3)))], ids=["groups of 2", "rows of 3"])
def test_gradients_through_statistics_of_few_numbers(autocast, most, shape, layers):
    """They cancel but for what mean and rstd have beyond 16 bits; of two numbers little is left in float32, too."""
    module, x = randomise(nn.Sequential(*layers)), torch.randn(shape)

    def gradient(call):
        leaf = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = call(leaf)
        (y.float() * torch.arange(y.numel()).view(y.shape)).sum().backward()
        return leaf.grad
    theirs = gradient(module)
    assert (gradient(compiled(module)) - theirs).norm() <= most * theirs.norm()


class Projected(nn.Module):
    """A block of a ResNet whose other branch is a 1×1 convolution of the same image: two gradients of it are added."""

    def __init__(self, stride):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 16, 3, stride, 1), nn.GroupNorm(4, 16)
        self.other = nn.Conv2d(8, 16, 1, stride)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)) + self.other(x))


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_an_image_that_two_convolutions_read(stride):
    module = randomise(Projected(stride))
    compare_gradients(module, compiled(module), torch.randn(2, 8, 6, 4))


@pytest.mark.parametrize("image", [
    lambda: torch.randn(1, 3, 27).narrow(2, 1, 24).transpose(1, 2).unsqueeze(-1),
    lambda: torch.randn(1, 24, 9, 1).contiguous(memory_format=torch.channels_last).unflatten(1, (-1, 2)),
    lambda: torch.randn(2, 24, 5, 7).contiguous(memory_format=torch.channels_last)], ids=["rows", "volumes", "channels last"])
def test_a_group_norm_lays_its_result_out_as_eager_mode_does(image):
    x = image()
    module = nn.Sequential(nn.GroupNorm(3, x.shape[1]), nn.ReLU())
    y = compiled(module)(x.requires_grad_())
    theirs = module(x)
    assert y.stride() == theirs.stride()
    assert (y - theirs).abs().max() < 1e-5
