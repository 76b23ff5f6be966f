"""Weights that may change are constants of a network on a CPU (networks="any"), and no change of them is missed."""

import copy
import ctypes
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from models import Block, no_worse, randomise  # noqa: E402
from unisono import UserError  # noqa: E402
from unisono.pytorch import backend, whole  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    backend._reports.clear()


@pytest.fixture
def loads(monkeypatch):
    """How often constants were made of weights."""
    count, original = [], whole.Whole.load

    def load(self, inputs):
        count.extend([self] if self.static else [])
        original(self, inputs)

    monkeypatch.setattr(whole.Whole, "load", load)
    return count


def compiled(model, **more):
    return torch.compile(model, backend=backend.unisono, options={"networks": "any", "rest": "eager"}, **more)


def step_of(make):
    def step(block, x, t):
        optimiser = make(block.parameters())
        with torch.enable_grad():
            block(x, t).square().mean().backward()
        optimiser.step()
    return step


def others(block, seed=5):
    return randomise(copy.deepcopy(block), seed).state_dict()


def in_inference_mode(block, x, t):
    with torch.inference_mode():
        block.c1.weight.mul_(-1)


def lowest_bit(block, x, t):
    """By nobody whom PyTorch knows."""
    place = ctypes.c_uint32.from_address(block.n1.weight.data_ptr() + 4 * 3)
    place.value ^= 1 << 22  # of the mantissa the highest, so that the result tells


def two_in_turn(block, x, t):
    a, b = block.c1.weight.data, block.c1.weight.data.flip(0)
    a.copy_(b)


CHANGES = {
    "SGD": step_of(lambda p: torch.optim.SGD(p, lr=0.3)),
    "SGD, all at once": step_of(lambda p: torch.optim.SGD(p, lr=0.3, foreach=True)),
    "AdamW, fused": step_of(lambda p: torch.optim.AdamW(p, lr=0.1, fused=True)),
    "load_state_dict": lambda block, x, t: block.load_state_dict(others(block)),
    "load_state_dict, assigned": lambda block, x, t: block.load_state_dict(others(block, 6), assign=True),
    "in place": lambda block, x, t: block.c2.weight.add_(0.3),
    "inference_mode": in_inference_mode,
    ".data": lambda block, x, t: block.c2.weight.data.mul_(-1),
    "other .data": lambda block, x, t: setattr(block.c2.bias, "data", torch.randn_like(block.c2.bias)),
    "detach()": lambda block, x, t: block.time.weight.detach().neg_(),
    "numpy": lambda block, x, t: block.n2.bias.detach().numpy().__iadd__(1),
    "an address": lowest_bit,
    "the order": two_in_turn,
    "set_()": lambda block, x, t: block.c1.weight.set_(torch.randn_like(block.c1.weight)),
    "another tensor": lambda block, x, t: setattr(block.c1, "weight", nn.Parameter(torch.randn_like(block.c1.weight))),
    "another order of memory": lambda block, x, t: (block.to(memory_format=torch.channels_last), block.c1.weight.data.neg_()),
}


@pytest.mark.check
@pytest.mark.parametrize("always_inputs", (False, True), ids=("constants", "inputs"))
def test_no_change_is_missed(always_inputs, monkeypatch):
    """Neither where they are loaded again nor where they become inputs."""
    monkeypatch.setattr(whole, "LOADS", 0 if always_inputs else 1000)
    block, x, t = randomise(Block()), torch.randn(2, 3, 8, 8), torch.randn(2, 8)
    call = compiled(block)
    with torch.no_grad():
        before = call(x, t)
        for name, change in CHANGES.items():
            change(block, x, t)
            after, right = call(x, t), copy.deepcopy(block).double()(x.double(), t.double())
            no_worse(after, block(x, t), right, name)
            assert (after - before).norm() > 1e-3 * before.norm(), f"{name} changes too little to be seen"
            before = after
    assert all(r.counts == {"calls": 1} for r in backend.reports())


