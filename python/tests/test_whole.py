"""With frozen=True a whole inference graph is one executable where src/network serves all of it."""

import copy
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from models import Block, UNet, no_worse, norm, randomise  # noqa: E402
from unisono import UserError  # noqa: E402
from unisono.pytorch import backend, whole  # noqa: E402

ALONE = "not one network: "


def compiled(model, **options):
    torch._dynamo.reset()
    backend._reports.clear()
    return torch.compile(model, backend=backend.unisono, options={"frozen": True, "rest": "eager", **options})


def is_whole():
    (report,) = backend.reports()
    return report.counts == {"calls": 1} and all(row["taken"] for row in report.rows)


class Mixed(nn.Module):
    """What regions do not have: attention, windows by index, padding and cutting, reductions, extremes."""

    def __init__(self):
        super().__init__()
        self.qkv, self.table = nn.Linear(12, 36), nn.Parameter(torch.randn(9, 3))
        self.register_buffer("places", torch.randint(-9, 9, (16, 16)))
        self.register_buffer("rows", torch.tensor([[2], [0]]))

    def forward(self, x):
        windows = F.pad(x, (0, 0, 1, -1)).reshape(2, 2, 4, 2, 4, 12).transpose(2, 3).reshape(8, 16, 12)
        q, k, v = self.qkv(windows).reshape(8, 16, 3, 3, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.places].permute(2, 0, 1).unsqueeze(0)
        y = F.scaled_dot_product_attention(F.normalize(q, dim=-1), k, v, attn_mask=bias).transpose(1, 2).reshape(8, 16, 12)
        chosen = y[:, self.rows, torch.tensor([1, 5, 11])]
        largest, where = x.max(1)  # of what nobody rounds: of results two may be as large but for rounding
        return y.flip(1), chosen, largest, y.amax(1) / y.std((1, 2)).reshape(8, 1), torch.where(where > 0.5, 1, where.remainder(3) + 0.0), y.cumsum(1)


def sequence():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1))


torch.manual_seed(0)
CASES = {
    "a U-Net": (UNet, (torch.randn(2, 3, 8, 8),)),
    "a U-Net of images that are channels last": (UNet, (torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last),)),
    "a block": (Block, (torch.randn(2, 3, 8, 8), torch.randn(2, 8))),
    "linear layers": (sequence, (torch.randn(3, 5, 8),)),
    "one row": (sequence, (torch.randn(1, 8),)),
    "moves": (Mixed, (torch.randn(2, 8, 8, 12),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_is_one_network(name):
    torch.manual_seed(0)
    make, inputs = CASES[name]
    model = randomise(make()).eval()
    call = compiled(model)
    with torch.no_grad():
        mine, theirs = call(*inputs), model(*inputs)
        right = copy.deepcopy(model).double()(*(x.double() for x in inputs))
    as_list = lambda y: list(y) if isinstance(y, tuple) else [y]  # noqa: E731
    for one, other, exact in zip(as_list(mine), as_list(theirs), as_list(right), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype, name
        # sums have another order; a few roundings of a quotient's are in the terms of neither
        assert norm(one.double() - exact) <= 2 * norm(other.double() - exact) + 4 * 2.0**-24 * norm(exact), name
        assert one.stride() == other.stride(), name
    assert is_whole(), str(backend.reports()[-1])


def step(conv):
    with torch.no_grad():
        conv.weight.mul_(-2)


CHANGES = {
    "a write": step,
    "another parameter": lambda conv: setattr(conv, "weight", nn.Parameter(torch.randn_like(conv.weight), requires_grad=False)),
    "other memory": lambda conv: setattr(conv.bias, "data", torch.randn_like(conv.bias)),
    "load_state_dict": lambda conv: conv.load_state_dict({n: 3 * t for n, t in conv.state_dict().items()}),
}


def test_weights_that_change_are_read_again():
    conv, x = nn.Conv2d(3, 4, 3).requires_grad_(False), torch.randn(1, 3, 6, 6)
    call = compiled(lambda x: F.silu(conv(x)))
    with torch.no_grad():
        for name, change in CHANGES.items():
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4)
            assert is_whole()
            change(conv)
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4, msg=name)


def test_weights_of_which_nothing_can_be_made_again(monkeypatch):
    """What a network refuses of new weights, regions compute."""
    conv, x = nn.Conv2d(3, 4, 3).requires_grad_(False), torch.randn(1, 3, 6, 6)
    call = compiled(lambda x: F.silu(conv(x)))

    def refuse(part, weights):
        raise UserError("these weights are no network")

    with torch.no_grad():
        call(x)
        assert is_whole()
        monkeypatch.setattr(whole.Part, "load", refuse)
        for _ in range(2):
            step(conv)
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4)
    assert len(backend.reports()) == 2


