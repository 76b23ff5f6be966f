"""The backend on a real GPU: forward and backward, CUDA graphs, streams, threads, dynamic sizes. Skipped where there is none."""

import copy
import threading

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from models import Block, Strided, UNet, compare_gradients, no_worse, randomise  # noqa: E402
from unisono.pytorch import backend  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()
    torch.manual_seed(0)


def block(dtype=torch.bfloat16, last=True, channels=64):
    made = randomise(Block(channels, 8, channels)).to("cuda", dtype)
    x, t = torch.randn(2, channels, 32, 24, device="cuda", dtype=dtype), torch.randn(2, 8, device="cuda", dtype=dtype)
    if last:
        made, x = made.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    return made, x, t


def exact(model, *inputs):
    with torch.no_grad():
        return copy.deepcopy(model).double()(*(i.double() for i in inputs))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("rest", ["inductor", "eager"])
def test_inference(dtype, last, rest):
    model, x, t = block(dtype, last)
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"rest": rest, "minimum_gain": -1.0})
        no_worse(call(x, t), model(x, t), exact(model, x, t), str(backend.reports()[-1]))
        no_worse(call(x, t), model(x, t), exact(model, x, t))
    assert backend.reports()[-1].regions == 2, str(backend.reports()[-1])


def test_swiglu():
    """Halves of a weight (rows apart) and alternating rows; both accumulators are kept for the backward pass."""
    x = torch.randn(64, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    w = (torch.randn(192, 128, device="cuda", dtype=torch.bfloat16) / 8).requires_grad_(True)
    for cut in (lambda t: t.chunk(2), lambda t: (t[::2], t[1::2])):
        one, other = cut(w)
        mine, theirs = u.swiglu(x, one.T, other.T), F.silu(x @ one.T) * (x @ other.T)
        best = F.silu(x.double() @ one.double().T) * (x.double() @ other.double().T)
        no_worse(mine.detach(), theirs.detach(), best.detach())
        for g, h in zip(torch.autograd.grad(mine.sum(), (x, w)), torch.autograd.grad(best.sum(), (x, w))):
            assert (g.double() - h).norm() <= 0.02 * h.norm()


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_halves_of_narrow_layers(width):
    """The second half of the weight begins at a multiple of 16 bytes, or elsewhere."""
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.both = torch.nn.Linear(12, 2 * width)

        def forward(self, x):
            value, gate = self.both(x).chunk(2, -1)
            return value * F.gelu(gate)
    model, x = Gated().to("cuda", torch.bfloat16), torch.randn(99, 12, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"minimum_gain": -1.0, "minimum_operators": 0})
        no_worse(call(x), model(x), exact(model, x), str(backend.reports()[-1]))


@pytest.mark.parametrize("width", [64, 8])
@pytest.mark.parametrize("rest", ["inductor", "eager"])
def test_skips_are_read_from_their_concatenation(width, rest):
    """The convolution behind a skip reads it where it lies, in a slice of wider pixels."""
    model = randomise(Strided(width, inputs=8)).to("cuda", torch.bfloat16).to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 32, 24, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    options = {"rest": rest, "minimum_gain": -1.0, "minimum_operators": 0}
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options=options)
        for _ in range(2):
            no_worse(call(x), model(x), exact(model, x), str(backend.reports()[-1]))
    if rest == "inductor":  # eager mode's group_norm wants its image contiguous, which the skip then is
        report = backend.reports()[-1]
        assert report.counts["concatenations without copies"] == ["cat: 2 of 2 parts"], str(report)


