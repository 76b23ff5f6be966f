"""networks="any" where a graph is more than a function of tensors of one size: it writes its inputs, its extents or numbers change,
operators that networks lack stand between layers of training graphs."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from as_networks import compiled as compiled_as_networks, fresh  # noqa: F401
from torch import nn
from torch.utils.checkpoint import checkpoint

from unisono.pytorch import backend

compiled = functools.partial(compiled_as_networks, fullgraph=True)


def step(model, call, inputs, trains):
    """Results, gradients, what inputs and buffers are afterwards."""
    given = [x.clone().requires_grad_(trains) for x in inputs]
    with torch.set_grad_enabled(trains):
        results = call(*given)
    results = results if isinstance(results, tuple) else (results,)
    if trains:
        model.zero_grad()
        sum(y.square().sum() for y in results).backward()
    gradients = [t.grad for t in (*given, *model.parameters()) if t.grad is not None]
    return [t.detach().clone() for t in (*results, *gradients, *given, *model.buffers()) if t.is_floating_point()]


def agree(model, call, *inputs, trains=True):
    """Each number is as right as eager mode's."""
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    right = step(exact, exact, [x.double() for x in inputs], trains)
    theirs, mine = step(eager, eager, inputs, trains), step(model, call, inputs, trains)
    for w, o, f in zip(right, theirs, mine, strict=True):
        assert f.dtype == o.dtype and f.shape == o.shape and f.stride() == o.stride()
        off, noise = (f.double() - w).norm().item(), (o.double() - w).norm().item()
        assert off <= max(3 * noise, 1e-6 * w.norm().item()), (f.shape, off, noise)


def kinds(note=""):
    assert all(r.note.startswith(note) if note else "not one network" not in r.note for r in backend.reports()), "\n".join(map(str, backend.reports()))
    return [r.kind for r in backend.reports()]


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3))


@pytest.mark.check
@pytest.mark.parametrize("dynamic", (True, None))
def test_training_of_changing_extents(dynamic):
    """A forward and a backward network for each set of extents; eps of the norm may change, too, as far as Dynamo knows."""
    model = convolutions()
    call = compiled(model, dynamic=dynamic)
    for shape in ((2, 3, 8, 7), (3, 3, 8, 7), (2, 3, 9, 5), (2, 3, 8, 7)):
        agree(model, call, torch.randn(shape))
    assert kinds() == ["forward", "backward"] * (3 if dynamic else 4)


@pytest.mark.check
def test_extents_behind_the_first_sets_are_regions(monkeypatch):
    from unisono.pytorch import whole
    monkeypatch.setattr(whole, "MOST_SIZES", 2)
    model = convolutions()
    call = compiled(model, dynamic=True)
    for n in (2, 3, 4, 5):
        agree(model, call, torch.randn(n, 3, 6, 5))
    notes = [r.note for r in backend.reports()]
    assert len(notes) == 6 and all("kernel" in n or "operators" in n for n in notes[:4]) and notes[4:] == ["", ""], notes


class Scaled(nn.Linear):
    def forward(self, x, factor):
        return super().forward(x) * factor


def test_numbers_that_change():
    model = Scaled(6, 5)
    call = compiled(model, dynamic=True)
    x = torch.randn(3, 6)
    for factor in (0.5, 1.5, 0.5):
        torch.testing.assert_close(call(x, factor), model(x, factor))
    assert kinds() == ["forward"] * 2


class Between(nn.Module):
    """Two layers with an operator between them that networks lack, and a value that skips it."""

    def __init__(self, function):
        super().__init__()
        self.first, self.last = (nn.Sequential(*(nn.Linear(6, 6) for _ in range(9))) for _ in range(2))
        self.function = function

    def forward(self, x):
        y = self.first(x)
        return self.last(self.function(y) + y), y.t()