@pytest.mark.parametrize("dtype", (None, torch.bfloat16, torch.float16), ids=("autocast", "bf16", "f16"))
def test_16_bits_on_a_cpu(dtype):
    """With eager mode's types; under autocast products of both types stand in one network."""
    model, x = sequence().eval(), torch.randn(3, 8)
    exact = copy.deepcopy(model).double()
    model, x = (model, x) if dtype is None else (model.to(dtype), x.to(dtype))
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype is None):
        mine, theirs = compiled(model)(x), model(x)
    no_worse(mine, theirs, exact(x.double()))
    assert is_whole() and mine.dtype == theirs.dtype


class Writes(nn.Linear):
    def forward(self, x):
        self.bias.add_(1)
        return super().forward(x)


REFUSED = {
    "a view that overlaps": (lambda x, w: (x @ w).as_strided((7, 4), (2, 1)), "share memory: strides"),
    "a view of another type": (lambda x, w: ((y := x @ w), y.view(torch.int32)), "tensor of another type"),
    "float64": (lambda x, w: x.double() @ w.double(), "products and convolutions of torch.float64"),
    "no contraction": (lambda x, w: F.silu(x), "products and convolutions of no type"),
    "an operator without a translation": (lambda x, w: torch.erfinv(torch.tanh(x @ w)), "no translation of aten.erfinv.default"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network_is_compiled_by_regions(name):
    function, why = REFUSED[name]
    weight = nn.Parameter(torch.randn(4, 4), requires_grad=False)
    x = torch.randn(4, 4)
    call = compiled(lambda x: function(x, weight))
    with torch.no_grad():
        mine, theirs = call(x), function(x, weight)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    note = backend.reports()[-1].note
    assert note.startswith(ALONE) and why in note, note


@pytest.mark.parametrize("mode", ("replicate", "reflect"))
def test_strides_of_padded_volumes(mode):
    """PyTorch's own are other than its fake tensors'."""
    conv = nn.Conv3d(4, 3, 3, padding=1, padding_mode=mode, bias=False)
    x = torch.randn(2, 4, 2, 5, 4).contiguous(memory_format=torch.channels_last_3d)
    with torch.no_grad():
        mine, theirs = compiled(conv, frozen=False, networks="any")(x), conv(x)
    assert mine.stride() == theirs.stride() and "by its own elements" in backend.reports()[-1].note
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_a_graph_that_writes():
    model, x = Writes(4, 4).requires_grad_(False), torch.randn(2, 4)
    other = copy.deepcopy(model)
    call = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), other(x))
    assert "the graph writes" in backend.reports()[-1].note


def notes():
    return [report.note for report in backend.reports()]


