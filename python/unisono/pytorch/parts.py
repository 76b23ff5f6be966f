"""A program cut into networks and what PyTorch computes between them.

An operator that networks lack is *foreign*: PyTorch runs it. Each node has a stage. The network of a stage runs ahead
of the stage's foreign operators, and those before the next network, so that no two steps need each other. What
depends on weights alone is a part of each step that reads it.
"""

from __future__ import annotations

from typing import Any, Container, Iterable, NamedTuple, Sequence

import torch
from torch.fx import Graph, Node

BEFORE = -1  # the stage of inputs, and of foreign operators that read nothing else


class Step(NamedTuple):
    nodes: list[Node]  # in the program's order
    is_network: bool
    reads: list[Node]  # inputs of the program and results of earlier steps
    makes: list[Node]  # that later steps, or the program's results, are made of


def has_effect(node: Node) -> bool:
    """Whether it must run once, in its order: random operators, assertions, anything that writes."""
    tags = getattr(node.target, "tags", ())
    schema = getattr(node.target, "_schema", None)
    return node.is_impure() or torch.Tag.nondeterministic_seeded in tags or schema is not None and schema.is_mutable


def results_of(graph: Graph) -> list[Any]:
    (given,) = graph.output_node().args
    return list(given) if isinstance(given, (tuple, list)) else [given]


class Stages:
    """results: nodes that are asked for; served: those that networks have; constant: placeholders of weights: what
    depends on them alone is in each step that reads it."""

    def __init__(self, graph: Graph, results: Iterable[Node], served: Container[Node], constant: Container[Node]):
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.results = set(results)
        live = set(self.results)
        for node in reversed(graph.nodes):
            if node in live or node.op == "call_function" and node not in served and has_effect(node):
                live.update([node, *node.all_input_nodes])
        self.calls = [n for n in graph.nodes if n.op == "call_function" and n in live]
        self.is_served = {n: n in served for n in self.calls}
        self.fixed = {n for n in graph.nodes if n.op == "placeholder" and n in constant}
        for node in self.calls:
            if self.is_served[node] and self.fixed.issuperset(node.all_input_nodes):
                self.fixed.add(node)
        self.stage: dict[Node, int] = {}
        last = BEFORE
        for node in [n for n in self.calls if n not in self.fixed]:
            self.stage[node] = stage = self._stage_of(node, last if has_effect(node) else BEFORE)
            last = stage if has_effect(node) else last

    def _stage_of(self, node: Node, least: int) -> int:
        """A network's stage: after all foreign operators that it reads. A foreign operator's: after networks."""
        found = BEFORE + 1 if self.is_served[node] else least
        for read in node.all_input_nodes:
            if read not in self.fixed:
                waits = self.is_served[node] and not self.is_served.get(read, False)  # for a foreign one, or an input
                found = max(found, self.stage.get(read, BEFORE) + waits)
        return found

    def of(self, stage: int, is_network: bool) -> list[Node]:
        return [n for n, s in self.stage.items() if s == stage and self.is_served[n] == is_network]

    def stages(self) -> range:
        return range(BEFORE, max(self.stage.values(), default=BEFORE) + 1)

    def step(self, own: Iterable[Node], is_network: bool) -> Step:
        """own, and what they read of constants alone, in the program's order."""
        asked, found = set(own), set(own)
        waiting = list(found)
        while waiting:
            for node in waiting.pop().all_input_nodes:
                if node in self.fixed and node.op == "call_function" and node not in found:
                    found.add(node)
                    waiting.append(node)
        nodes = sorted(found, key=self.order.__getitem__)
        reads = {read: None for n in nodes for read in n.all_input_nodes if read not in found}
        makes = [n for n in nodes if n in asked and (n in self.results or not found.issuperset(
            user for user in n.users if user in self.stage))]
        return Step(nodes, is_network, list(reads), makes)

    def steps(self) -> list[Step]:
        """Results that are made of constants alone are the last network's."""
        own = [(is_network, nodes) for stage in self.stages() for is_network in (True, False)
               if (nodes := self.of(stage, is_network))]
        if alone := [n for n in self.calls if n in self.fixed and n in self.results]:
            last = max((i for i, (is_network, _) in enumerate(own) if is_network), default=None)
            if last is None:
                own.append((False, alone))
            else:
                own[last][1].extend(alone)
        return [self.step(nodes, is_network) for is_network, nodes in own]


def cut(graph: Graph, results: Sequence[Node], served: set[Node], constant: Container[Node],
        contractions: Container[Any]) -> list[Step]:
    """The steps in order. A part without a contraction is left to PyTorch."""
    while True:
        stages = Stages(graph, results, served, constant)
        networks = [stages.of(stage, True) for stage in stages.stages()]
        small = {n for nodes in networks if not any(n.target in contractions for n in nodes) for n in nodes}
        if not small:
            return stages.steps()
        served = served - small
