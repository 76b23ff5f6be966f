"""With frozen=True a whole inference graph is one executable where src/network serves all of it."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from models import Block, UNet, norm, randomise  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

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


def test_autocast_casts_in_the_graph():
    """On a CPU a network is of float32: under autocast regions have it, with eager mode's types."""
    model, x = sequence().eval(), torch.randn(3, 8)
    call = compiled(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert call(x).dtype == model(x).dtype
    assert backend.reports()[-1].note.startswith(ALONE + "products and convolutions of torch.bfloat16")


class Writes(nn.Linear):
    def forward(self, x):
        self.bias.add_(1)
        return super().forward(x)


REFUSED = {
    "a result that is a view of another": (lambda x, w: ((y := x @ w), y[0]), "a result shares memory with"),
    "an expanded result": (lambda x, w: (x @ w).sum(1, keepdim=True).expand(4, 4), "share memory: strides"),
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


def test_a_graph_that_writes_and_one_of_unknown_extents():
    model, x = Writes(4, 4).requires_grad_(False), torch.randn(2, 4)
    other = copy.deepcopy(model)
    call = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(call(x), other(x))
        assert "the graph writes" in backend.reports()[-1].note
        call = compiled(sequence().eval())
        for rows in (3, 4, 7):
            assert call(torch.randn(rows, 8)).shape == (rows, 4)
    assert "extents are not known" in backend.reports()[-1].note


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
