"""conv2d and gemm on NumPy arrays and PyTorch tensors, compared with PyTorch in float64."""

import functools
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from bounds import check, sum_error  # noqa: E402

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NORM = "silu(group_norm(acc + bias[n], groups=4, scale=g[n], shift=b[n]))"


def draw(*shape, dtype=torch.float32, seed=0, scale=1.0):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed + len(shape)), dtype=torch.float64)).to(dtype)


def conv64(x, w, bias=None, **how):
    return F.conv2d(x.double(), w.double(), None if bias is None else bias.double(), **how)


def error_of(x, w, **how):
    return sum_error(F.conv2d(x.double().abs(), w.double().abs(), **how).numpy(), w[0].numel())


def f64(x):
    return x.double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape, how", [
    ((2, 8, 9, 7, 16, 3, 3), dict(padding=1)),
    ((1, 3, 17, 13, 5, 5, 3), dict(stride=(2, 1), padding=(2, 0))),
    ((3, 6, 8, 8, 9, 1, 1), dict()),
    ((2, 8, 11, 5, 8, 3, 3), dict(padding=2, dilation=2, groups=4)),
    ((1, 4, 1, 6, 7, 1, 3), dict(padding=(0, 1))),
])
def test_conv2d_with_bias_and_silu(dtype, last, shape, how):
    n, c, h, wide, k, r, s = shape
    x = draw(n, c, h, wide, dtype=DTYPES[dtype])
    w = draw(k, c // how.get("groups", 1), r, s, dtype=DTYPES[dtype], seed=1, scale=0.3)
    bias = draw(k, dtype=DTYPES[dtype], seed=2)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    y = u.conv2d(x, w, "silu(acc + bias[n])", bias=bias, **how)
    expected = F.silu(conv64(x, w, bias, **how))
    assert y.dtype == x.dtype and y.shape == expected.shape
    assert y.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    check(f64(y), f64(expected), error_of(x, w, **how), dtype, growth=1.1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape, how", [
    ((2, 8, 9, 7, 16, 3, 3), dict(padding=1)),
    ((1, 3, 17, 13, 5, 5, 3), dict(stride=(2, 3), padding=(2, 0))),
    ((3, 6, 8, 8, 9, 1, 1), dict()),
    ((2, 8, 11, 5, 8, 3, 3), dict(padding=2, dilation=2, groups=4)),
])
def test_conv2d_dgrad_is_the_gradient_of_the_image(dtype, last, shape, how):
    n, c, h, wide, k, r, s = shape
    w = draw(k, c // how.get("groups", 1), r, s, dtype=DTYPES[dtype], seed=1, scale=0.3)
    image = draw(n, c, h, wide).double().requires_grad_()
    out = conv64(image, w, **how)
    dy, residual = draw(*out.shape, dtype=DTYPES[dtype], seed=2), draw(n, c, h, wide, dtype=DTYPES[dtype], seed=3)
    (expected,) = torch.autograd.grad(out, image, dy.double(), retain_graph=True)
    (terms,) = torch.autograd.grad(conv64(image, w.abs(), **how), image, dy.double().abs())
    if last:
        dy, residual = (t.contiguous(memory_format=torch.channels_last) for t in (dy, residual))
    y = u.conv2d_dgrad(dy, w, (h, wide), "acc + r[m,n]", r=residual, **how)
    assert y.dtype == dy.dtype and y.shape == expected.shape
    assert y.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
    check(f64(y), f64(expected + residual.double()), sum_error(terms.numpy(), w.numel() // w.shape[1]), dtype)
    conv = u.Conv2d(n=n, h=h, w=wide, c=c, k=k, r=r, s=s, stride=how.get("stride", 1), pad=how.get("padding", 0),
                    dilation=how.get("dilation", 1), groups=how.get("groups", 1))
    assert u.input_gradient(conv).shape_mn == [n, h, wide, c]


@pytest.mark.parametrize("call, message", [
    (lambda dy, w: u.conv2d_dgrad(dy, w, (9, 8)), r"size=\(9, 8\) and dy of shape \(1, 8, 5, 5\)"),
    (lambda dy, w: u.conv2d_dgrad(dy, w, (10, 9), stride=2), "has another output"),
    (lambda dy, w: u.conv2d_dgrad(dy[:, :4], w, 7), r"dy has shape \(1, 4, 5, 5\), w \(8, 4, 3, 3\)"),
    (lambda dy, w: u.conv2d_dgrad(dy, w, "same"), "size='same': expected an int, or two"),
    (lambda dy, w: u.conv2d_dgrad(dy.requires_grad_(), w, 7), "requires a gradient"),
])
def test_errors_of_conv2d_dgrad(call, message):
    with pytest.raises(u.UserError, match=message):
        call(torch.zeros(1, 8, 5, 5), torch.zeros(8, 4, 3, 3))


@pytest.mark.parametrize("last", [False, True])
def test_group_norm(last):
    x, w, bias, g, b = draw(2, 8, 9, 7), draw(16, 8, 3, 3, seed=1), draw(16, seed=2), draw(16, seed=3), draw(16, seed=4)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    y = u.conv2d(x, w, NORM, bias=bias, g=g, b=b, padding=1)
    h = conv64(x, w, bias, padding=1)
    expected = F.silu(F.group_norm(h, 4, g.double(), b.double()))
    # the normalisation divides by the deviation; mean and deviation move by no more than the sums do
    growth = 1.1 * 3 * float(g.abs().max()) / float(h.reshape(2, 4, -1).std(-1).min())
    check(f64(y), f64(expected), error_of(x, w, padding=1), "float32", growth)


BACKWARD = """h = (saved[m,n] - mu[b,g4]) * rstd[b,g4]
z = h * gamma[n] + beta[n]
s = sigmoid(z)
dz = acc * (s * (1 + z * (1 - s)))
dh = dz * gamma
dx = rstd * (dh - mean(dh, over=(m,n), per=b, groups=4) - h * mean(dh * h, over=(m,n), per=b, groups=4))
store dx as dx
store sum(dz * h, over=m) as dgamma
store sum(dz, over=m) as dbeta
store sum(dx, over=m) as dbias"""


def test_backward_of_group_norm():
    """One launch behind the next layer's data gradient, from the statistics that the forward pass has stored."""
    image, w, bias, gamma, beta = draw(2, 8, 9, 7), draw(16, 8, 3, 3, seed=1), draw(16, seed=2), draw(16, seed=3), draw(16, seed=4)
    dy, w2 = draw(2, 8, 9, 7, seed=5), draw(16, 8, 3, 3, seed=6)
    ahead = u.conv2d(image, w, "h = acc + bias[n]\nstore h as x\nstore mean(h, over=(m,n), per=b, groups=4) as mu\n"
                     "store rsqrt(variance(h, over=(m,n), per=b, groups=4) + 1e-5) as rstd", bias=bias, padding=1)
    assert ahead["mu"].shape == ahead["rstd"].shape == (2, 4)
    found = u.conv2d(dy, w2, BACKWARD, saved=ahead["x"], mu=ahead["mu"], rstd=ahead["rstd"], gamma=gamma, beta=beta, padding=1)
    leaves = [t.double().requires_grad_() for t in (bias, gamma, beta)]
    h = F.conv2d(image.double(), w.double(), leaves[0], padding=1)
    h.retain_grad()
    F.silu(F.group_norm(h, 4, *leaves[1:])).backward(conv64(dy, w2, padding=1))
    for name, expected in zip(("dx", "dgamma", "dbeta"), (h.grad, leaves[1].grad, leaves[2].grad)):
        assert f64(found[name]) == pytest.approx(f64(expected), rel=1e-4, abs=1e-4 * float(expected.abs().max())), name
    # what a bias ahead of a normalisation over whole groups adds is taken out of each group: its gradients sum to 0 there
    assert f64(found["dbias"]) == pytest.approx(f64(leaves[0].grad), abs=1e-4 * float(h.grad.abs().sum()))
    with pytest.raises(u.UserError, match=r"operand mu\[b,g4\] has shape \(2, 8\); expected \(2, 4\)"):
        u.conv2d(dy, w2, BACKWARD, saved=ahead["x"], mu=draw(2, 8), rstd=ahead["rstd"], gamma=gamma, beta=beta, padding=1)


def test_text_function_and_builder_give_the_same_bits():
    x, w, bias, g, b = draw(2, 8, 9, 7), draw(16, 8, 3, 3, seed=1), draw(16, seed=2), draw(16, seed=3), draw(16, seed=4)

    @u.epilogue
    def norm(acc, bias, g: "n", b):
        return u.silu(u.group_norm(acc + bias, groups=4, scale=g, shift=b))

    builder = u.GraphBuilder()
    h = u.group_norm(builder.acc() + builder.operand("bias", "n"), 4, scale=builder.operand("g", "n"), shift=builder.operand("b", "n"))
    builder.store(u.silu(h), name="y")
    results = [u.conv2d(x, w, how, bias=bias, g=g, b=b, padding=1) for how in (NORM, norm, norm.function, builder.build())]
    assert all(torch.equal(results[0], r) for r in results[1:])


def test_numpy_and_torch_give_the_same_bits():
    x, w, bias = draw(2, 8, 9, 7), draw(16, 8, 3, 3, seed=1), draw(16, seed=2)
    ours = u.conv2d(x.numpy(), w.numpy(), "relu(acc + bias[n])", bias=bias.numpy())
    assert isinstance(ours, np.ndarray) and (ours == u.conv2d(x, w, "relu(acc + bias[n])", bias=bias).numpy()).all()
    nhwc = u.conv2d(x.numpy().transpose(0, 2, 3, 1).copy(), w.numpy().transpose(0, 2, 3, 1).copy(), "relu(acc + bias[n])",
                    bias=bias.numpy(), layout="nhwc")
    assert nhwc.shape == (2, 7, 5, 16)
    np.testing.assert_allclose(nhwc.transpose(0, 3, 1, 2), ours, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 12, 20), (1, 7, 3), (33, 65, 17), (64, 64, 64)])
@pytest.mark.parametrize("turned", [False, True])
def test_gemm(dtype, shape, turned):
    m, k, n = shape
    a = draw(m, k, dtype=DTYPES[dtype])
    b = draw(n, k, dtype=DTYPES[dtype], seed=1).T if turned else draw(k, n, dtype=DTYPES[dtype], seed=1)
    c = draw(m, n, dtype=DTYPES[dtype], seed=2)
    y = u.gemm(a, b, "alpha[] * acc + c[m,n]", alpha=0.5, c=c)
    error = sum_error((a.double().abs() @ b.double().abs()).numpy(), k)
    check(f64(y), f64(0.5 * (a.double() @ b.double()) + c.double()), error, dtype)


def test_gemm_of_a_batch():
    a, b, row, image = draw(3, 5, 8), draw(3, 8, 6, seed=1), draw(3, 5, 1, seed=2), draw(3, 1, 6, seed=3)

    @u.epilogue
    def add(acc, row, image):
        return acc + row + image

    y = u.gemm(a, b, add, row=row, image=image)
    expected = a.double() @ b.double() + row.double() + image.double()
    check(f64(y), f64(expected), sum_error((a.abs().double() @ b.abs().double()).numpy(), 8), "float32")


def test_layer_norm_over_columns():
    a, b, g = draw(6, 32), draw(32, 24, seed=1), draw(24, seed=2)
    y = u.gemm(a, b, "layer_norm(acc, scale=g[n], eps=1e-6)", g=g)
    h = a.double() @ b.double()
    growth = 3 * float(g.abs().max()) / float(h.std(-1).min())
    check(f64(y), f64(F.layer_norm(h, (24,), g.double(), eps=1e-6)), sum_error((a.abs().double() @ b.abs().double()).numpy(), 32),
          "float32", growth)


def test_several_stores():
    x, w = draw(2, 4, 6, 6), draw(8, 4, 1, 1, seed=1)
    text = """y = relu(acc)
    store y : f16
    store max_pool_2x2(y) as half : f16
    store sum(acc, over=m, per=b) as sums
    store mean(acc, over=(m,n), per=b, groups=2) as means
    store max(acc, over=n) as best"""
    out = u.conv2d(x, w, text)
    h = conv64(x, w)
    assert list(out) == ["y", "half", "sums", "means", "best"]
    assert out["y"].dtype == torch.float16 and torch.equal(out["half"], F.max_pool2d(out["y"].float(), 2).half())
    np.testing.assert_allclose(out["sums"], h.sum((2, 3)), atol=1e-4)
    np.testing.assert_allclose(out["means"], h.reshape(2, 2, -1).mean(-1), atol=1e-5)
    np.testing.assert_allclose(out["best"], h.amax(1).flatten(), atol=1e-5)


def test_residuals_in_either_layout():
    x, w, r = draw(2, 8, 5, 7), draw(8, 8, 3, 3, seed=1), draw(2, 8, 5, 7, seed=2)
    expected = f64(F.relu(conv64(x, w, padding=1) + r.double()))
    for first in (torch.contiguous_format, torch.channels_last):
        for second in (torch.contiguous_format, torch.channels_last):
            y = u.conv2d(x.contiguous(memory_format=first), w, "relu(acc + r[m,n])", r=r.contiguous(memory_format=second), padding=1)
            check(f64(y), expected, error_of(x, w, padding=1), "float32")


def test_scalars_by_number_and_default():
    a, b = draw(4, 8), draw(8, 4, seed=1)

    @u.epilogue
    def leaky(acc, slope=0.25):
        return u.select(acc > 0, acc, acc * slope)

    h = a.double() @ b.double()
    error = sum_error((a.abs().double() @ b.abs().double()).numpy(), 8)
    check(f64(u.gemm(a, b, leaky)), f64(F.leaky_relu(h, 0.25)), error, "float32")
    before = u.cache_info()["misses"]
    for slope in (0.5, 0.125):
        check(f64(u.gemm(a, b, leaky, slope=slope)), f64(F.leaky_relu(h, slope)), error, "float32")
    assert u.cache_info()["misses"] == before + 1  # a number is no part of the kernel


def test_compiled_once_for_a_shape():
    u.cache_clear()
    a, b = draw(4, 8), draw(8, 4, seed=1)
    for _ in range(3):
        u.gemm(a, b, "relu(acc)")
    assert u.cache_info() == {"plans": 1, "hits": 2, "misses": 1, "copies": 0}
    u.gemm(a.bfloat16(), b.bfloat16(), "relu(acc)")
    u.gemm(a, b.T.contiguous().T, "relu(acc)")
    u.gemm(a, b, "relu(acc)", out_dtype=u.DType.f16)
    assert u.cache_info() == {"plans": 4, "hits": 2, "misses": 4, "copies": 0}


def test_results_can_be_given():
    a, b, out = draw(4, 8), draw(8, 6, seed=1), torch.full((4, 6), float("nan"))
    assert u.gemm(a, b, "relu(acc)", out=out) is out and torch.isfinite(out).all()
    with pytest.raises(u.UserError, match=r"out 'y' has shape \(4, 5\).*expected \(4, 6\)"):
        u.gemm(a, b, "relu(acc)", out=torch.zeros(4, 5))


def test_autograd_knows_of_results_that_were_written():
    a, b, out = draw(4, 8), draw(8, 6, seed=1), torch.zeros(4, 6)
    leaf = torch.ones(4, 6, requires_grad=True)
    saved = (leaf * out).sum()
    with torch.no_grad():
        u.gemm(a, b, "relu(acc)", out=out)
    assert out._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


@pytest.mark.parametrize("kind", [torch.float16, u.DType.f16])
def test_dtypes_of_either_library(kind):
    a, b = draw(4, 8), draw(8, 6, seed=1)
    plain = u.gemm(a, b, out_dtype=kind)
    assert plain.dtype == torch.float16 and u.gemm(a.requires_grad_(), b, out_dtype=kind).dtype == torch.float16
    assert torch.equal(plain, u.gemm(a.detach(), b).half())


def test_parameters_by_keyword_and_functions_with_bound_ones():
    a, b, bias = draw(4, 8), draw(8, 6, seed=1), draw(6, seed=2)

    def scaled(acc, *, bias, slope: float = 0.5, way="relu"):
        return getattr(u, way)(acc + bias) * slope

    expected = u.gemm(a, b, "sigmoid(acc + bias[n]) * 0.5", bias=bias)
    assert torch.equal(u.gemm(a, b, functools.partial(scaled, way="sigmoid"), bias=bias), expected)
    assert torch.equal(u.gemm(a, b, u.epilogue(functools.partial(scaled, way="sigmoid", slope=1.0)), bias=bias, slope=0.5), expected)
    scope = {}
    exec("from __future__ import annotations\ndef later(acc, bias: 'n', slope: float = 0.5):\n    return (acc + bias) * slope", scope)
    assert torch.equal(u.gemm(a, b, scope["later"], bias=bias), u.gemm(a, b, "(acc + bias[n]) * 0.5", bias=bias))


def test_numbers_of_numpy():
    x, w = draw(1, 4, 5, 5).numpy(), draw(8, 2, 3, 3, seed=1).numpy()
    ours = u.conv2d(x, w, "acc * s[]", s=np.float32(2), padding=np.int64(1), stride=(np.int32(2), 1), groups=np.int64(2))
    assert (ours == u.conv2d(x, w, "acc * s[]", s=2.0, padding=1, stride=(2, 1), groups=2)).all()


def read_only(x):
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("call, message", [
    (lambda x, w: u.conv2d(x, w, options={"constant_filter": w}), "unknown option 'constant_filter'; a call takes threads"),
    (lambda x, w: u.conv2d(x, w, options={"threads": [1]}), "option 'threads' is a list"),
    (lambda x, w: u.conv2d(x.numpy(), w.numpy(), out=read_only(np.zeros((1, 8, 3, 3), np.float32))), "out 'y' is a read-only array"),
    (lambda x, w: u.conv2d(x, w, out_dtype="float16"), "out_dtype='float16'; expected a unisono.DType or a dtype of PyTorch"),
    (lambda x, w: u.conv2d(x, w.requires_grad_(), out_dtype=u.DType.tf32), "a unisono.DType that PyTorch has"),
    (lambda x, w: u.conv2d(x, w, out={"y": x, "z": x}), "out= has a tensor 'z', .*; expected y"),
    (lambda x, w: u.conv2d(x, w, lambda acc, c=None: acc), "has the default None for 'c'; expected a number"),
    (lambda x, w: u.conv2d(x.requires_grad_(), w.numpy()), "argument 'w' is a ndarray, .* PyTorch tensors"),
    (lambda x, w: u.conv2d(x.requires_grad_(), w, "acc + c[n]", c=np.ones(8)), "argument 'c' is a ndarray, .* PyTorch tensors"),
    (lambda x, w: u.conv2d(x.numpy(), w.requires_grad_()), "requires a gradient, .* ndarray"),
    (lambda x, w: u.conv2d(x, w, groups=1.5), "groups=1.5; expected an int"),
    (lambda x, w: u.conv2d(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), w), "tensors of torch.qint8 are not supported"),
    (lambda x, w: u.conv2d(x, w, "acc*s[]", s=10**400), "scalar 's' is too large"),
])
def test_errors_of_arguments(call, message):
    with pytest.raises(u.UserError, match=message):
        call(torch.zeros(1, 4, 5, 5), torch.zeros(8, 4, 3, 3))


