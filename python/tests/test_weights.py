"""Weights that change after compilation are seen by the next call: nothing keeps a packed copy of a filter."""

import copy
import weakref

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from compiled import regions_alone  # noqa: E402, F401
from models import Block, no_worse, randomise  # noqa: E402
from unisono.pytorch import backend  # noqa: E402
from unisono.pytorch import frozen as frozen_filters  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()
    torch.manual_seed(0)


def step_of_an_optimizer(block, x, t):
    optimizer = torch.optim.SGD(block.parameters(), lr=0.3)
    with torch.enable_grad():
        block(x, t).square().mean().backward()
    optimizer.step()


def other_state(block, x, t):
    block.load_state_dict(randomise(copy.deepcopy(block).float().cpu(), seed=5).state_dict())


def merge_of_an_adapter(block, x, t):
    weight = block.c2.weight
    low, high = torch.randn(2, weight[0].numel()), torch.randn(weight.shape[0], 2)
    weight.data += (high @ low).view_as(weight).to(weight)


def moving_average(block, x, t):
    for p, q in zip(block.parameters(), randomise(copy.deepcopy(block).float().cpu(), seed=6).parameters()):
        p.data.mul_(0.5).add_(q.data.to(p), alpha=0.5)


def another_tensor(block, x, t):
    block.c1.weight = nn.Parameter(torch.randn_like(block.c1.weight))


def memory_order(block, x, t):
    block.to(memory_format=torch.channels_last)
    block.c1.weight.data.neg_()


def agrees(mine, theirs, right, label=""):
    """As no_worse says; on a GPU, where f32 is multiplied as tf32 here and exactly by PyTorch unless allow_tf32 is set, to 1e-3. The
    changes are of 5 % and more."""
    if not mine.is_cuda:
        return no_worse(mine, theirs, right, label)
    error = ((mine.double() - right).norm() / right.norm()).item()
    assert error < 1e-3, f"{label}: {error}"


CHANGES = [step_of_an_optimizer, other_state, merge_of_an_adapter, moving_average, another_tensor, memory_order]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__ for c in CHANGES])
def test_a_compiled_block_sees_it(change, device):
    block, x, t = randomise(Block()).to(device), torch.randn(2, 3, 8, 8, device=device), torch.randn(2, 8, device=device)
    compiled = torch.compile(block, backend=backend.unisono, options={"rest": "eager", "minimum_gain": -1e9})  # however small they are
    with torch.no_grad():
        before = compiled(x, t)
        change(block, x, t)
        after = compiled(x, t)
        right = copy.deepcopy(block).double()(x.double(), t.double())
        assert (after - before).norm() > 0.05 * before.norm()
        agrees(after, block(x, t), right)
    assert all(r.regions == 2 for r in backend.reports())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_another_dtype(dtype):
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    compiled = torch.compile(block, backend=backend.unisono, options={"rest": "eager"})
    with torch.no_grad():
        compiled(x, t)
        block.to(dtype)
        x, t = x.to(dtype), t.to(dtype)
        no_worse(compiled(x, t), block(x, t), copy.deepcopy(block).double()(x.double(), t.double()))
    assert backend.reports()[-1].rows[0]["dtype"] == str(dtype) and backend.reports()[-1].regions == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("last", [False, True])
def test_a_functional_call_sees_it(device, last):
    """The filter lies in another order than the image, so that a GPU is given a copy of it."""
    conv, x = randomise(nn.Conv2d(8, 16, 3, padding=1)).to(device), torch.randn(2, 8, 6, 5, device=device)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    def call():
        return u.conv2d(x, conv.weight, "silu(acc + b[n])", b=conv.bias, padding=1)
    close = 1e-4 if device == "cpu" else 1e-2  # there, matrices of f32 are multiplied as tf32
    with torch.no_grad():
        for change in (lambda: None, lambda: conv.weight.mul_(-1), lambda: conv.weight.data.add_(0.5), lambda: conv.bias.data.sub_(1)):
            change()
            torch.testing.assert_close(call(), F.silu(conv(x)), rtol=close, atol=close)


def merge_under_no_grad(block, x, t):
    with torch.no_grad():
        block.c2.weight += torch.randn_like(block.c2.weight)


def state_in_place(block, x, t):
    other_state(block, x, t)


WRITES = [step_of_an_optimizer, state_in_place, merge_under_no_grad]  # as version counters know them


