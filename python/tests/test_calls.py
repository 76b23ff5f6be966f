"""Prepared calls and PyTorch's operators in C++, and what the forward pass keeps for the backward pass."""

import contextlib
import gc
import os
import pathlib
import subprocess
import sys
import threading
import warnings
import weakref

import limited
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import unisono as u  # noqa: E402
from compiled import regions_alone  # noqa: E402, F401
from unisono import calls  # noqa: E402
from unisono.pytorch import kept, library, operators, texts  # noqa: E402

NORM = "silu(group_norm(acc + bias[n], groups=4, scale=g[n], shift=b[n]))"
needs_library = pytest.mark.skipif(not library.is_native(), reason="the operators' kernels are those in Python")


def draw(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=generator) for s in shapes]


def test_the_library_is_used():
    if os.environ.get("UNISONO_TORCH_OPERATORS") != "python":
        assert library.layer()[0], library.layer()
    assert library.layer()[1] in u.doctor()


def test_a_pytorch_without_the_functions_is_told_by_the_first():
    path = pathlib.Path(u._native.__file__).parent / "_operators.so"
    script = ("import ctypes, sys, unisono\nassert 'torch' not in sys.modules\nregister = ctypes.CDLL(sys.argv[1]).unisono_register_operators\n"
              "register.restype = ctypes.c_char_p\nprint(register().decode())")
    run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert run.stdout == "it has no function aoti_torch_delete_tensor_object\n", run.stderr


@pytest.mark.check
def test_kernels_in_python_give_the_same_bits(tmp_path):
    script = ("import sys, torch, unisono as u\nfrom unisono.pytorch import library\n"
              "g = torch.Generator().manual_seed(0)\nx, w, b = (torch.randn(s, generator=g) for s in ((2, 8, 6, 5), (16, 8, 3, 3), (16,)))\n"
              "x = x.contiguous(memory_format=torch.channels_last)\ny = u.conv2d(x, w, 'silu(group_norm(acc, groups=4) * s[] + b[n])', b=b, s=0.5)\n"
              "a = torch.ops.unisono.fused_gemm(x[0, 0], x[0, 0].T, [], [], 'relu(acc)', '', None)[0]\n"
              "torch.save((library.is_native(), y, a), sys.argv[1])")
    found = []
    for how in ("python", ""):
        limited.run(
            [sys.executable, "-c", script, str(tmp_path / "y.pt")], {**os.environ, "UNISONO_TORCH_OPERATORS": how}
        ).check_returncode()
        found.append(torch.load(tmp_path / "y.pt"))
    (native, *results), (_, *others) = found
    assert not native and all(torch.equal(r, o) and r.stride() == o.stride() for r, o in zip(results, others))


def test_workspaces_are_allocated_by_a_thread_of_their_own(monkeypatch):
    """The memory pool of a CUDA graph that warms up belongs to the thread that calls; on the stream of the call all the same."""
    streams, threads = [], []

    @contextlib.contextmanager
    def stream(one):
        streams.append(one)
        yield

    original = torch.empty

    def empty(*arguments, **more):
        threads.append(threading.get_ident())
        return original(*arguments, **more)

    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch, "empty", empty)
    assert calls.workspace(48, "cpu", "a stream").shape == (48,)
    assert streams == ["a stream"] and len(threads) == 1 and threads[0] != threading.get_ident()


def test_a_cleared_cache_is_seen_by_all_who_hold_calls():
    a, b = draw((4, 8), (8, 6))
    u.cache_clear()
    first = u.gemm(a, b, "relu(acc)")
    torch.ops.unisono.fused_gemm(a, b, [], [], "relu(acc)", "", None)
    assert u.cache_info() == {"plans": 1, "hits": 1, "misses": 1, "copies": 0}
    u.cache_clear()
    assert torch.equal(u.gemm(a, b, "relu(acc)"), first) and u.cache_info() == {"plans": 1, "hits": 0, "misses": 1, "copies": 0}


def test_nothing_is_kept_of_the_tensors_of_a_call():
    a, b, bias = draw((4, 8), (8, 6), (6,))
    for _ in range(2):
        result = u.gemm(a, b, "relu(acc + s[] * bias[n])", bias=bias, s=2.0)
    counts = [sys.getrefcount(t) for t in (a, b, bias)]
    for _ in range(5):
        result = u.gemm(a, b, "relu(acc + s[] * bias[n])", bias=bias, s=2.0)
    assert counts == [sys.getrefcount(t) for t in (a, b, bias)]
    gone = [weakref.ref(t.untyped_storage()) for t in (a, result)]
    del a, result
    gc.collect()
    assert all(g() is None for g in gone)