@pytest.mark.parametrize("call, message", [
    (lambda x, w: u.conv2d(x, w, "slu(acc)"), r"line 1, column 1: there is no operation 'slu'[\s\S]*\^\^\^"),
    (lambda x, w: u.conv2d(x, w, "acc + bias[n]"), r"reads operand bias\[n\], which was not given; pass bias=…"),
    (lambda x, w: u.conv2d(x, w, "acc", bias=w), "no operand 'bias'; it reads none"),
    (lambda x, w: u.conv2d(x, w, "acc + c[m,n]", c=x), r"operand c\[m,n\] has shape \(1, 4, 5, 5\); expected \(1, 8, 3, 3\)"),
    (lambda x, w: u.conv2d(x, w, "acc + c[n]", c=x), r"operand c\[n\] has shape"),
    (lambda x, w: u.conv2d(x, w, lambda acc, c: acc + c, c=x), "does not broadcast"),
    (lambda x, w: u.conv2d(x, w, lambda acc, c: acc + c), "a parameter 'c', which was not given"),
    (lambda x, w: u.conv2d(x, w, lambda acc: 3), "returned a int as 'y'"),
    (lambda x, w: u.conv2d(x, w, lambda acc: acc if acc > 0 else acc), "no truth value"),
    (lambda x, w: u.conv2d(x, w, ""), "empty text"),
    (lambda x, w: u.conv2d(x, w, 3), "epilogue is a int"),
    (lambda x, w: u.conv2d(x[0], w), r"x has shape \(4, 5, 5\); expected 4 extents"),
    (lambda x, w: u.conv2d(x, w, groups=2), "x has 4 channels, w 4 input channels, and groups=2; expected .*, 8"),
    (lambda x, w: u.conv2d(x, w, padding=(1, 2, 3)), "padding="),
    (lambda x, w: u.conv2d(x, w, layout="hwcn"), "layout='hwcn'"),
    (lambda x, w: u.conv2d(x.to(torch.complex64), w), "argument 'x' is a torch.strided tensor of torch.complex64"),
    (lambda x, w: u.conv2d([1], w), "argument 'x' is a list"),
    (lambda x, w: u.conv2d(x, w, options={"fast": 1}), "unknown option 'fast'"),
    (lambda x, w: u.gemm(x[0, 0], w[0, 0]), "expected .m,k. and .k,n. with the same k"),
    (lambda x, w: u.gemm(x, w), "expected a matrix, or"),
    (lambda x, w: u.conv2d(x.numpy(), w.numpy(), "acc", out_dtype=u.DType.tf32), "NumPy has no tf32"),
])
def test_errors(call, message):
    with pytest.raises(u.UserError, match=message):
        call(torch.zeros(1, 4, 5, 5), torch.zeros(8, 4, 3, 3))