@pytest.mark.check
def test_each_set_of_extents_is_a_network(monkeypatch):
    monkeypatch.setattr(whole, "MOST_SIZES", 3)
    model, conv = sequence().eval(), nn.Conv2d(3, 8, 3, padding=1).eval()
    call = compiled(lambda x, y: (model(x), x.shape[0] + 1, F.silu(conv(y)).flatten(2).mean(-1).repeat(x.shape[0], 1)))
    with torch.no_grad():
        for rows, size in ((3, 4), (4, 5), (7, 6), (4, 5), (5, 9), (7, 6), (6, 7), (9, 8)):
            x, y = torch.randn(rows, 8), torch.randn(2, 3, size, size + 1)
            mine, theirs = call(x, y), (model(x), rows + 1, F.silu(conv(y)).flatten(2).mean(-1).repeat(rows, 1))
            assert mine[1] == theirs[1]
            for i in (0, 2):
                assert mine[i].stride() == theirs[i].stride()
                torch.testing.assert_close(mine[i], theirs[i], rtol=1e-4, atol=1e-5)
    made = [note for note in notes() if note]
    assert len(made) == 4 and not any(note.startswith(ALONE) for note in made)  # (3, 4) by itself, then three sets
    assert notes()[-1] == ""  # all others by regions