def test_a_slice_is_an_image_of_a_functional_call():
    """In place if it is aligned, by a copy else; a prepared call of one is not taken for the other's."""
    wide = torch.randn(2, 96, 16, 16, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    w = torch.randn(64, 64, 3, 3, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    for first in (0, 16, 3, 32, 8, 5):
        x = wide[:, first:first + 64]
        right = F.conv2d(x.double(), w.double(), padding=1)
        no_worse(u.conv2d(x, w, "silu(acc)", padding=1), F.silu(F.conv2d(x, w, padding=1)), F.silu(right))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rest", ["inductor", "eager"])
def test_training(dtype, rest):
    model, x, t = block(dtype)
    call = torch.compile(model, backend=backend.unisono, options={"rest": rest, "minimum_gain": -1.0})
    compare_gradients(model, call, x, t)
    forward = next(r for r in backend.reports() if r.kind == "forward")
    assert forward.regions == 2 and all(r["stores"] == 4 for r in forward.rows if r["taken"]), str(forward)


def test_the_unet_trains_in_a_cuda_graph():
    model = randomise(UNet(width=64, inputs=8)).to("cuda", torch.bfloat16).to(memory_format=torch.channels_last)
    other = copy.deepcopy(model)
    x = torch.randn(4, 8, 32, 32, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    losses = []
    for one, call in ((model, torch.compile(model, backend=backend.unisono)), (other, other)):
        optimizer = torch.optim.AdamW(one.parameters(), lr=2e-4, capturable=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = (call(x).float() - x[:, :2].float()).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found = [step().item() for _ in range(3)]
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        for _ in range(20):
            graph.replay()
            found.append(loss.item())
        losses.append(found)
    assert all(abs(mine - theirs) <= 0.1 * theirs for mine, theirs in zip(*losses)), losses
    assert losses[0][-1] < 0.9 * losses[0][0] and losses[1][-1] < 0.9 * losses[1][0], losses


def test_cuda_graph_trees():
    """mode="reduce-overhead" of Inductor is options of its own; its cudagraphs are switched on for the rest."""
    model, x, t = block()
    with torch._inductor.config.patch("triton.cudagraphs", True), torch.no_grad():
        call = torch.compile(model, backend=backend.unisono)
        for seed in range(5):
            other = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).to(x)
            no_worse(call(other, t).clone(), model(other, t), exact(model, other, t))


@pytest.mark.parametrize("layer", ["C++", "Python"])
def test_workspaces_are_of_no_pool_of_a_graph(layer):
    """What a call keeps was not allocated in the pool that is in use: CUDA graph trees count what is alive in theirs."""
    x, w = (torch.randn(s, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last) for s in ((2, 64, 64, 64), (64, 64, 3, 3)))
    text, more = "silu(group_norm(acc, groups=8))", {} if layer == "C++" else {"options": {"spare_sms": 0}}
    contraction = u.Conv2d(n=2, h=64, w=64, c=64, k=64, r=3, s=3, pad=1, dtype_x=u.DType.bf16, dtype_w=u.DType.bf16)
    assert u.explain(contraction, u.parse(f"store {text} as y : bf16"), device=u.Device.cuda).workspace_bytes > 0
    u.cache_clear()
    pool = torch.cuda.MemPool()
    with torch.no_grad(), torch.cuda.use_mem_pool(pool):
        y = u.conv2d(x, w, text, padding=1, **more)
    torch.cuda.synchronize()
    del y
    alive = [b for segment in pool.snapshot() for b in segment["blocks"] if b["state"] == "active_allocated"]
    assert not alive, alive


def test_streams_and_threads():
    model, x, t = block()
    right, failures = exact(model, x, t), []
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono)
        theirs = model(x, t)
        call(x, t)

        def work():
            try:
                stream = torch.cuda.Stream()
                with torch.no_grad(), torch.cuda.stream(stream):
                    for _ in range(20):
                        result = call(x, t)
                    stream.synchronize()
                    no_worse(result, theirs, right)
            except BaseException as failure:
                failures.append(failure)

        torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not failures, failures


def test_dynamic_sizes():
    model, _, _ = block()
    call = torch.compile(model, backend=backend.unisono, dynamic=True, options={"minimum_gain": -1.0})
    with torch.no_grad():
        for n, h, w in ((4, 20, 12), (3, 20, 12), (4, 33, 17)):
            x = torch.randn(n, 64, h, w, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
            t = torch.randn(n, 8, device="cuda", dtype=torch.bfloat16)
            no_worse(call(x, t), model(x, t), exact(model, x, t))
    assert len(backend.reports()) == 1 and backend.reports()[0].regions == 2, [str(r) for r in backend.reports()]


def test_results_repeat_bit_for_bit():
    model, x, t = block()
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono)
        first = call(x, t)
        assert all(torch.equal(call(x, t), first) for _ in range(10))


def test_functional_calls_and_autocast():
    x, w = torch.randn(2, 64, 16, 16, device="cuda"), torch.randn(64, 64, 3, 3, device="cuda")
    g, b = torch.randn(64, device="cuda"), torch.randn(64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16), torch.no_grad():
        y = u.conv2d(x, w, "silu(group_norm(acc, groups=8, scale=g[n], shift=b[n]))", g=g, b=b, padding=1)
        right = F.silu(F.group_norm(F.conv2d(x.double(), w.double(), padding=1), 8, g.double(), b.double()))
    assert y.dtype == torch.bfloat16
    no_worse(y, right.to(torch.bfloat16), right)


NORM = "silu(group_norm(acc + bias[n], groups=8, scale=g[n], shift=b[n]))"


def tensors(last=True, dtype=torch.bfloat16):
    x, w = torch.randn(2, 64, 24, 16, device="cuda", dtype=dtype), 0.1 * torch.randn(64, 64, 3, 3, device="cuda", dtype=dtype)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    return [x, w, *(torch.randn(64, device="cuda", dtype=dtype) for _ in range(3))]


def by_pytorch(x, w, bias, g, b):
    return F.silu(F.group_norm(F.conv2d(x, w, bias, padding=1), 8, g, b))


def by_unisono(x, w, bias, g, b):
    return u.conv2d(x, w, NORM, bias=bias, g=g, b=b, padding=1)


@pytest.mark.parametrize("last", [True, False])
def test_prepared_calls_on_streams_and_in_graphs(last):
    """The filter lies contiguous: where the image is channels last each call copies it, and so does each replay of a graph."""
    given = tensors(last)
    streams = [torch.cuda.Stream() for _ in range(2)]
    with torch.no_grad():
        for stream in (*streams, torch.cuda.default_stream(), *streams):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                given[0].mul_(-1)
                mine = by_unisono(*given)
            stream.synchronize()
            no_worse(mine, by_pytorch(*given), by_pytorch(*(t.double() for t in given)))
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=streams[0]):
            mine = by_unisono(*given)
            other = by_unisono(mine, *given[1:])
        for _ in range(3):
            given[0].mul_(0.5), given[1].mul_(-1)
            graph.replay()
            torch.cuda.synchronize()
            no_worse(mine, by_pytorch(*given), by_pytorch(*(t.double() for t in given)))
            no_worse(other, by_pytorch(mine, *given[1:]), by_pytorch(mine.double(), *(t.double() for t in given[1:])))
    u.cache_clear()  # what a graph has captured stays
    graph.replay()
    torch.cuda.synchronize()
    no_worse(mine, by_pytorch(*given), by_pytorch(*(t.double() for t in given)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("last", [True, False])
def test_derivatives_of_functional_calls(dtype, last):
    """From the accumulator, mean and rstd that the kernel stores with its result."""
    given = [t.requires_grad_() for t in tensors(last, dtype)]
    wide = [t.detach().double().requires_grad_() for t in given]
    result, weight = by_unisono(*given), torch.randn(2, 64, 24, 16, device="cuda")
    assert len(result.grad_fn.saved_tensors) == 5 + 3
    ours = torch.autograd.grad(result, given, weight.to(result))
    theirs = torch.autograd.grad(by_pytorch(*given), given, weight.to(result))
    for mine, other, right in zip(ours, theirs, torch.autograd.grad(by_pytorch(*wide), wide, weight.to(result).double())):
        error, his = (mine.double() - right).norm(), (other.double() - right).norm()
        assert error <= max(2 * his, 2.0**-7 * right.norm()), (error / right.norm(), his / right.norm())


def test_sms_that_are_left_to_others():
    model, x, t = block()
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"spare_sms": 16, "minimum_gain": -1.0})
        no_worse(call(x, t), model(x, t), exact(model, x, t))
    assert backend.reports()[-1].regions == 2, str(backend.reports()[-1])


def test_operators_are_those_in_cpp_and_keep_the_class_of_errors():
    from unisono.pytorch import library
    assert library.is_native(), library.layer()
    given = tensors()
    with pytest.raises(u.UserError, match="operand 'bias' is on cpu"), torch.no_grad():
        u.conv2d(*given[:2], "acc + bias[n]", bias=given[2].cpu(), padding=1)


def halves(width):
    return torch.randn(1, 300, 2 * width, device="cuda", dtype=torch.bfloat16).chunk(2, -1)


@pytest.mark.parametrize("operands", [
    lambda: {"o": halves(192)[1]},
    lambda: {"o": halves(192)[0].as_strided((1, 300, 192), (0, 384, 1)), "p": halves(192)[1]},
    lambda: {"o": torch.randn(192, 300, device="cuda", dtype=torch.bfloat16).T[None]},
    lambda: {"o": torch.randn(300 * 192 + 1, device="cuda", dtype=torch.bfloat16)[1:].view(1, 300, 192)},
    lambda: {"o": torch.randn(1, 1, 192, device="cuda", dtype=torch.bfloat16).expand(1, 300, 192)},
])  # yapf: disable
def test_operands_that_lie_apart(operands):
    """Strides and alignments that no kernel reads: copied before each launch, captured or not."""
    given = operands()
    x, w = halves(64)[1], torch.randn(192, 64, device="cuda", dtype=torch.bfloat16)
    text = " + ".join(["silu(acc)", *(f"{name}[m,n]" for name in given)])
    exact = F.silu(x.double() @ w.double().T) + sum(o.double() for o in given.values())
    for a in (x, x.contiguous(), x[:, ::2].repeat_interleave(2, 1)):
        best = F.silu(a.double() @ w.double().T) + sum(o.double() for o in given.values())
        no_worse(u.gemm(a, w.T[None], text, **given), best.bfloat16(), best)
    static = torch.empty_like(exact, dtype=torch.bfloat16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static.copy_(u.gemm(x, w.T[None], text, **given))
    for one in given.values():
        one.copy_(torch.randn_like(one)) if one.stride()[1] else None
    graph.replay()
    exact = F.silu(x.double() @ w.double().T) + sum(o.double() for o in given.values())
    no_worse(static, exact.bfloat16(), exact)


@pytest.fixture
def settings():
    """PyTorch's settings of tf32, which are as they were afterwards."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    yield cudnn, matmul
    cudnn.allow_tf32, matmul.allow_tf32 = before


@pytest.mark.parametrize("kind", ["convolutions", "products"])
@pytest.mark.parametrize("allow", [False, True])
def test_float32_is_multiplied_as_pytorch_is_asked_to(kind, allow, settings):
    for library in settings:
        library.allow_tf32 = allow
    shapes, function = {"convolutions": (((2, 64, 32, 32), (64, 64, 3, 3)), lambda x, w: F.silu(F.conv2d(x, w, padding=1))),
                        "products": (((256, 512), (512, 384)), lambda x, w: F.silu(x @ w))}[kind]
    x, w = (torch.randn(s, device="cuda") for s in shapes)
    if kind == "convolutions":
        x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    call = torch.compile(function, backend=backend.unisono, options={"rest": "eager", "minimum_gain": -1e9})
    with torch.no_grad():
        mine, best = call(x, w), function(x.double(), w.double())
    assert backend.reports()[-1].regions == allow, str(backend.reports()[-1])
    error = float((mine.double() - best).norm() / best.norm())
    assert error < (2e-3 if allow else 1e-5), error