@needs_library
def test_errors_of_kernels_in_cpp_keep_their_class():
    x, w = draw((1, 4, 5, 5), (8, 4, 3, 3))
    with pytest.raises(u.UserError, match="operand c.m,n. has shape"):
        u.conv2d(x, w, "acc + c[m,n]", c=x)
    with pytest.raises(RuntimeError, match=r"unisono.UserError: operand c\[m,n\] has shape"):
        torch.ops.unisono.fused_conv2d(x, w, [x], [], "acc + c[m,n]", "c", [1, 1], [0, 0], [1, 1], 1, None)
    with pytest.raises(RuntimeError, match="pairs"):
        torch.ops.unisono.fused_conv2d(x, w, [], [], "acc", "", [1], [0, 0], [1, 1], 1, None)


def test_calls_of_several_threads():
    tensors = [draw((m, 8), (8, 6)) for m in (4, 5)]
    expected, failures = [F.relu(a @ b) for a, b in tensors], []

    def work(which):
        for _ in range(200):
            if not torch.allclose(u.gemm(*tensors[which], "relu(acc)"), expected[which], atol=1e-5):
                failures.append(which)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(6)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failures


class Recorded(TorchDispatchMode):
    """The operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def block(x, w, bias, g, b):
    return u.conv2d(x, w, NORM, bias=bias, g=g, b=b, padding=1)


def test_the_forward_pass_keeps_what_the_backward_pass_reads():
    inputs = [t.requires_grad_() for t in draw((2, 8, 6, 5), (16, 8, 3, 3), (16,), (16,), (16,))]
    result = block(*inputs)
    extra = [tuple(t.shape) for t in result.grad_fn.saved_tensors[5:]]
    assert extra == [(2, 16, 6, 5), (2, 4), (2, 4)]  # the accumulator, mean and rstd
    h = F.conv2d(inputs[0], inputs[1], padding=1) + inputs[2][:, None, None]
    acc, mean, rstd = result.grad_fn.saved_tensors[5:]
    torch.testing.assert_close(acc, F.conv2d(inputs[0], inputs[1], padding=1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mean, h.reshape(2, 4, -1).mean(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(rstd, torch.rsqrt(h.reshape(2, 4, -1).var(-1, unbiased=False) + 1e-5), rtol=1e-4, atol=1e-4)
    with Recorded() as seen:
        result.sum().backward()
    assert "unisono.epilogue_backward.default" in seen.names and "aten.convolution_backward.default" in seen.names
    assert "aten.convolution.default" not in seen.names and not any("fused" in n for n in seen.names)


def gradients(inputs):
    result = block(*inputs)
    return torch.autograd.grad(result, inputs, torch.linspace(-1, 1, result.numel()).reshape(result.shape))


@pytest.mark.parametrize("needed", [(0, 1, 2, 3, 4), (0,), (1,), (3,), (2, 4)])
def test_gradients_from_what_was_kept(needed):
    inputs = draw((2, 8, 6, 5), (16, 8, 3, 3), (16,), (16,), (16,))
    wide = [t.double().requires_grad_(i in needed) for i, t in enumerate(inputs)]
    inputs = [t.requires_grad_(i in needed) for i, t in enumerate(inputs)]
    x, w, bias, g, b = wide
    right = F.silu(F.group_norm(F.conv2d(x, w, bias, padding=1), 4, g, b))
    weight = torch.linspace(-1, 1, right.numel()).reshape(right.shape)
    result = block(*inputs)
    ours = torch.autograd.grad(result, [inputs[i] for i in needed], weight)
    theirs = torch.autograd.grad(right, [wide[i] for i in needed], weight.double())
    for mine, other in zip(ours, theirs):
        assert (mine - other).abs().max() <= 1e-5 * other.abs().max()


NORMS = ["layer_norm(acc + bias[n], eps=1e-3)", "instance_norm(acc + bias[n])", "rms_norm(acc, scale=bias[n])", "batch_norm(acc, shift=bias[n])",
         "group_norm(layer_norm(acc) + bias[n], groups=2)"]


@pytest.mark.parametrize("text", NORMS)
def test_statistics_of_every_normalisation(text, monkeypatch):
    """From what was kept, and from what is computed again, by autograd alone."""
    x, w, bias = (t.requires_grad_() for t in draw((2, 4, 6, 5), (8, 4, 3, 3), (8,)))
    found = []
    for keep in (True, False):
        if not keep:
            monkeypatch.setattr(kept, "keeping", lambda text, dtype: (text, ()))
            monkeypatch.setattr(operators, "_plans", {})
        result = u.conv2d(x, w, text, bias=bias, padding=1)
        saved = len(result.grad_fn.saved_tensors)
        assert saved == 3 if not keep else saved >= 5
        found.append(torch.autograd.grad(result.sin().sum(), (x, w, bias)))
    for mine, other in zip(*found):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_nothing_is_kept_for_a_linear_epilogue():
    a, b, bias = (t.requires_grad_() for t in draw((5, 8), (8, 6), (6,)))
    result = u.gemm(a, b, "acc + bias[n]", bias=bias)
    assert len(result.grad_fn.saved_tensors) == 3
    for mine, other in zip(torch.autograd.grad(result.sin().sum(), (a, b, bias)), torch.autograd.grad((a @ b + bias).sin().sum(), (a, b, bias))):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


def test_a_kernel_that_cannot_keep_is_said(monkeypatch):
    """On a GPU a kernel may refuse the further stores."""
    a, b = (t.requires_grad_() for t in draw((5, 8), (8, 6)))
    monkeypatch.setattr(kept, "refusal", lambda *_: "too many stores")
    plan = operators.Plan("gemm", a, b, [], [], "silu(acc)", "", (None,))
    assert plan.kept == ("acc",)
    with pytest.warns(UserWarning, match="PyTorch's operators: too many stores"):
        plan._check(a, b, {})
    assert plan.kept == () and plan.kept_text == plan.text


def test_compiled_backward_graphs_have_the_contraction_as_pytorchs_own():
    """There native kernels for it find their place."""
    from torch._dynamo.backends.common import aot_autograd
    from functorch.compile import make_boxed_func
    graphs = []

    def keep(graph, _):
        graphs.append({str(n.target) for n in graph.graph.nodes if n.op == "call_function"})
        return make_boxed_func(graph.forward)

    inputs = [t.requires_grad_() for t in draw((2, 8, 6, 5), (16, 8, 3, 3), (16,), (16,), (16,))]
    compiled = torch.compile(block, backend=aot_autograd(fw_compiler=keep, bw_compiler=keep), fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine = torch.autograd.grad(compiled(*inputs).sum(), inputs)
    for one, other in zip(mine, torch.autograd.grad(block(*inputs).sum(), inputs)):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    forward, backward = graphs
    assert "unisono.fused_conv2d.default" in forward and {"aten.convolution_backward.default", "unisono.epilogue_backward.default"} <= backward
    assert "unisono.fused_conv2d.default" not in backward


def test_options_of_a_kernel_are_part_of_the_call():
    """Of the backend's spare_sms: a CPU has no SMs, so the option must arrive and change nothing."""
    a, b, bias = draw((4, 8), (8, 6), (6,))
    names = texts.joined(["bias"], {"spare_sms": 8})
    assert texts.options_of(names) == {"spare_sms": 8} and texts.split(names, [], [bias]) == {"bias": bias}
    u.cache_clear()
    plain, spared = (torch.ops.unisono.fused_gemm(a, b, [bias], [], "relu(acc + bias[n])", n, None)[0] for n in ("bias", names))
    assert torch.equal(plain, spared) and u.cache_info()["misses"] == 2