@pytest.mark.parametrize("size", [(3, 3), (2, 3), (4, 5)])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_padding_in_words(size, dilation):
    x, w = torch.randn(2, 8, 14, 13), torch.randn(4, 8, *size)
    for word in ("same", "valid"):
        want = F.conv2d(x, w, padding=word, dilation=dilation)
        torch.testing.assert_close(u.conv2d(x, w, padding=word, dilation=dilation), want, atol=1e-4, rtol=1e-4)
        last = u.conv2d(x.permute(0, 2, 3, 1).contiguous().numpy(), w.permute(0, 2, 3, 1).contiguous().numpy(), "acc",
                        padding=word, dilation=dilation, layout="nhwc")
        np.testing.assert_allclose(last.transpose(0, 3, 1, 2), want.numpy(), atol=1e-4, rtol=1e-4)
    for bad, text in (({"padding": "sane"}, "'same' or 'valid'"), ({"padding": "same", "stride": 2}, "a stride of 1")):
        with pytest.raises(u.UserError, match=text):
            u.conv2d(x, w, **bad)


def test_functions_of_pytorch_in_an_epilogue():
    @u.epilogue
    def mixed(acc, bias):
        return F.silu(acc + bias) * torch.tanh(acc) + F.gelu(acc, approximate="tanh") + F.relu(acc)

    x, w, bias = torch.randn(4, 8), torch.randn(8, 6), torch.randn(6)
    a = x @ w
    want = F.silu(a + bias) * torch.tanh(a) + F.gelu(a, approximate="tanh") + F.relu(a)
    torch.testing.assert_close(u.gemm(x, w, mixed, bias=bias), want, atol=1e-5, rtol=1e-5)
    for other, text in ((lambda acc: F.softmax(acc, -1), "softmax.Value"), (lambda acc: F.leaky_relu(acc, 0.2), "negative_slope=0.2")):
        with pytest.raises(u.UserError, match=text):
            u.gemm(x, w, other)


