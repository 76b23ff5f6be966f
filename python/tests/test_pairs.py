"""Pairs of products and batches that share a matrix: what fires, what must not, results."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import KINDS, fresh, regions_alone, run  # noqa: E402, F401
from models import randomise  # noqa: E402

from unisono._native import UserError  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

pytestmark = pytest.mark.check

GATES = {
    "SwiGLU": lambda a, b: F.silu(a) * b,
    "GEGLU": lambda a, b: b * F.gelu(a),
    "GEGLU by tanh": lambda a, b: F.gelu(a, approximate="tanh") * b,
    "GLU": lambda a, b: a * torch.sigmoid(b),
    "ReGLU": lambda a, b: F.relu(a) * b,
    "bilinear": lambda a, b: a * b,
    "clamped": lambda a, b: (lambda g, u: g * torch.sigmoid(1.702 * g) * (u + 1))(a.clamp(max=1.5), b.clamp(-1.5, 1.5)),
}
CUTS = {
    "chunk": lambda h: h.chunk(2, -1),
    "split": lambda h: h.split(h.shape[-1] // 2, -1),
    "split of two": lambda h: h.split([h.shape[-1] // 2] * 2, -1),
    "slices": lambda h: (h[..., : h.shape[-1] // 2], h[..., h.shape[-1] // 2 :]),
    "every second": lambda h: (h[..., ::2], h[..., 1::2]),
    "unbind": lambda h: h.unflatten(-1, (-1, 2)).unbind(-1),
    "select": lambda h: (h.unflatten(-1, (2, -1))[..., 0, :], h.unflatten(-1, (2, -1))[..., 1, :]),
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


@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_glu_by_its_own_name(rest):
    """torch.nn.GLU, which no table of PyTorch's writes out for Inductor."""
    report = run(nn.Sequential(nn.Linear(24, 32), nn.GLU()), torch.randn(2, 7, 24), regions=1, rest=rest)
    assert "acc1" in report.rows[0]["epilogue"], str(report)


@pytest.mark.parametrize("dtype", KINDS)
def test_dtypes_of_pairs(dtype):
    run(Two(GATES["SwiGLU"], True), torch.randn(333, 24), regions=1, dtype=dtype)
    run(Cut(CUTS["every second"], GATES["GEGLU"]), torch.randn(333, 24), regions=1, dtype=dtype)


def test_a_bias_behind_the_product():
    run(
        lambda x, w, b: (lambda h: F.silu(h[:, ::2]) * h[:, 1::2])(x @ w + b),
        torch.randn(9, 24),
        torch.randn(24, 32),
        torch.randn(32),
        regions=1,
    )


def test_sums_over_rows_of_a_pair():
    report = run(
        lambda x, v, w: (lambda h: (h, h.square().mean(1), h.sum(0)))(F.silu(x @ v) * (x @ w)),
        torch.randn(9, 24),
        torch.randn(24, 16),
        torch.randn(24, 16),
        regions=1,
    )
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


