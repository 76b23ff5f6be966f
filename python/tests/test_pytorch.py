"""The operators of PyTorch's dispatcher: gradients against eager mode in float64, fake kernels, torch.compile."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from unisono.pytorch import operators  # noqa: E402

NORM = "silu(group_norm(acc + bias[n], groups=4, scale=g[n], shift=b[n]))"


def draw(*shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def gradients(function, inputs, seed=1):
    result = function(*inputs)
    weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(seed))
    return torch.autograd.grad(result, inputs, weight.to(result.dtype))


def agree(ours, theirs, tolerance):
    for mine, other in zip(ours, theirs):
        assert mine.shape == other.shape and torch.isfinite(mine).all() and other.abs().max() > 0
        assert (mine.double() - other).abs().max() <= tolerance * other.abs().max()


EPILOGUES = [
    ("silu(acc + bias[n])", lambda h, v: F.silu(h)),
    ("gelu(acc + bias[n]) * 2", lambda h, v: F.gelu(h) * 2),
    ("mish(acc + bias[n])", lambda h, v: F.mish(h)),
    ("hardswish(acc + bias[n]) + softplus(acc)", lambda h, v: F.hardswish(h) + F.softplus(h - v[:, None, None])),
    ("leaky_relu(acc + bias[n], slope=0.1)", lambda h, v: F.leaky_relu(h, 0.1)),
    ("h = acc + bias[n]; select(h > 0, h, elu(h))", lambda h, v: F.elu(h)),
    ("instance_norm(acc) * bias[n]", lambda h, v: F.instance_norm(h) * v[:, None, None]),
    ("layer_norm(acc + bias[n], eps=1e-3)", lambda h, v: F.layer_norm(h.permute(0, 2, 3, 1), (8,), eps=1e-3).permute(0, 3, 1, 2)),
    ("softmax(acc + bias[n], over=n)", lambda h, v: F.softmax(h, 1)),
]


@pytest.mark.parametrize("text, expected", EPILOGUES, ids=[t for t, _ in EPILOGUES])
def test_gradients_of_epilogues(text, expected):
    x, w, bias = draw((2, 4, 6, 5), (8, 4, 3, 3), (8,))
    ours = gradients(lambda x, w, v: u.conv2d(x, w, text, bias=v, padding=1, stride=(2, 1)), (x, w, bias))
    wide = [t.detach().double().requires_grad_() for t in (x, w, bias)]
    agree(ours, gradients(lambda x, w, v: expected(F.conv2d(x, w, v, padding=1, stride=(2, 1)), v), wide), 2e-5)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 2.0**-5)])
@pytest.mark.parametrize("last", [False, True])
def test_group_norm_and_residual(dtype, tolerance, last):
    inputs = draw((2, 8, 5, 7), (8, 8, 3, 3), (8,), (8,), (8,), (2, 8, 5, 7), dtype=dtype)
    if last:
        inputs[0] = inputs[0].detach().contiguous(memory_format=torch.channels_last).requires_grad_()

    def ours(x, w, bias, g, b, r):
        return u.conv2d(x, w, NORM + " + r[m,n]", bias=bias, g=g, b=b, r=r, padding=1)

    def theirs(x, w, bias, g, b, r):
        return F.silu(F.group_norm(F.conv2d(x, w, bias, padding=1), 4, g, b)) + r

    agree(gradients(ours, inputs), gradients(theirs, [t.detach().double().requires_grad_() for t in inputs]), tolerance)


def test_gemm_with_a_function_and_several_results():
    a, b, bias = draw((5, 8), (6, 8), (6,))

    @u.epilogue
    def gelu(acc, bias):
        return u.gelu_tanh(acc + bias)

    wide = [t.detach().double().requires_grad_() for t in (a, b, bias)]
    agree(gradients(lambda a, b, v: u.gemm(a, b.T, gelu, bias=v), (a, b, bias)),
          gradients(lambda a, b, v: F.gelu(F.linear(a, b, v), approximate="tanh"), wide), 1e-5)
    out = u.gemm(a, b.T, "h = acc + bias[n]\nstore relu(h) as y\nstore sum(h, over=n) as s", bias=bias)
    loss = out["s"].square().sum() + out["y"].sum()
    h = F.linear(*wide)
    agree(torch.autograd.grad(loss, (a, b, bias)), torch.autograd.grad(h.sum(1).square().sum() + F.relu(h).sum(), wide), 1e-5)


def test_under_torch_compile():
    x, w, bias, g, b = draw((2, 8, 9, 7), (16, 8, 3, 3), (16,), (16,), (16,))

    def block(x, w, bias, g, b):
        return F.relu(u.conv2d(x, w, NORM, bias=bias, g=g, b=b, padding=1)) * 2

    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, w, bias, g, b), block(x, w, bias, g, b))
    agree(gradients(compiled, (x, w, bias, g, b)), [t.double() for t in gradients(block, (x, w, bias, g, b))], 1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_operators_pass_the_checks_of_pytorch(last):
    x, w, bias = draw((2, 4, 6, 5), (8, 4, 3, 3), (8,))
    if last:
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    text = "y = silu(acc + s[] * bias[n])\nstore y as y : f32\nstore mean(acc, over=(m,n), per=b, groups=2) as q"
    torch.library.opcheck(operators.conv2d, (x, w, [bias], [0.5], text, "s=,bias", [1, 1], [1, 1], [1, 1], 1, None))
    a, b = draw((5, 8), (8, 6))
    torch.library.opcheck(operators.gemm, (a, b, [], [], "silu(acc)", "", torch.bfloat16))


def test_what_is_not_differentiated_is_an_error():
    x, w = draw((1, 4, 4, 4), (8, 4, 1, 1))
    y = u.conv2d(x, w, "store max_pool_2x2(acc) as p : f32\nstore acc as y")
    with pytest.raises(u.UserError, match="backward pass of store 'p'"):
        y["p"].sum().backward()
    with pytest.raises(u.UserError, match="out=, options= and layout= .* autograd"):
        u.conv2d(x, w, options={"threads": 1})
    with pytest.raises(u.UserError, match="made by @unisono.epilogue"):
        u.conv2d(x, w, lambda acc: acc)
    with torch.no_grad():
        assert not u.conv2d(x, w, lambda acc: acc).requires_grad


def test_functions_of_two_processes_have_two_names(monkeypatch):
    """PyTorch keeps compiled graphs on disk by their text, so that a function's place in a list is no name."""
    names = []
    for function in (lambda acc: u.relu(acc), lambda acc: u.cast(acc, u.DType.f16)):
        monkeypatch.setattr(u.epilogues, "REGISTERED", [])  # as a new process has it
        names.append(operators.text_of(u.epilogue(function)))
    assert names[0] != names[1]
    a, b = draw((5, 8), (8, 6))
    with pytest.raises(u.UserError, match="known in this process"):
        operators.gemm(a, b, [], [], names[0], "", None)
    for text in ("@0", names[1]):
        with pytest.raises(u.UserError, match="begins with '@'"):
            u.gemm(a, b, text)