VIEWS = {
    "of another result": lambda x, y: (y, y[0], y[2:, 1:].t(), y * 2),
    "of one that is no result": lambda x, y: (*y.chunk(2, -1), y[0, ::2], y.sum(1)),
    "of an input": lambda x, y: (x[1], y, x.t()[1:, ::2], y[None]),
    "of a slice": lambda x, y: (x[0, 1:], x.view(2, 2, 4).transpose(0, 1), y),
    "expanded": lambda x, y: (y.sum(1, keepdim=True).expand(4, 5), (z := y.sum(0)).expand(3, 4), z),
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_share_memory_as_eager_modes_do(name):
    weight, base = nn.Parameter(torch.randn(4, 4), requires_grad=False), torch.randn(7, 4)
    function = lambda x: VIEWS[name](x, x @ weight)  # noqa: E731
    call = compiled(function)
    with torch.no_grad():
        for begin in (1, 3):  # nothing guards where in its memory an input begins
            x = base[begin:begin + 4]
            mine, theirs = call(x), function(x)
            for one, other in zip(mine, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
                assert one.stride() == other.stride()
            places = [[t.untyped_storage().data_ptr() for t in (x, *results)] for results in (mine, theirs)]
            assert [places[0].index(p) for p in places[0]] == [places[1].index(p) for p in places[1]]
            for results in (mine, theirs):
                results[0][0].fill_(7)  # which others see
            for one, other in zip(mine, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert is_whole()


@pytest.mark.check
def test_several_threads_call_with_new_sizes():
    model, wrong = sequence().eval(), []
    torch._dynamo.reset()
    backend._reports.clear()
    call = torch.compile(model, backend=backend.unisono, dynamic=True, options={"frozen": True, "rest": "eager"})
    with torch.no_grad():
        call(torch.randn(2, 8))

    def run(first):
        with torch.no_grad():
            for i in range(12):
                x = torch.randn(2 + (first + i) % 4, 8)
                if not torch.allclose(call(x), model(x), rtol=1e-4, atol=1e-5):
                    wrong.append((first, i))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Dynamo may compile in each thread, as settings of threads differ; each graph is a network for all sizes
    assert not wrong and all(r.counts == {"calls": 1} for r in backend.reports())


def test_inputs_that_are_results_and_results_that_are_so_twice():
    weight, x = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad():
        a, b, c = compiled(lambda x: ((y := x @ weight), x, y))(x)
    assert b is x and a is c and is_whole()
    torch.testing.assert_close(a, x @ weight)


def test_rms_norms_as_a_gpu_has_them(monkeypatch):
    """PyTorch 2.11 exports an operator that its own table of decompositions lacks."""
    fused = torch.ops.aten._fused_rms_norm.default
    table = {op: how for op, how in torch.export.default_decompositions().items() if op is not fused}
    monkeypatch.setattr(torch.export, "default_decompositions", lambda: table)
    layer, weight, x = nn.Linear(16, 16).to(torch.bfloat16), torch.rand(16, dtype=torch.bfloat16), torch.randn(5, 16)
    for eps, scale in (1e-5, 1), (None, 0.01):  # none is that of f32, in which it is computed
        torch._dynamo.reset()
        with torch.no_grad():
            call = compiled(lambda x: layer(fused(layer(x) * scale, [16], weight, eps)[0]), strict=True)
            y = x.to(torch.bfloat16)
            torch.testing.assert_close(call(y), layer(F.rms_norm(layer(y) * scale, [16], weight, eps)), rtol=0.02,
                                       atol=0.02)
        assert is_whole()


class Foreign(nn.Module):
    """Operators that networks lack, random ones among them, between layers; some of them depend on nothing."""

    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))

    def forward(self, x):
        noise = torch.rand(x.shape[0], 1)
        a = x
        for layer in self.layers[:5]:
            a = F.gelu(layer(a))
        b = torch.erfinv(torch.tanh(a)) + noise
        for layer in self.layers[5:8]:
            b = F.silu(layer(b))
        values, places = torch.sort(self.layers[8](a) * 2 + b, -1)
        c = F.dropout(values, 0.5, True) + torch.arange(8) / 8
        for layer in self.layers[9:]:
            c = layer(c).relu()
        return c, places, a, noise * 2, torch.arange(3)


class Rolled(nn.Module):
    """Between layers several operators that networks lack: results of them are views of one another and of an input."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))
        self.scale = nn.Parameter(torch.rand(8))

    def forward(self, x):
        a = x
        for layer in self.layers[:6]:
            a = F.gelu(layer(a))
        b = torch.erfinv(torch.tanh(a)) * self.scale
        values, places = torch.sort(b, 0)
        c = torch.special.i0e(values).expand(2, *values.shape)
        d = c
        for layer in self.layers[6:]:
            d = F.silu(layer(d))
        return d, places.mT, b, b[1:], x[:1], c, torch.special.i1(self.scale) + 1


@pytest.mark.check
@pytest.mark.parametrize("networks", ("frozen", "any"))
def test_what_stands_between_networks_is_compiled(monkeypatch, networks):
    compiled_steps = []
    alone = backend._by_inductor_alone
    monkeypatch.setattr(backend, "_by_inductor_alone", lambda m, i: compiled_steps.append(m) or alone(m, i))
    torch.manual_seed(0)
    model = Rolled().eval()
    call = compiled(model, networks=networks, frozen=networks == "frozen", rest="inductor")
    with torch.no_grad():
        for width in (6, 6, 5):
            x = torch.randn(9, width, 8).transpose(0, 1)
            mine, theirs = call(x), model(x)
            for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=f"result {i}")
                assert one.stride() == other.stride() and one.dtype == other.dtype, i
            assert mine[4].data_ptr() == x.data_ptr() and mine[3].untyped_storage().data_ptr() == mine[2].data_ptr()
            model.scale.mul_(1.5)
    assert compiled_steps and all(r.counts["calls"] == 2 for r in backend.reports()), str(backend.reports()[-1])


@pytest.mark.parametrize("networks", ("frozen", "any"))
def test_networks_stand_between_foreign_operators(monkeypatch, networks):
    monkeypatch.setattr(whole, "FEWEST", 1)
    torch.manual_seed(0)
    model, x = Foreign().eval(), torch.randn(6, 8)
    call = compiled(model, networks=networks, frozen=networks == "frozen")
    with torch.no_grad():
        call(x)
        torch.manual_seed(3)
        mine = call(x)
        state = torch.get_rng_state()
        torch.manual_seed(3)
        theirs = model(x)
    assert torch.equal(state, torch.get_rng_state()), "random operators run once, in their order"
    for i, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=f"result {i}")
        assert one.stride() == other.stride() and one.dtype == other.dtype
    (report,) = backend.reports()
    assert report.counts["calls"] == 3 and all(row["taken"] for row in report.rows), str(report)
    assert any("erfinv" in one for one in report.counts["operators of PyTorch's between networks"])


@pytest.mark.parametrize("winner", ("networks", "regions"))
def test_the_faster_way_by_measurement(monkeypatch, winner):
    """Both ways run before the first call, which is of one of them and draws the numbers that eager mode draws."""
    real, timed = backend.fastest, []

    def fastest(ways, inputs, device):
        timed.append(ways)
        return winner, {name: real({name: way}, inputs, device)[1][name] for name, way in ways.items()}

    monkeypatch.setattr(backend, "fastest", fastest), monkeypatch.setattr(whole, "FEWEST", 1)
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.randn(3, 8)
    if winner == "networks":  # Inductor and AOTAutograd draw in another way
        model.append(nn.Dropout(0.5))
    call = compiled(model, networks="measured", frozen=False)
    with torch.no_grad():
        for _ in range(2):
            torch.manual_seed(3)
            mine = call(x)
            torch.manual_seed(3)
            torch.testing.assert_close(mine, model(x), rtol=1e-4, atol=1e-5)
            model[0].weight.mul_(2)
    (report,) = backend.reports()
    assert list(report.measured_us) == ["networks", "regions"] and min(report.measured_us.values()) > 0
    assert (report.kernels is not None) == (winner == "networks") and len(timed) == 1 and "measured: networks " in str(report)


def test_what_cannot_be_measured_becomes_regions():
    model, x = nn.Linear(8, 8), torch.randn(3, 8)
    compiled(model, networks="measured", frozen=False)(x).sum().backward()
    assert "'measured' is for inference" in backend.reports()[0].note


@pytest.mark.check
def test_many_foreign_operators_are_left_to_regions():
    model, x = Foreign().eval(), torch.randn(6, 8)
    call = compiled(model)
    with torch.no_grad():
        call(x)
    assert "are fewer than 4 for each of" in backend.reports()[-1].note


class Scaled(nn.Module):
    """Vectors of channels, as layer scale has them, and a weight that is standardised, on both sides of a cut."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.scale = nn.Parameter(torch.randn(8))

    def forward(self, x):
        scale, weight = self.scale.view(1, 8, 1, 1), self.second.weight - self.second.weight.mean()
        y = torch.erfinv(torch.tanh(self.first(x) * scale))
        return F.conv2d(F.conv2d(y, weight), weight) * scale + scale.reshape(1, -1, 1, 1)


@pytest.mark.parametrize("networks", ("frozen", "any"))
def test_what_depends_on_weights_alone_is_in_each_network(monkeypatch, networks):
    monkeypatch.setattr(whole, "FEWEST", 1)
    torch.manual_seed(0)
    model, x = Scaled().eval(), torch.randn(2, 3, 9, 9)
    call = compiled(model, networks=networks, frozen=networks == "frozen")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-5)
            model.scale.mul_(2)
    (report,) = backend.reports()
    assert report.counts["calls"] == 2 and len(report.counts["operators of PyTorch's between networks"]) == 1, str(report)


