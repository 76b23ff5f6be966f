"""Runs a compiled kernel: at once on the CPU; on a GPU on PyTorch's current stream, bound once for each stream."""

from __future__ import annotations

import threading
from typing import Any

from ._native import Device, UserError
from .tensors import View, is_torch

# Executables that a CUDA graph may have captured must outlive it
_captured: list = []


def retire(plan: Any) -> None:
    """A plan that the cache drops; it lives on if a graph may replay it."""
    if plan.launcher.was_captured:
        _captured.append(plan)


def _native(value: View | float) -> Any:
    return value.native() if isinstance(value, View) else value


class Launcher:
    """How the kernel of one plan is run. On a GPU it has one bound launch, and a workspace, for each stream."""

    def __init__(self):
        self.was_captured = False
        self._bound: dict = {}
        self._lock = threading.Lock()

    def run(self, executable: Any, a: View, b: View, operands: dict, outputs: dict, like: Any) -> None:
        """Tensors are of the shapes, dtypes and strides that the plan was compiled for."""
        if a.device == Device.cpu:
            executable.run(a.native(), b.native(), {n: _native(v) for n, v in operands.items()},
                           outputs={n: v.native() for n, v in outputs.items()})
            return
        if not is_torch(like):
            raise UserError("tensors on a GPU are taken from PyTorch here; others go through Executable.enqueue()")
        import torch
        with torch.cuda.device(a.index):
            stream = torch.cuda.current_stream()
            if torch.cuda.is_current_stream_capturing():
                # a workspace of its own for each node, which the graph keeps
                self.was_captured = True
                executable.enqueue(a.native(), b.native(), {n: _native(v) for n, v in operands.items()},
                                   outputs={n: v.native() for n, v in outputs.items()}, stream=stream.cuda_stream)
                return
            self.enqueue(executable, a, b, operands, outputs, stream.cuda_stream,
                         lambda size: torch.empty(size, dtype=torch.uint8, device=like.device))

    def enqueue(self, executable: Any, a: View, b: View, operands: dict, outputs: dict, stream: int, allocate: Any) -> None:
        """On a GPU. allocate(bytes): a tensor of bytes there, ordered behind the stream."""
        signature = tuple((n, v.strides) for n, v in outputs.items())  # a caller's out= may lie otherwise
        with self._lock:
            bound = self._bound.get((stream, signature))
            if bound is None:
                size = executable.workspace_bytes
                workspace = allocate(size) if size else None
                launch = executable.bind(a.native(), b.native(), {n: _native(v) for n, v in operands.items()},
                                         outputs={n: v.native() for n, v in outputs.items()}, workspace=workspace,
                                         stream=stream)
                self._bound[stream, signature] = launch, workspace, self._slots(launch, a, operands, outputs)
            else:
                launch, _, slots = bound
                values = [a, b, *operands.values(), *outputs.values()]
                for slot, value in zip(slots, values):
                    if isinstance(value, View):
                        launch.rebind(slot, value.address)
                    else:
                        launch.rebind_scalar(slot, value)
            launch.enqueue(stream)

    @staticmethod
    def _slots(launch: Any, a: View, operands: dict, outputs: dict) -> list[int]:
        try:
            first = [launch.slot("image"), launch.slot("filter")]
        except UserError:
            first = [launch.slot("left"), launch.slot("right")]
        return first + [launch.slot(f"operand {n}") for n in operands] + [launch.slot(f"output {n}") for n in outputs]