def test_what_traces_sees_an_operator():
    from torch.fx.experimental.proxy_tensor import make_fx
    a, b, c = (t.detach() for t in draw((5, 8), (8, 6), (5, 8)))
    function = lambda a: u.gemm(a, b, "relu(acc)")  # noqa: E731
    for traced in (make_fx(function)(a), torch.jit.trace(function, (a,), check_trace=False)):
        torch.testing.assert_close(traced(c), function(c))
    with pytest.raises(RuntimeError, match="Batching rule not implemented for unisono::gemm"):
        torch.vmap(function)(torch.stack([a, c]))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(u.UserError, match="forward mode"):
        function(torch.autograd.forward_ad.make_dual(a, c))
    with pytest.raises(u.UserError, match="forward mode"):
        torch.func.jvp(function, (a,), (c,))
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda a: function(a).sum())(a)


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradients_of_extremes(name):
    a, b = draw((5, 8), (8, 6))
    wide = [t.detach().double().requires_grad_() for t in (a, b)]
    agree(gradients(lambda a, b: u.gemm(a, b, f"acc * {name}(acc, over=n) + max(acc, 0.5)"), (a, b)),
          gradients(lambda a, b: (lambda h: h * getattr(h, "a" + name)(1, True) + h.clamp_min(0.5))(a @ b), wide), 1e-5)


def test_graphs_under_torch_compile():
    graph, (a, b) = u.parse("store relu(acc) as y\nstore sum(acc, over=n) as s"), draw((5, 8), (8, 6))
    compiled = torch.compile(lambda a, b: u.gemm(a, b, graph), backend="aot_eager", fullgraph=True)
    ours, theirs = compiled(a, b), u.gemm(a, b, graph)
    assert list(ours) == ["y", "s"] and all(torch.equal(ours[n], theirs[n]) for n in ours)


@pytest.mark.parametrize("call, message", [(lambda x: u.gemm(x[0, 0, 0], x[0, 0]), r"gemm: a has shape \(5,\)"),
                                           (lambda x: u.conv2d(x[0], x), r"conv2d: x has shape \(4, 5, 5\)")])
def test_ranks_under_torch_compile(call, message):
    with pytest.raises(Exception, match=message):
        torch.compile(call, backend="aot_eager", fullgraph=True)(torch.zeros(8, 4, 5, 5))


def test_second_derivatives_of_functional_calls():
    """A gradient penalty: the gradients are differentiable themselves, those of a tensor that is given twice, too."""
    def penalty(call, *tensors):
        leaves = [t.clone().requires_grad_() for t in tensors]
        gradients = torch.autograd.grad(call(*leaves).square().sum(), leaves, create_graph=True)
        return [*gradients, *torch.autograd.grad(sum(g.square().sum() for g in gradients), leaves)]

    x, w, b, r = torch.randn(2, 8, 6, 6), 0.2 * torch.randn(8, 8, 3, 3), torch.randn(8), torch.randn(2, 8, 4, 4)
    mine = penalty(
        lambda x, w, b, r: u.conv2d(x, w, "silu(group_norm(acc + b[n], groups=2)) + r[m,n]", b=b, r=r), x, w, b, r
    )
    right = penalty(
        lambda x, w, b, r: F.silu(F.group_norm(F.conv2d(x, w, b), 2)) + r, *(t.double() for t in (x, w, b, r))
    )
    a = torch.randn(6, 6)
    mine += penalty(lambda a: u.gemm(a, a, "tanh(acc) * r[m,n]", r=a), a)
    right += penalty(lambda a: torch.tanh(a @ a) * a, a.double())
    for i, (one, exact) in enumerate(zip(mine, right)):
        assert ((one - exact).norm() <= 1e-5 * exact.norm()).item(), i