def test_weights_that_are_inputs_are_never_stale():
    """Also writes that version counters do not see, and weights that are trained between calls."""
    conv, linear, x = nn.Conv2d(3, 4, 3), nn.Linear(16, 5), torch.randn(1, 3, 6, 6)
    model = nn.Sequential(conv, nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(2), linear).eval()
    call = compiled(model, frozen=False, networks="any")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)

    def train():
        with torch.enable_grad():
            model(x).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    changes = {**CHANGES, "training": lambda conv: train(), ".data": lambda conv: conv.weight.data.mul_(3),
               "a running mean": lambda conv: model[1].running_mean.add_(1)}
    with torch.no_grad():
        for name, change in changes.items():
            torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-4)
            assert is_whole()
            change(conv)
            conv.weight.requires_grad_(True)
            torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_weights_that_are_inputs_on_a_gpu():
    """Read where they lie, by calls and by replays; one that is another tensor is read by the next call."""
    conv, other = nn.Conv2d(16, 32, 3), nn.Conv2d(32, 5, 3)
    model = nn.Sequential(conv, nn.BatchNorm2d(32), nn.SiLU(), other).eval().cuda().bfloat16()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 16, 9, 9, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    call = compiled(model, frozen=False, networks="any")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()

    def right(y):
        torch.testing.assert_close(y.float(), copy.deepcopy(model).float()(x.float()), rtol=0.05, atol=0.05)

    with torch.no_grad():
        with torch.cuda.stream(stream):
            call(x)
        stream.synchronize()
        assert is_whole()
        with torch.cuda.graph(graph, stream=stream):
            y = call(x)
        for factor in (1.0, -1.0, 0.5):
            conv.weight.data.mul_(factor)  # which version counters do not see
            graph.replay()
            torch.cuda.synchronize()
            right(y)
            right(call(x))
        conv.weight = nn.Parameter(conv.weight.clone() * 2)
        right(call(x))


