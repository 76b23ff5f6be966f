"""Functions and modules compiled by the backend, compared with eager mode and float64."""

import copy

import pytest
import torch
import torch.nn as nn
from models import no_worse

from unisono.pytorch import backend

KINDS = [torch.float32, torch.bfloat16, torch.float16]
LAST = torch.channels_last


@pytest.fixture(autouse=True)
def regions_alone(monkeypatch):
    """On a CPU, too, graphs become regions where a test asks for nothing else."""
    monkeypatch.setitem(backend.OPTIONS, "networks", "frozen")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def run(function, *inputs, regions, dtype=torch.float32, **options):
    """The last report; results are no worse than 1.5 times eager mode's in that dtype, and have its strides."""
    inputs = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
    exact = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    module = function.to(dtype) if isinstance(function, nn.Module) else function
    with torch.no_grad():
        right = exact(*(t.double() if t.is_floating_point() else t for t in inputs))
        theirs = module(*inputs)
        options = {"rest": "eager", "minimum_operators": 0, **options}
        compiled = torch.compile(module, backend=backend.unisono, options=options, fullgraph=True)
        mine, again = compiled(*inputs), compiled(*inputs)
    report = backend.reports()[-1]
    assert report.regions == regions, str(report)
    for one, twice, other, best in zip(*(x if isinstance(x, tuple) else (x,) for x in (mine, again, theirs, right))):
        no_worse(one, other, best, str(report))
        assert one.stride() == other.stride(), (one.stride(), other.stride())
        assert torch.equal(one, twice), "not the same from call to call"
    return report


def last(module, *inputs):
    return module.to(memory_format=LAST), *(t.contiguous(memory_format=LAST) for t in inputs)


def norm(x):
    return x.double().flatten().norm()


def run_as_given(function, *inputs, regions, **options):
    """As `run`, of tensors of any dtypes, by the backend's own options but for who runs the rest; once."""
    exact = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    with torch.no_grad():
        expected = exact(*(t.double() if t.is_floating_point() else t for t in inputs))
        eager = function(*(t.clone() for t in inputs))
        result = torch.compile(function, backend=backend.unisono, options={"rest": "eager", **options}, fullgraph=True)(*inputs)
    report = backend.reports()[-1]
    assert report.regions == regions, str(report)
    single = not isinstance(result, (tuple, list))
    for mine, theirs, right in zip(*([x] if single else x for x in (result, eager, expected))):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype and mine.stride() == theirs.stride()
        unit = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-9, torch.float16: 2.0**-12}[mine.dtype]
        assert norm(mine.double() - right) <= max(1.5 * norm(theirs.double() - right), 2 * unit * norm(right)), str(report)
    return report
