"""Kernels of a GPU are compiled while the rest of their graph is. What compiles is a stand-in: no GPU is needed."""

import threading
from types import SimpleNamespace
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
import planned  # noqa: E402
import torch.nn as nn  # noqa: E402

import unisono as u  # noqa: E402
from unisono.pytorch import backend, judge  # noqa: E402
from unisono.pytorch.fuse import Limits, fuse  # noqa: E402
from unisono.pytorch.precision import KINDS  # noqa: E402

if torch.cuda.is_available():
    pytest.skip("plans of fake tensors are made for an H200, where there is no GPU", allow_module_level=True)

OPTIONS = {**backend.OPTIONS, "tf32": KINDS, "note": ""}  # as the backend completes them


class Layers(nn.Module):
    """Three convolutions, of which two have the same kernel."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(64, k, 3, padding=1) for k in (64, 64, 128)))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def graph():
    return planned.graph_of(lambda: (Layers(), [torch.randn(2, 64, 32, 32)]))


def compiled_by(function):
    """Kernels are compiled by `function`, as if there were a GPU."""
    there = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: True))
    stand_in = SimpleNamespace(parse=judge._native.parse, explain=judge._native.explain, compile=function)
    return mock.patch.multiple(judge, torch=there, _native=stand_in)


def test_equal_kernels_are_compiled_once():
    seen = []
    with compiled_by(lambda contraction, text, **options: seen.append(f"{contraction}")), judge.Kernels() as kernels:
        rows = fuse(graph(), Limits(), kernels)
        kernels.wait()
    assert all(row["taken"] for row in rows) and len(rows) == 3
    assert sorted(seen) == ["conv2d 2x32x32x64 -> 128, 3x3, pad 1, bf16", "conv2d 2x32x32x64 -> 64, 3x3, pad 1, bf16"]


def test_the_rest_does_not_wait_for_kernels():
    """Kernels that only come to an end when the rest of the graph is compiled: one that waited would never be."""
    rest, threads = threading.Event(), set()

    def build(*_, **__):
        threads.add(threading.current_thread())
        assert rest.wait(60), "the rest of the graph waits for kernels"

    with compiled_by(build):
        found = backend._fused(graph(), OPTIONS, "inference", lambda: rest.set() or "the rest")
    assert found == "the rest" and threads and threading.main_thread() not in threads
    assert list(backend.reports()[-1].seconds) == ["regions", "rest", "kernels"]


def test_errors_of_kernels_are_raised():
    def build(*_, **__):
        raise u.CompileError("no such instruction")

    with compiled_by(build), pytest.raises(u.CompileError, match="no such instruction"):
        backend._fused(graph(), OPTIONS, "inference", lambda: None)


def test_kernels_of_a_graph_that_fails_are_given_up():
    """Those at work are waited for: they may not load modules when nobody expects it. The others do not begin."""
    begun, ended, failed = [], [], threading.Event()

    def build(contraction, *_, **__):
        begun.append(contraction)
        assert failed.wait(60)
        ended.append(contraction)

    def fail():
        threading.Timer(0.2, failed.set).start()
        raise ZeroDivisionError

    with compiled_by(build), mock.patch.object(judge.os, "cpu_count", lambda: 2), pytest.raises(ZeroDivisionError):
        backend._fused(graph(), OPTIONS, "inference", fail)
    assert len(begun) == 1 and begun == ended
