"""unisono.swiglu: two products of one matrix and what joins them, on arrays and tensors, with gradients and compiled."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from unisono.pytorch import gated  # noqa: E402


def draw(dtype=torch.float32, gradients=False):
    torch.manual_seed(0)
    made = [torch.randn(s, dtype=dtype) / 4 for s in ((24, 32), (48, 32), (48, 32), (48,), (24, 48))]
    return [t.requires_grad_(gradients) for t in made]


def right(x, gate, up, b, r):
    return F.silu(x @ gate.T) * (x @ up.T + b) + r


TEXT = "silu(acc0) * (acc1 + b[n]) + r[m,n]"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_results(dtype):
    x, gate, up, b, r = draw(dtype)
    best = right(*(t.double() for t in (x, gate, up, b, r)))
    one = u.swiglu(x, gate.T, up.T, TEXT, b=b, r=r)
    assert one.dtype == dtype and one.shape == (24, 48)
    torch.testing.assert_close(one.double(), best, rtol=0.0, atol={torch.float32: 1e-5}.get(dtype, 4e-2))
    plain = u.swiglu(x, gate.T, up.T, out_dtype=torch.float32)
    torch.testing.assert_close(plain, (F.silu(x.double() @ gate.T.double()) * (x.double() @ up.T.double())).float(), rtol=1e-4, atol=1e-5)


def test_arrays_rows_that_alternate_and_functions():
    x, gate, up, b, r = draw()
    both = torch.stack([gate, up], 1).reshape(96, 32)
    one = u.swiglu(x, both[::2].T, both[1::2].T)
    torch.testing.assert_close(one, F.silu(x @ gate.T) * (x @ up.T), rtol=1e-4, atol=1e-5)
    array = u.swiglu(x.numpy(), np.ascontiguousarray(gate.numpy().T), np.ascontiguousarray(up.numpy().T))
    np.testing.assert_allclose(array, one.numpy(), rtol=1e-4, atol=1e-5)
    two = u.swiglu(x, gate.T, up.T, "store acc0 as g; store gelu(acc0) * acc1 * s[] as y", s=2.0)
    torch.testing.assert_close(two["y"], F.gelu(x @ gate.T) * (x @ up.T) * 2, rtol=1e-4, atol=1e-5)
    assert set(two) == {"g", "y"}


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled):
    tensors, others = draw(gradients=True), draw(gradients=True)
    call = (lambda x, gate, up, b, r: u.swiglu(x, gate.T, up.T, TEXT, b=b, r=r))  # noqa: E731
    torch._dynamo.reset()
    call = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
    weight = torch.randn(24, 48)
    (call(*tensors) * weight).sum().backward()
    (right(*others) * weight).sum().backward()
    for one, other in zip(tensors, others):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)


def test_gradients_of_some_and_products_that_are_computed_again(monkeypatch):
    """Where no kernel stores both accumulators, the backward pass multiplies once more."""
    for keeps in (True, False):
        monkeypatch.setattr(gated, "_keeps", lambda *_, keeps=keeps: keeps)
        x, gate, up, b, r = draw()
        for wanted in (x, up, b):
            wanted.requires_grad_(True)
            u.swiglu(x, gate.T, up.T, TEXT, b=b, r=r).square().sum().backward()
            mine, wanted.grad = wanted.grad, None
            right(x, gate, up, b, r).square().sum().backward()
            torch.testing.assert_close(mine, wanted.grad, rtol=1e-4, atol=1e-4)
            wanted.requires_grad_(False)


def test_autocast():
    x, gate, up, *_ = draw()
    with torch.autocast("cpu", torch.bfloat16):
        assert u.swiglu(x, gate.T, up.T).dtype == torch.bfloat16


@pytest.mark.parametrize("name, call, text", [
    ("shapes", lambda x, g, p: u.swiglu(x, g.T, p[:40].T), "expected (m,k) and twice (k,n)"),
    ("strides", lambda x, g, p: u.swiglu(x, g.T, p.T.contiguous()), "strides of b0 and b1"),
    ("dtypes", lambda x, g, p: u.swiglu(x, g.T, p.T.double()), "float64|f64|one dtype"),
    ("a caret", lambda x, g, p: u.swiglu(x, g.T, p.T, "slu(acc0) * acc1"), r"\^"),
    ("no operand b", lambda x, g, p: u.swiglu(x, g.T, p.T, "silu(acc0) * acc1 + b[n]"), "which was not given"),
    ("no tensor", lambda x, g, p: u.swiglu(x, None, p.T), "NoneType"),
    ("an option", lambda x, g, p: u.swiglu(x, g.T, p.T, options={"fast": 1}), "unknown option 'fast'"),
])
def test_errors(name, call, text):
    x, gate, up, *_ = draw()
    with pytest.raises(u.UserError) as error:
        call(x, gate, up)
    import re
    assert re.search(text.replace("(", r"\(").replace(")", r"\)") if "expected" in text else text, str(error.value)), error.value
