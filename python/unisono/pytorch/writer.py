"""Writes nodes into a graph of fake tensors."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from . import shapes
from .library import FUSED
from .regions import aten, is_tensor, shape_of


class Writer:
    """Writes nodes into a graph, each with the value that it has for the example."""

    def __init__(self, graph: Graph, mode: Optional[FakeTensorMode]):
        self.graph, self.mode = graph, mode

    def call(self, target: Any, args: tuple, kwargs: Optional[dict] = None) -> Node:
        node = self.graph.call_function(target, args, kwargs or {})
        values = torch.fx.map_arg((args, kwargs or {}), lambda n: n.meta["val"])
        if self.mode is not None:
            with self.mode:
                node.meta["val"] = target(*values[0], **values[1])
        else:
            node.meta["val"] = target(*values[0], **values[1])
        if target in FUSED:
            fix_order(node)
        return node

    def reshape(self, x: Node, shape: tuple, readers: list[Node]) -> Node:
        """A tensor in another shape, whose unknown extents are read from nodes that are there."""
        if tuple(map(shapes.expression_of, shape_of(x))) == tuple(map(shapes.expression_of, shape)):
            return x
        extents = [e if isinstance(e, int) else self.extent(e, [x, *readers]) for e in shape]
        return self.call(aten.reshape.default, (x, extents))

    def extent(self, extent: Any, tensors: list[Node]) -> Any:
        wanted = shapes.expression_of(extent)
        if isinstance(wanted, int):
            return wanted
        for node in self.graph.find_nodes(op="placeholder"):
            if isinstance(node.meta.get("val"), torch.SymInt) and shapes.expression_of(node.meta["val"]) == wanted:
                return node
        for node in (*tensors, *self.graph.find_nodes(op="placeholder")):
            for i, found in enumerate(shape_of(node) if is_tensor(node) else ()):
                if shapes.expression_of(found) == wanted:
                    return self.call(aten.sym_size.int, (node, i))
        return -1


def fix_order(node: Node) -> None:
    """Has Inductor keep the order of memory of what an operator reads, in which its kernel was planned: for operators
    that it has not traced it is free in it otherwise."""
    node.meta["eager_input_vals"] = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: n.meta["val"])


def mode_of(module: GraphModule) -> Optional[FakeTensorMode]:
    from torch._guards import detect_fake_mode
    return detect_fake_mode([n.meta["val"] for n in module.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)])
