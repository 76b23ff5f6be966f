"""Writes nodes into a graph of fake tensors."""

from __future__ import annotations

import functools
import operator
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
        """A number, a node that has it, or new ones that compute it; -1, which a view infers, where nobody can."""
        found = self._computed(shapes.expression_of(extent), tensors)
        return -1 if found is None else found

    def _computed(self, wanted: Any, tensors: list[Node]) -> Any:
        if isinstance(wanted, int) or getattr(wanted, "is_Integer", False):
            return int(wanted)
        for node in self.graph.find_nodes(op="placeholder"):
            if isinstance(node.meta.get("val"), torch.SymInt) and shapes.expression_of(node.meta["val"]) == wanted:
                return node
        for node in (*tensors, *self.graph.find_nodes(op="placeholder")):
            for i, found in enumerate(shape_of(node) if is_tensor(node) else ()):
                if shapes.expression_of(found) == wanted:
                    return self.call(aten.sym_size.int, (node, i))
        parts = [self._computed(part, tensors) for part in _operands(wanted)]
        if not parts or None in parts:
            return None
        target = OPERATORS[type(wanted).__name__]
        return functools.reduce(lambda x, y: self.call(target, (x, y)), parts)


# What extents are computed of, by the name of the expression
OPERATORS = {"Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv, "Pow": operator.mul}


def _operands(expression: Any) -> tuple:
    """Expressions that its operator joins; none where there is no such operator."""
    name = type(expression).__name__
    if name == "Pow":
        base, power = expression.args
        return (base,) * int(power) if power.is_Integer and 1 < power < 9 else ()
    return tuple(expression.args) if name in OPERATORS else ()


def fix_order(node: Node) -> None:
    """Has Inductor keep the order of memory of what an operator reads, in which its kernel was planned: for operators
    that it has not traced it is free in it otherwise."""
    node.meta["eager_input_vals"] = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda n: n.meta["val"])


def mode_of(module: GraphModule) -> Optional[FakeTensorMode]:
    from torch._guards import detect_fake_mode
    return detect_fake_mode([n.meta["val"] for n in module.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)])
