"""Which of several ways to compute an inference graph is the fastest, by running them."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Sequence

import torch

ROUNDS = 5
LEAST_US = 2000.0  # of a measurement


def fastest(ways: dict[str, Callable], inputs: Sequence[Any], device: torch.device) -> tuple[str, dict[str, float]]:
    """The name of the fastest, and the microseconds of a call of each: medians of calls in a row, as a program makes
    them. Random numbers that the ways draw are drawn again later."""
    index = [] if device.type == "cpu" else [torch.cuda.current_device() if device.index is None else device.index]
    with torch.random.fork_rng(index), torch.no_grad():
        for way in ways.values():
            for _ in range(3):
                way(*inputs)
        calls = {name: max(1, int(LEAST_US / max(1.0, _us(way, inputs, 1, device)))) for name, way in ways.items()}
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                found[name].append(_us(way, inputs, calls[name], device))
    medians = {name: statistics.median(us) for name, us in found.items()}
    return min(medians, key=medians.__getitem__), medians


def _us(way: Callable, inputs: Sequence[Any], calls: int, device: torch.device) -> float:
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        way(*inputs)
    wait(device)
    return 1e6 * (time.perf_counter() - start) / calls