@pytest.mark.check
def test_buffers_and_weights_of_several_sizes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU()).eval()
    call = compiled(model, dynamic=True)
    images = [torch.randn(n, 3, 6, 5 + n) for n in (1, 2, 3)]
    with torch.no_grad():
        for change in (lambda: None, lambda: model[1].running_mean.data.add_(1), lambda: model[0].weight.data.neg_()):
            change()
            for x in images:
                torch.testing.assert_close(call(x), model(x), rtol=1e-4, atol=1e-5)


def test_weights_that_change_often_are_inputs(loads):
    conv, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 6)
    call = compiled(lambda x: F.silu(conv(x)))

    def calls(count, change):
        made = len(loads)
        for _ in range(count):
            change()
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-5)
        return len(loads) - made

    with torch.no_grad():
        assert calls(3, lambda: None) == 1
        assert calls(3, lambda: conv.weight.copy_(conv.weight.clone())) == 0, "written, and the same"
        assert calls(whole.LOADS, lambda: conv.weight.data.mul_(1.1)) == whole.LOADS
        assert calls(20, lambda: conv.bias.data.sub_(0.1)) == 0 and len(backend.reports()) == 2
        assert calls(whole.CALM - 1, lambda: None) == 0
        assert calls(20, lambda: None) == 1, "once they have stayed"
        assert calls(20, lambda: conv.bias.data.sub_(0.1)) == 0 and len(backend.reports()) == 2


@pytest.mark.parametrize("error", (UserError, whole.Unsupported))
def test_weights_of_which_nothing_can_be_made_again(monkeypatch, error):
    """What a network refuses of new weights, regions compute."""
    conv, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 6)
    call = compiled(lambda x: F.silu(conv(x)))

    def refuse(part, weights):
        raise error("these weights are no network")

    with torch.no_grad():
        call(x)
        monkeypatch.setattr(whole.Part, "load", refuse)
        for _ in range(2):
            conv.weight.data.mul_(-2)
            torch.testing.assert_close(call(x), F.silu(conv(x)), rtol=1e-4, atol=1e-4)
    assert len(backend.reports()) == 2 and backend.reports()[-1].regions == 1