class Attention(nn.Module):
    def __init__(self, heads, of_keys, causal):
        super().__init__()
        self.heads, self.of_keys, self.causal = heads, of_keys, causal
        self.q, self.kv, self.out = nn.Linear(12, 4 * heads), nn.Linear(12, 8 * of_keys), nn.Linear(4 * heads, 6)

    def forward(self, x, y, mask):
        q, (k, v) = self.q(x).unflatten(-1, (self.heads, 4)), self.kv(y).unflatten(-1, (2, self.of_keys, 4)).unbind(-3)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        z = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal, enable_gqa=self.heads != self.of_keys)
        return self.out(z.transpose(1, 2).flatten(2))


@pytest.mark.check
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("heads", ((4, 4), (6, 2), (3, 1)))
def test_attention_of_bools_and_of_groups_of_heads(heads, dtype):
    """A row to which a mask leaves no key has the weights 0."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 7, 12, dtype=dtype), torch.randn(2, 5, 12, dtype=dtype)
    blind = torch.rand(2, 1, 7, 5) > 0.4
    blind[0, 0, 3] = False
    bools = {"bools": blind, "of keys": torch.rand(2, 1, 1, 5) > 0.4, "of heads": torch.rand(heads[0], 7, 5) > 0.4, "of rows": torch.rand(7, 1) > 0.4}
    numbers = {"numbers": torch.randn(2, heads[0], 7, 5, dtype=dtype), "a number a key": torch.randn(5, dtype=dtype).expand(7, 5)}
    numbers["minus infinity"] = numbers["numbers"].masked_fill(~blind, -torch.inf)
    for name, mask in {"none": None, "causal": None, **bools, **numbers}.items():
        model = randomise(Attention(*heads, name == "causal")).to(dtype)
        call, exact = compiled(model), copy.deepcopy(model).double()
        with torch.no_grad():
            right = exact(x.double(), y.double(), mask.double() if name in numbers else mask)
            no_worse(call(x, y, mask), model(x, y, mask), right, name)
        assert is_whole(), f"{name}: {backend.reports()[-1]}"


def test_attention_of_the_scale_0():
    """All keys count alike."""
    model, x = nn.Linear(12, 24), torch.randn(2, 3, 7, 12)

    def attend(x):
        return F.scaled_dot_product_attention(x, *model(x).chunk(2, -1), scale=0.0)

    call = compiled(attend)
    with torch.no_grad():
        torch.testing.assert_close(call(x), attend(x))
    assert is_whole()


@pytest.mark.check
def test_inputs_of_any_strides():
    model = sequence().eval()
    wide = torch.randn(3, 5, 16)
    inputs = {"expanded": torch.randn(1, 1, 8).expand(3, 5, 8), "a slice": wide[..., ::2], "columns": wide[..., :8],
              "transposed": torch.randn(8, 5, 3).permute(2, 1, 0), "one row of many": torch.randn(4, 8)[2:3]}
    for name, x in inputs.items():
        call = compiled(model)
        with torch.no_grad():
            torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-5, msg=name)


def test_gradients_are_not_lost():
    model, x = sequence(), torch.randn(2, 8)
    compiled(model)(x).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert "gradients are recorded" in backend.reports()[0].note


def test_networks_can_be_switched_off():
    model, x = sequence().eval(), torch.randn(2, 8)
    with torch.no_grad():
        compiled(model, without=("networks",))(x)
    assert backend.reports()[-1].note == ""