def test_regions_leave_sms_to_others():
    from unisono.pytorch import backend
    calls = []

    def seen(graph, rows):
        calls.extend(n.args[5] for n in graph.graph.nodes if n.target is torch.ops.unisono.fused_gemm.default)
        return original(graph, rows)

    original, backend.count = backend.count, seen
    try:
        a, b, bias = draw((4, 8), (8, 6), (6,))
        with torch.no_grad():
            torch.compile(lambda a: F.relu(torch.addmm(bias, a, b)), backend=backend.unisono, options={"rest": "eager", "spare_sms": 12})(a)
    finally:
        backend.count = original
    assert len(calls) == 1 and texts.options_of(calls[0]) == {"spare_sms": 12}, calls


def test_how_a_derivative_is_computed_is_settled_once(monkeypatch):
    made, original = [], operators.Plan
    monkeypatch.setattr(operators, "Plan", lambda *a: made.append(a[0]) or original(*a))
    monkeypatch.setattr(operators, "_plans", {})
    a, b = (t.requires_grad_() for t in draw((5, 8), (8, 6)))
    for scale in (1.0, 2.0):
        mine = torch.autograd.grad(u.gemm(a, b, "silu(acc * s[])", s=scale).sum(), a)[0]
        torch.testing.assert_close(mine, torch.autograd.grad(F.silu(a @ b * scale).sum(), a)[0], rtol=1e-5, atol=1e-5)
    u.gemm(a[:4], b, "silu(acc * s[])", s=1.0)
    assert made == ["gemm", "gemm"]