@pytest.mark.parametrize("frozen", (False, True), ids=("given", "frozen"))
def test_threads_with_weights_of_their_own(frozen):
    """No thread computes with another's weights, whichever loads last."""
    conv, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 6)
    call = torch.compile(lambda x, weights: F.silu(torch.func.functional_call(conv, weights, x)), backend=backend.unisono,
                         options={"frozen": frozen, "networks": "frozen" if frozen else "any", "rest": "eager"})
    sets = [{n: nn.Parameter((i + 1) * p.detach()) for n, p in conv.named_parameters()} for i in range(2)]
    wrong = []

    def run(weights, right):
        with torch.no_grad():
            for _ in range(30 if frozen else 150):
                if not torch.allclose(call(x, weights), right, rtol=1e-4, atol=1e-5):
                    wrong.append(right)

    with torch.no_grad():  # not in the threads: functional_call changes the module while it runs
        rights = [F.silu(torch.func.functional_call(conv, weights, x)) for weights in sets]
        for weights in sets:
            call(x, weights)
    threads = [threading.Thread(target=run, args=given) for given in zip(sets, rights)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"{len(wrong)} results"
    assert all(r.counts == {"calls": 1} for r in backend.reports())


ROWS = {  # of products, and whether their matrix, (outputs, inputs), is read where it lies
    "few rows": (lambda x, w: F.linear(x, w), (8, 256), True),
    "few rows of several images": (lambda x, w: F.linear(x, w), (3, 2, 256), True),
    "one row": (lambda x, w: F.linear(x, w), (256,), True),
    "not turned": (lambda x, w: x @ w, (5, 320), True),
    "many rows": (lambda x, w: F.linear(x, w), (65, 256), False),
    "also rows of an embedding": (lambda x, w: F.linear(x, w) + F.embedding(torch.arange(8), w).sum(1, keepdim=True),
                                  (8, 256), True),
    "also read elsewhere": (lambda x, w: F.linear(x, w) + w.sum(1), (8, 256), False),
    "also the left operand": (lambda x, w: (F.linear(x, w), w @ x.T), (8, 256), False),
}


@pytest.mark.parametrize("name", ROWS)
def test_matrices_of_few_rows_are_read_where_they_lie(name, loads):
    """Nothing is copied, so that nothing is stale, and nothing is loaded again."""
    function, shape, is_in_place = ROWS[name]
    weight, x = nn.Parameter(torch.randn(320, 256)), torch.randn(shape)
    call = compiled(lambda x: function(x, weight))
    with torch.no_grad():
        for change in (lambda: None, lambda: weight.data.mul_(-2), lambda: weight.detach().numpy().__imul__(3),
                       lambda: setattr(weight, "data", torch.randn_like(weight))):
            change()
            mine, exact = call(x), function(x.double(), weight.double())
            for one, right in zip(*((t if isinstance(t, tuple) else (t,)) for t in (mine, exact)), strict=True):
                assert (one.double() - right).norm() <= 1e-6 * right.norm(), name
    assert len(loads) == (0 if is_in_place else 4) and len(backend.reports()) == 1


REGIONS = {
    "an option of regions": {"options": {"minimum_operators": 1}},
    "too many weights": {"bytes": 100},
    "unknown extents": {"dynamic": True},
    "gradients": {"trains": True},
    "switched off": {"options": {"networks": "frozen"}},
}


@pytest.mark.parametrize("why", ("", *REGIONS))
def test_inference_of_known_extents_is_a_network_by_itself(why, monkeypatch):
    case = REGIONS.get(why, {})
    monkeypatch.setattr(backend, "MOST_COPIED", case.get("bytes", backend.MOST_COPIED))
    model, x = nn.Sequential(nn.Conv2d(6, 8, 3), nn.SiLU(), nn.Conv2d(8, 4, 1)), torch.randn(3, 6, 5, 5)
    options = {"rest": "eager", **case.get("options", {})}
    call = torch.compile(model, backend=backend.unisono, options=options, dynamic=case.get("dynamic"))
    with torch.set_grad_enabled("trains" in case):
        for _ in range(2):
            torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
            with torch.no_grad():
                model[0].weight.mul_(2)
    (report,) = backend.reports()
    assert (report.kernels is None) == bool(why) and not report.note.startswith("not one network"), str(report)


class Shifted(nn.Conv2d):
    def __init__(self):
        super().__init__(1, 1, 1)
        self.shift = nn.Parameter(torch.randn(200, 200))

    def forward(self, x):
        return super().forward(x) + self.shift


SLOW = {
    "products": (lambda: nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 4)), (3, 6), "0% of the operations"),
    "little for many bytes": (Shifted, (1, 1, 200, 200), "160004 bytes"),
}


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("networks", (None, "any"))
def test_what_a_hash_would_slow_down_is_a_network_on_request(name, networks):
    make, shape, why = SLOW[name]
    model, x = make().eval(), torch.randn(shape)
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"rest": "eager", "networks": networks})
        torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
    (report,) = backend.reports()
    assert (report.kernels is None) == (networks is None) and (why in report.note) == (networks is None), str(report)


def test_a_full_disk_leaves_a_graph_to_regions(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole, "write_safetensors", full)
    model, x = nn.Conv2d(6, 8, 3), torch.randn(3, 6, 5, 5)
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"rest": "eager"})
        torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
    assert "No space left" in backend.reports()[-1].note


def test_inference_that_writes_is_regions_by_itself():
    class Counts(nn.Linear):
        def forward(self, x):
            self.bias.add_(1)
            return super().forward(x).relu()

    model, x = Counts(6, 8).requires_grad_(False), torch.randn(3, 6)
    with torch.no_grad():
        call = torch.compile(model, backend=backend.unisono, options={"rest": "eager"})
        for _ in range(2):
            mine, bias = call(x), model.bias.clone()
            torch.testing.assert_close(mine, F.linear(x, model.weight, bias).relu(), rtol=1e-5, atol=1e-5)
    assert backend.reports()[-1].note.startswith("not one network: the graph writes"), str(backend.reports()[-1])