@pytest.mark.check
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_frozen_filters_are_packed_once(device, rest, monkeypatch):
    """The image is channels last and the filters are not: with frozen=True the graph has packed ones in their place."""
    block, t = randomise(Block()).to(device), torch.randn(2, 8, device=device)
    x = torch.randn(2, 3, 8, 8, device=device).contiguous(memory_format=torch.channels_last)
    copies, original = [], backend.count

    def count(graph, rows):
        copies.append(frozen_filters.packed_filters(graph, ("cpu", "cuda")))
        return original(graph, rows)

    monkeypatch.setattr(backend, "count", count)
    results = []
    with torch.no_grad():
        for frozen in (False, True):
            torch._dynamo.reset()
            call = torch.compile(block, backend=backend.unisono, options={"rest": rest, "frozen": frozen, "without": ("networks",), "minimum_gain": -1.0})
            results.append(call(x, t))
        assert copies[0] >= 1 and copies[1] == 0, copies
        torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
        for change in WRITES:
            before = call(x, t)
            change(block, x, t)
            after = call(x, t)
            assert (after - before).norm() > 0.05 * before.norm(), change.__name__
            agrees(after, block(x, t), copy.deepcopy(block).double()(x.double(), t.double()), change.__name__)


REPLACED = {
    "another parameter": lambda conv: setattr(
        conv, "weight", nn.Parameter(torch.randn_like(conv.weight), requires_grad=False)
    ),
    "another parameter of as many writes": lambda conv: setattr(
        conv, "weight", written(torch.randn_like(conv.weight), conv.weight._version)
    ),
    "other memory": lambda conv: setattr(conv.weight, "data", torch.randn_like(conv.weight)),
    "load_state_dict(assign=True)": lambda conv: conv.load_state_dict(
        {n: 2 * t for n, t in conv.state_dict().items()}, assign=True
    ),
    "a write": lambda conv: conv.weight.mul_(-2),
}


def written(t, times):
    """A parameter whose version counter says so many writes."""
    t = nn.Parameter(t, requires_grad=False)
    while t._version < times:
        t.mul_(1)
    return t


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_replaced_weights_are_packed_again(rest):
    """A frozen filter is that of the tensor that the call is given, whatever became of the one that was there first."""
    conv, x = (
        nn.Conv2d(8, 8, 3).requires_grad_(False),
        torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last),
    )
    call = torch.compile(lambda x: F.silu(conv(x)), backend=backend.unisono, options={"rest": rest, "frozen": True, "without": ("networks",)})
    with torch.no_grad():
        for name, change in REPLACED.items():
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4)
            change(conv)
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4, msg=name)
        held = weakref.ref(conv.weight)
        conv.weight = nn.Parameter(torch.randn_like(conv.weight), requires_grad=False)
        assert held() is None, "the graph keeps a weight alive that nobody else has"