@pytest.mark.parametrize("text, message", [
    ("silu(acc + bias[n", "line 1, column 18: expected ']' to close the '[' of line 1, column 16; .*\n"
                          "  1 | silu(acc + bias[n\n    |                  ^"),
    ("h = acc\n  silou(h)", "line 2, column 3: there is no operation 'silou'; did you mean 'silu'?\n  2 |   silou(h)\n    |   ^^^^^"),
    ("h = acc; h +", "line 1, column 13: expected a value, .*\n  1 | h = acc; h +\n    |             ^"),
    ("h = ack; h", "line 1, column 5:"),
])  # yapf: disable
def test_errors_show_what_was_written(text, message):
    with pytest.raises(u.UserError) as caught:
        u.gemm(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), text)
    assert re.match(re.escape(message).replace(r"\.\*", ".*"), str(caught.value)) and "store" not in str(caught.value)


@pytest.mark.parametrize("channels", (40, 48, 64, 80, 96))
def test_bf16_windows_of_any_number_of_channels_on_a_cpu(channels):
    """oneDNN's kernels for AMX are wrong for some that fill no 32."""
    x, w = torch.randn(2, channels, 16, 16).bfloat16(), torch.randn(96, channels, 2, 2).bfloat16()
    x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    right = torch.nn.functional.conv2d(x.double(), w.double(), stride=2)
    assert (u.conv2d(x, w, "acc", stride=2).double() - right).norm() <= 2.0**-8 * right.norm()
