"""What PyTorch computes before, between and after networks: one by one, or as a graph that is compiled."""

from __future__ import annotations

from typing import Any, Callable, Container, Optional

import torch
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import map_arg

from .parts import Step, has_effect
from .results import overlaps

# Compiles a graph of ATen operators for inputs of known extents
Compiler = Callable[[GraphModule, list[torch.Tensor]], Callable[..., Any]]


def operators_of(step: Step) -> list[Node]:
    """Those that compute or move something."""
    return [n for n in step.nodes if isinstance(n.target, torch._ops.OpOverload) and not n.target.is_view]


def is_compiled(step: Step, compiler: Optional[Compiler]) -> bool:
    """One operator alone gains nothing. Random operators stay in eager mode: they draw its numbers."""
    return (compiler is not None and len(operators_of(step)) > 1 and not any(map(has_effect, step.nodes))
            and all(isinstance(n.meta.get("val"), torch.Tensor) for n in (*step.reads, *step.makes)))


class Foreign:
    """A step that is PyTorch's."""

    def __init__(self, step: Step, compiler: Optional[Compiler], of_networks: Container[Node]):
        """compiler: None leaves operators to eager mode. of_networks: values that networks make."""
        self.step = step
        self.run = self._one_by_one
        if is_compiled(step, compiler):
            self.compiled = self._compiled(compiler, of_networks)
            self.run = self._at_once

    def _one_by_one(self, values: dict[Node, Any]) -> None:
        own = dict(values)
        with torch._C._DisableAutocast():  # casts are operators of the program
            for node in self.step.nodes:
                args, kwargs = map_arg((node.args, node.kwargs), own.__getitem__)
                own[node] = node.target(*args, **kwargs)
        values.update((n, own[n]) for n in self.step.makes)

    def _at_once(self, values: dict[Node, Any]) -> None:
        with torch._C._DisableAutocast():
            made = self.compiled(*[values[n] for n in self.step.reads])
        values.update(zip(self.step.makes, made, strict=True))

    def _compiled(self, compiler: Any, of_networks: Container[Node]) -> Callable[..., Any]:
        graph = Graph()
        copies = {n: graph.placeholder(n.name) for n in self.step.reads}
        for node in self.step.nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[n] for n in self.step.makes))
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with tracing(None), torch.no_grad(), torch._C._DisableAutocast():
            with mode:
                inputs = [_alike(n.meta["val"], n in of_networks) for n in self.step.reads]
            return compiler(GraphModule(torch.nn.Module(), graph), inputs)


def _alike(tensor: torch.Tensor, is_of_network: bool) -> torch.Tensor:
    """A tensor of this fake mode that lies as the one that it stands for when the program runs."""
    dense = is_of_network and overlaps(tensor)  # Part.like
    strides = torch.empty(tensor.shape, device="meta").stride() if dense else tensor.stride()
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