def test_a_frozen_weight_that_the_graph_writes_is_no_copy():
    class Decayed(nn.Conv2d):
        def forward(self, x):
            self.weight.mul_(0.5)
            return F.relu(super().forward(x))

    conv, x = (
        Decayed(8, 8, 3).requires_grad_(False),
        torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last),
    )
    eager, call = (
        copy.deepcopy(conv),
        torch.compile(conv, backend=backend.unisono, options={"rest": "eager", "frozen": True, "without": ("networks",)}),
    )
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(call(x), eager(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(conv.weight, eager.weight)


def test_frozen_weights_that_were_made_under_inference_mode():
    with torch.inference_mode():
        conv, x = (
            nn.Conv2d(8, 8, 3).requires_grad_(False),
            torch.randn(2, 8, 6, 6).contiguous(memory_format=torch.channels_last),
        )
        call = torch.compile(
            lambda x: F.silu(conv(x)), backend=backend.unisono, options={"rest": "eager", "frozen": True, "without": ("networks",)}
        )
        torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4)


def test_frozen_filters_of_any_extents():
    """A packed filter is no tensor that Dynamo has seen: its extents are known all the same, whatever they are."""
    block, t = randomise(Block(channels=64, groups=8, inputs=64)).requires_grad_(False), torch.randn(2, 8)
    x = torch.randn(2, 64, 8, 8).contiguous(memory_format=torch.channels_last)
    call = torch.compile(block, backend=backend.unisono, options={"frozen": True, "without": ("networks",)})
    with torch.no_grad():
        no_worse(call(x, t), block(x, t), copy.deepcopy(block).double()(x.double(), t.double()))
    assert backend.reports()[-1].regions == 2


def test_filters_are_packed_by_the_graph(monkeypatch):
    """Where kernels would copy a filter, Inductor does, with autocast's cast in the same kernel; here as if the CPU's kernels did."""
    block, t = randomise(Block()), torch.randn(2, 8)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    formats, original = [], frozen_filters.pack_in_graph

    def packs(graph):
        original(graph, ("cpu",))
        formats.extend(c.args[1].meta["val"].is_contiguous(memory_format=torch.channels_last) for c in frozen_filters._calls(graph, ("cpu",)))
        assert frozen_filters.packed_filters(graph, ("cpu",)) >= 1

    monkeypatch.setattr(backend, "pack_in_graph", packs)
    call = torch.compile(block, backend=backend.unisono)
    for change in (lambda *_: None, *WRITES[1:]):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            change(block, x, t)
            mine, theirs = call(x, t), block(x, t)
        with torch.no_grad():
            no_worse(mine, theirs, copy.deepcopy(block).double()(x.double(), t.double()))
    assert formats and all(formats)


def test_frozen_asks_for_weights_without_gradients():
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last), torch.randn(2, 8)
    with pytest.raises(Exception, match="frozen=True: .* gradient; expected torch.no_grad"):
        torch.compile(block, backend=backend.unisono, options={"frozen": True})(x, t)
    with pytest.raises(Exception, match="frozen=1; expected True or False"):
        torch.compile(block, backend=backend.unisono, options={"frozen": 1})(x, t)


def test_freeze_reorders_filters_in_place():
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last), torch.randn(2, 8)
    right, weight = block(x, t), block.c1.weight
    assert u.freeze(block) is block and block.c1.weight is weight and not block.training
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in block.parameters() if p.dim() == 4)
    assert not any(p.requires_grad for p in block.parameters())
    torch.testing.assert_close(torch.compile(block, backend=backend.unisono, options={"rest": "eager"})(x, t), right, rtol=1e-4, atol=1e-4)
    with pytest.raises(u.UserError, match="expected a torch.nn.Module"):
        u.freeze(x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_graph_of_frozen_weights_packs_nothing():
    """Replays read the filters that were packed before the capture; the next call outside of graphs packs what has changed."""
    block = randomise(Block(channels=64, groups=8, inputs=64)).cuda().bfloat16().requires_grad_(False)
    x = torch.randn(2, 64, 16, 16, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    t = torch.randn(2, 8, device="cuda", dtype=torch.bfloat16)
    call = torch.compile(block, backend=backend.unisono, options={"frozen": True, "without": ("networks",), "minimum_gain": -1.0})
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(3):
                call(x, t)
        stream.synchronize()
        assert backend.reports()[-1].regions == 2 and backend.reports()[-1].counts["filters packed at each call"] == 0
        with torch.cuda.graph(graph, stream=stream):
            y = call(x, t)
        graph.replay()
        torch.cuda.synchronize()
        first = y.clone()
        no_worse(first, block(x, t), copy.deepcopy(block).double()(x.double(), t.double()))
        block.c1.weight.mul_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, first)  # declared frozen
        no_worse(call(x, t), block(x, t), copy.deepcopy(block).double()(x.double(), t.double()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("last", [False, True])
def test_steps_of_an_optimizer_between_replays_of_a_cuda_graph(last):
    """What reorders a filter is a node of the graph: a replay reads the filter as it is then."""
    block = randomise(Block(channels=64, groups=8, inputs=64)).cuda().bfloat16()
    block = block.to(memory_format=torch.channels_last) if last else block
    x = torch.randn(2, 64, 16, 16, device="cuda", dtype=torch.bfloat16).contiguous(memory_format=torch.channels_last)
    t = torch.randn(2, 8, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(block, backend=backend.unisono)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(3):
                compiled(x, t)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            y = compiled(x, t)
        assert backend.reports()[-1].regions == 2, str(backend.reports()[-1])
        for change in CHANGES[:4]:
            change(block, x, t)
            graph.replay()
            torch.cuda.synchronize()
            no_worse(y, block(x, t), copy.deepcopy(block).double()(x.double(), t.double()), change.__name__)