DEPENDENT = {
    "the second matrix": lambda x, v, w: (lambda h: (x @ F.relu(h)) * h)(x @ v),
    "the second bias": lambda x, v, w: (lambda h: torch.addmm(h.sum(0), x, w) * h)(x @ v),
    "the second matrix, by steps that are no epilogue": lambda x, v, w: (lambda h: (x @ h.cumsum(0)) * h)(x @ v),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_no_pair_of_products_of_which_one_needs_the_other(name):
    run(DEPENDENT[name], torch.randn(16, 16), torch.randn(16, 16), torch.randn(16, 16), regions=2)


def test_pairs_are_switched_off():
    report = run(Two(GATES["SwiGLU"]), torch.randn(9, 24), regions=2, without=("pairs",))
    assert not any("acc1" in row["epilogue"] for row in report.rows)


def test_errors_of_the_dual_operator():
    a, b = torch.randn(5, 8), torch.randn(8, 6)
    call = torch.ops.unisono.fused_dual_gemm
    for second, text in ((b[:, :3], "expected"), (b.T.contiguous().T, "strides"), (b.half(), "f16")):
        with pytest.raises((UserError, RuntimeError), match=text):  # RuntimeError from C++, with the name of the class
            call(a, b, second, [], [], "store acc0 * acc1 as y : f32", "", None)


def test_the_dual_operator_of_changing_shapes():
    """Prepared once for each form of its arguments, by kernels in C++ or in Python."""
    for rows, turned in ((5, False), (9, True), (5, False)):
        a, b, c = torch.randn(rows, 8), *(torch.randn(6, 8).T if turned else torch.randn(8, 6) for _ in range(2))
        bias = torch.randn(6)
        (found,) = torch.ops.unisono.fused_dual_gemm(
            a, b, c, [bias], [0.5], "store silu(acc0 + o[n]) * acc1 * s[] as y : f32", "o,s=", None
        )
        torch.testing.assert_close(found, F.silu(a @ b + bias) * (a @ c) * 0.5, rtol=1e-4, atol=1e-4)


# A batch of products that share a matrix

def shared(x, w):
    return torch.bmm(x, w.expand(x.shape[0], -1, -1))


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_shared_matrix_is_one_product_of_all_rows(rest):
    report = run(
        lambda x, w, b: F.silu(shared(x, w) + b),
        torch.randn(3, 5, 24),
        torch.randn(24, 16),
        torch.randn(16),
        regions=1,
        rest=rest,
    )
    assert report.rows[0]["operator"] == "aten.mm.default" and report.rows[0]["shape"] == [15, 16], str(report)


FOLDED = {  # of x (3, 5, 24)
    "rows that lie apart": (lambda x, w: shared(x.repeat(1, 1, 2)[..., :24], w), "mm"),
    "every second row": (lambda x, w: shared(x.repeat_interleave(2, 1)[:, ::2], w), "mm"),
    "one row each": (lambda x, w: shared(x[:, 2:3], w), None),  # written out, or folded
    "a transpose": (lambda x, w: shared(x, w.T.contiguous().T), "mm"),
    "columns of each matrix": (lambda x, w: shared(x.transpose(1, 2).contiguous().transpose(1, 2), w), "bmm"),
    "batch and rows exchanged": (lambda x, w: shared(x.transpose(0, 1), w), "bmm"),
    "matrices of their own": (lambda x, w: torch.bmm(x, w.repeat(x.shape[0], 1, 1)), "bmm"),
    "a shared left matrix": (lambda x, w: torch.bmm(w.T.expand(3, -1, -1), x.transpose(1, 2)), "bmm"),
}


@pytest.mark.parametrize("name", FOLDED)
def test_which_batches_are_folded(name):
    function, operator = FOLDED[name]
    with torch.no_grad():
        x, w = torch.randn(3, 5, 24), torch.randn(24, 16)
        call = torch.compile(
            lambda x, w: F.relu(function(x, w)),
            backend=backend.unisono,
            options={"rest": "eager", "minimum_operators": 0},
        )
        torch.testing.assert_close(call(x, w), F.relu(function(x, w)), rtol=1e-4, atol=1e-4)
    report = backend.reports()[-1]
    assert operator is None or [row["operator"] for row in report.rows] == [f"aten.{operator}.default"], str(report)


def test_a_shared_matrix_and_batches_of_dynamic_size():
    with torch.no_grad():
        compiled = torch.compile(
            lambda x, w: F.relu(shared(x, w)),
            backend=backend.unisono,
            options={"rest": "eager"},
            dynamic=True,
            fullgraph=True,
        )
        for batch, rows in ((3, 5), (4, 7), (2, 5)):
            x, w = torch.randn(batch, rows, 24), torch.randn(24, 16)
            torch.testing.assert_close(compiled(x, w), F.relu(x @ w), rtol=1e-4, atol=1e-4)
    assert backend.reports()[-1].rows[0]["operator"] == "aten.mm.default", str(backend.reports()[-1])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("heads", [(0,), (1,), (0, 1)])
def test_statistics_of_the_products_of_a_pair(bias, heads):
    """A product that is stored rounded has its mean and variance taken of just what is stored."""

    def function(x, v, w, b, c):
        both = (torch.addmm(b, x, v), torch.addmm(c, x, w)) if bias else (x @ v, x @ w)
        results = [F.silu(both[0].float()) * both[1].float()]
        for i in heads:
            results += [both[i], *torch.var_mean(both[i].float(), 1, correction=0)]
        return tuple(results)

    x, v, w, b, c = (t.bfloat16() for t in (torch.randn(33, 24), torch.randn(24, 16), torch.randn(24, 16),
                                            torch.randn(16) + 4, torch.randn(16) + 4))
    with torch.no_grad():
        results = torch.compile(function, backend=backend.unisono, options={"rest": "eager"})(x, v, w, b, c)
    report = backend.reports()[-1]
    assert report.regions == 1 and "acc1" in report.rows[0]["epilogue"], str(report)
    for stored, variance, mean in zip(results[1::3], results[2::3], results[3::3]):
        right = torch.var_mean(stored.double(), 1, correction=0)
        torch.testing.assert_close((variance.double(), mean.double()), right, rtol=1e-5, atol=1e-5)