FOREIGN = {
    "no translation": (lambda x: torch.erfinv(0.5 * torch.tanh(x)), (2, 2)),
    "another type": (lambda x: (x.double() @ x.double().t() @ x.double()).float(), (2, 2)),
    "a view": (lambda x: torch.special.bessel_j1(x).t().contiguous().t(), (2, 2)),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_operators_that_networks_lack_between_layers_that_train(name):
    function, networks = FOREIGN[name]
    model = Between(function)
    agree(model, compiled(model), torch.randn(4, 6))
    assert kinds() == ["forward", "backward"]
    assert tuple(r.counts["calls"] for r in backend.reports()) == networks, "\n".join(map(str, backend.reports()))


class Writes(nn.Module):
    """Writes a buffer and an input, and returns both, a view of one, and a weight."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("seen", torch.randn(6))

    def forward(self, x, cache):
        y = F.relu(self.layer(x))
        self.seen.mul_(0.5).add_(y.mean(0))
        cache[1:].add_(y[:-1])
        return self.layer(y) * cache.sum(), cache, cache[1:], y.t(), self.layer.weight


@pytest.mark.parametrize("dynamic", (None, True))
def test_inputs_and_buffers_that_are_written(dynamic):
    model = Writes()
    call = compiled(model, dynamic=dynamic)
    for n in (4, 5, 4):
        agree(model, call, torch.randn(n, 6), torch.randn(n, 6), trains=False)
    x, cache = torch.randn(4, 6), torch.randn(4, 6)
    with torch.no_grad():
        made = call(x, cache)
    assert made[1] is cache and made[2]._base is cache and made[4] is model.layer.weight
    assert set(kinds()) == {"inference"}


def test_what_is_computed_again_for_the_backward_pass():
    class Again(Between):
        def forward(self, x):
            return self.last(F.dropout(checkpoint(self.first, x, use_reentrant=False), 0.0))

    model = Again(None)
    agree(model, compiled(model), torch.randn(4, 6))
    assert kinds() == ["forward", "backward"]


@pytest.mark.parametrize("norm", (lambda x, v: F.group_norm(x, 2, v, v), lambda x, v: F.batch_norm(x, v, v.abs() + 1, v, v),
                                  lambda x, v: F.instance_norm(x, weight=v, bias=v), lambda x, v: torch.layer_norm(x.mT, (4,), v[:4], v[:4])))
def test_norms_whose_weights_are_wider_than_the_image(norm):
    """In the weights' type, and rounded once; eps is not always given."""
    x, filters, vectors = torch.randn(2, 3, 6, 6), torch.randn(8, 3, 3, 3), torch.randn(8)
    with torch.no_grad():
        mine = compiled(lambda x: norm(F.conv2d(x, filters).bfloat16(), vectors))(x)
        right = norm(F.conv2d(x, filters).bfloat16().double(), vectors.double())
    assert kinds() == ["inference"] and mine.dtype == torch.bfloat16
    assert (mine.double() - right).norm() <= 2.0**-8 * right.norm()


class Narrowed(nn.Module):
    def forward(self, x):
        return x.to(torch.bfloat16)


@pytest.mark.parametrize("norm, shape", ((nn.LayerNorm(3), (4, 32, 2)), (nn.GroupNorm(1, 3), (128, 2)), (nn.BatchNorm1d(3), (4, 2))))
def test_gradients_through_statistics_of_few_numbers(norm, shape):
    """They cancel but for what mean and rstd have beyond 16 bits."""
    model = nn.Sequential(nn.Linear(2, 3), Narrowed(), norm)
    x = torch.randn(shape)

    def gradient(model, call, x):
        leaf = x.clone().requires_grad_()
        y = call(leaf)
        (y.double() * torch.arange(y.numel()).view(y.shape)).sum().backward()
        return leaf.grad

    theirs = gradient(model, copy.deepcopy(model), x)
    assert (gradient(model, compiled(model), x) - theirs).norm() <= 2.0**-9 * theirs.norm()
    assert kinds() == ["forward", "backward"]


def test_a_summand_does_not_give_its_strides():
    class Summed(nn.Module):
        def forward(self, x):
            return torch.baddbmm(x, x, x.mT @ x, alpha=0.5)

    model = Summed()
    agree(model, compiled(model), torch.randn(8, 7, 1).transpose(0, 2))
    assert kinds() == ["forward", "backward"]


def test_weights_that_are_frozen_have_no_gradients():
    with pytest.raises(Exception, match="frozen=True: .* gradient; expected torch.no_grad"):
        x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
        torch.compile(convolutions(), backend=backend.unisono, options={"frozen": True, "networks": "any"})(x)
