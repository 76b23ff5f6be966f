"""conv3d on NumPy arrays and PyTorch tensors, compared with torch.nn.functional.conv3d in float64."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from bounds import check, sum_error  # noqa: E402

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
EXTENTS = [1, 1, 2, 3, 5, 6, 9]


def draw(seed):
    """Shapes, moves and how tensors lie: extents of 1, causal and other margins, strides, dilations, groups."""
    r = random.Random(seed)
    while True:
        groups = r.choice([1, 1, 1, 2, 3])
        c, k = groups * r.choice([1, 2, 5]), groups * r.choice([1, 3, 4])
        size, taps = [r.choice(EXTENTS) for _ in range(3)], [r.choice([1, 2, 3]) for _ in range(3)]
        how = {"stride": tuple(r.choice([1, 1, 2, 3]) for _ in range(3)), "dilation": tuple(r.choice([1, 1, 2]) for _ in range(3)), "groups": groups}
        padding = tuple((r.choice([0, 1, 2]), r.choice([0, 0, 1])) for _ in range(3))
        reach = [d * (t - 1) + 1 for d, t in zip(how["dilation"], taps)]
        if all(s + sum(p) >= x for s, p, x in zip(size, padding, reach)):
            return r, (r.choice([1, 2, 3]), c, *size), (k, c // groups, *taps), how, padding


def conv64(x, w, padding, **how):
    return F.conv3d(F.pad(x.double(), [p for pair in reversed(padding) for p in pair]), w.double(), **how)


EPILOGUES = {
    "acc": lambda acc, b, r: acc,
    "silu(acc + b[n]) + r[m,n]": lambda acc, b, r: F.silu(acc + b[:, None, None, None]) + r,
    "relu(group_norm(acc + b[n], groups=1))": lambda acc, b, r: F.relu(F.group_norm(acc + b[:, None, None, None], 1)),
    "instance_norm(acc + r[m,n])": lambda acc, b, r: (acc + r - (acc + r).mean((2, 3, 4), keepdim=True)) / ((acc + r).var((2, 3, 4), keepdim=True, unbiased=False) + 1e-5).sqrt(),
    "rms_norm(acc, scale=b[n])": lambda acc, b, r: acc / (acc.square().mean(1, keepdim=True) + 1e-5).sqrt() * b[:, None, None, None],
}


@pytest.mark.parametrize("seed", range(60))
def test_conv3d_beside_pytorch(seed):
    r, image, filters, how, padding = draw(seed)
    dtype = r.choice(list(DTYPES))
    torch.manual_seed(seed)

    def made(*shape):
        tensor = torch.randn(shape, dtype=torch.float64).to(DTYPES[dtype])
        return tensor.contiguous(memory_format=torch.channels_last_3d) if len(shape) == 5 and r.random() < 0.5 else tensor

    x, w, b = made(*image), made(*filters), made(filters[0])
    acc = conv64(x, w, padding, **how)
    residual = made(*acc.shape)
    text = r.choice(list(EPILOGUES))
    given = {name: value for name, value in (("b", b), ("r", residual)) if f"{name}[" in text}
    y = u.conv3d(x, w, text, padding=padding, out_dtype=torch.float32, **how, **given)
    expected = EPILOGUES[text](acc, b.double(), residual.double())
    assert y.dtype == torch.float32 and y.shape == expected.shape
    error = sum_error(conv64(x.abs(), w.abs(), padding, **how).numpy(), w[0].numel())
    steep = 1.0
    if "norm" in text:  # what a normalisation makes of an error: at most as much as its smallest deviation says
        axes = {"group": (1, 2, 3, 4), "instan": (2, 3, 4), "rms_no": 1}[text[5:10] if text.startswith("relu") else text[:6]]
        spread = acc if "b[n]," not in text else acc + b.double()[:, None, None, None]
        spread = spread + residual.double() if "r[m" in text else spread
        about = spread if text.startswith("rms") else spread - spread.mean(axes, keepdim=True)
        steep = float(4 / (about.square().mean(axes, keepdim=True) + 1e-5).sqrt().min()) * max(1.0, b.abs().max().item())
    check(y.double().numpy(), expected.numpy(), error * steep + 1e-6, "float32", growth=2.0)


def test_numpy_and_several_stores():
    x, w = np.random.default_rng(1).standard_normal((2, 3, 4, 5, 6)).astype("f4"), np.random.default_rng(2).standard_normal((7, 3, 2, 3, 3)).astype("f4")
    results = u.conv3d(x, w, "store acc as y : f32\nstore sum(acc, over=m) as s : f32", padding="same")
    expected = F.conv3d(torch.tensor(x).double(), torch.tensor(w).double(), padding="same")
    assert results["y"].shape == expected.shape
    np.testing.assert_allclose(results["y"], expected, atol=1e-5)
    np.testing.assert_allclose(results["s"], expected.sum((0, 2, 3, 4)), atol=1e-4)


def test_results_of_the_caller():
    x, w = torch.randn(1, 4, 3, 5, 5), torch.randn(2, 4, 3, 3, 3)
    whole = torch.zeros(1, 6, 3, 5, 5).contiguous(memory_format=torch.channels_last_3d)
    u.conv3d(x, w, "acc", padding=1, out=whole.narrow(1, 2, 2))
    torch.testing.assert_close(whole[:, 2:4], F.conv3d(x, w, padding=1), atol=1e-5, rtol=1e-5)
    assert whole[:, :2].count_nonzero() == whole[:, 4:].count_nonzero() == 0


@pytest.mark.parametrize("call, message", [
    (lambda x, w: u.conv3d(x[0], w), r"x has shape \(4, 3, 5, 5\); expected 5 extents, \(N,C,D,H,W\)"),
    (lambda x, w: u.conv3d(x, w, groups=2), "x has 4 channels, w 4 input channels, and groups=2"),
    (lambda x, w: u.conv3d(x, w, stride=(1, 2)), r"stride=\(1, 2\): expected an int, or three: planes, rows and columns"),
    (lambda x, w: u.conv3d(x, w, padding="same", stride=2), "padding='same' with stride="),
    (lambda x, w: u.conv3d(x, w, padding="reflect"), "padding='reflect'"),
    (lambda x, w: u.conv3d(x, w, padding=np.ones(3, int)), r"padding=array\(\[1, 1, 1\]\): expected an int, or three"),
    (lambda x, w: u.conv3d(x.requires_grad_(), w), "requires a gradient"),
    (lambda x, w: u.conv3d(x, w, "acc + r[m,n]", r=x), r"operand r\[m,n\] has shape \(1, 4, 3, 5, 5\)"),
    (lambda x, w: u.conv3d(x, w, out=torch.zeros(1, 2, 4, 5, 5)), "has shape .*; expected .1, 2, 1, 3, 3. and f32"),
])
def test_errors(call, message):
    with pytest.raises(u.UserError, match=message):
        call(torch.randn(1, 4, 3, 5, 5), torch.randn(2, 4, 3, 3, 3))


def test_planes_that_leave_gaps():
    x, w = torch.randn(1, 4, 4, 5, 5), torch.randn(2, 4, 1, 1, 1)
    gaps = torch.zeros(1, 2, 8, 5, 5)[:, :, ::2]
    with pytest.raises(u.UserError, match="expected planes .* 25 apart"):
        u.conv3d(x, w, out=gaps)
