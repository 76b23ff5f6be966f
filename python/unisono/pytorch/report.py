"""The report of one compiled graph: which contractions became regions, and why others did not."""

from __future__ import annotations

import json
import operator
from typing import Any, Callable, Sequence

import torch

from .expressions import HANDLERS, is_widening
from .frozen import copied_tensors, packed_filters
from .anchors import BACKWARD_CONTRACTIONS, CONTRACTIONS
from .library import FUSED
from .page import page_of
from .regions import aten, is_copy


class Report:
    """str() gives the text for people, to_html() a page to explore. `rows`, `counts`, `before`, `after` (the nodes of
    the graph, as text), `nodes` (kernels, networks, PyTorch's operators and copies, with what they read), `seconds` and
    to_json() are for programs."""

    def __init__(
        self,
        rows: list[dict],
        note: str = "",
        kind: str = "inference",
        counts: dict | None = None,
        before: list[str] | None = None,
        after: list[str] | None = None,
        seconds: dict[str, float] | None = None,
        kernels: int | None = None,
        nodes: list[dict] | None = None,
        problems: dict[str, Any] | None = None,
        networks: Sequence[Callable[[], Any]] = (),
    ):
        self.rows, self.note, self.kind, self.counts = rows, note, kind, counts or {}
        self.measured_us: dict[str, float] = {}  # of a call by networks and by regions, if both were timed
        self.before, self.after = before or [], after or []
        # Seconds that compiling took: "regions" to find them, "rest" in PyTorch, "kernels" to wait for them after that
        self.seconds = {} if seconds is None else seconds
        self.kernels = kernels  # of a graph that is one network
        self.nodes, self._problems, self._networks = nodes or [], problems or {}, networks  # as page_of() has them

    @property
    def regions(self) -> int:
        """The number of Unisono's kernels that the graph, or the network that replaces it, calls."""
        if self.kernels is not None:
            return self.kernels
        return sum(row["taken"] and "part_of" not in row for row in self.rows)

    @property
    def share_of_flop(self) -> float:
        """The share of floating-point operations, of all contractions that could be regions, that are in regions; 1 if
        there are no such contractions."""
        whole = sum(row.get("flop", 0) for row in self.rows)
        return sum(row.get("flop", 0) for row in self.rows if row["taken"]) / whole if whole else 1.0

    @property
    def left(self) -> list[dict]:
        """The rows of contractions that could be regions but are left to PyTorch."""
        return [row for row in self.rows if not row["taken"] and row["operator"] not in map(str, BACKWARD_CONTRACTIONS)]

    def to_json(self) -> str:
        return json.dumps(
            {
                "graph": self.kind,
                "regions": self.regions,
                "share_of_flop": self.share_of_flop,
                "note": self.note,
                "counts": self.counts,
                "seconds": self.seconds,
                "measured_us": self.measured_us,
                "contractions": self.rows,
                "before": self.before,
                "after": self.after,
                "nodes": self.nodes,
            },
            indent=1,
        )

    def to_html(self) -> str:
        """A page that shows the graph, as `unisono explain --html` writes it: one file, which fetches nothing. Networks
        are planned again for it, so the compiled model must still be there. Raises Unsupported if it is not, or if this
        build has no pages."""
        note = "" if self._networks else self.note
        return page_of(f"PyTorch: {self.kind} graph", note, self.nodes, self.rows, self._problems, self._networks)

    def __str__(self) -> str:
        taken = sum(row["taken"] for row in self.rows)
        kernels = "one kernel each" if taken == self.regions else f"{self.regions} kernels"
        lines = [f"unisono: {taken} of {len(self.rows)} contractions with their epilogues as {kernels} ({self.kind})"]
        lines += [self.note] if self.note else []
        for row in self.rows:
            lines.append(
                f"  {row['anchor']}: {row['operator']} {row['shape']} {row['dtype']}: "
                + (
                    f"in {row['part_of']}'s kernel"
                    if "part_of" in row and row["taken"]
                    else "one kernel with " + ", ".join(row["fused"])
                    if row["taken"]
                    else "left to PyTorch"
                )
            )
            if "predicted_us" in row:
                lines.append(
                    f"      predicted: {row['predicted_us']} µs, PyTorch's kernels {row['predicted_us_of_pytorch']} µs"
                )
            if "plan" in row:
                lines.append(f"      plan: {row['plan']}, chosen by: {row['plan_from']}")
            lines.append("      ends: " + row["ends"].replace("\n", "\n      "))
        for name, value in self.counts.items():
            if value:
                lines.append(
                    f"  {name}: "
                    + ("".join(f"\n      {one}" for one in value) if isinstance(value, list) else str(value))
                )
        if self.measured_us:
            lines.append("  measured: " + ", ".join(f"{name} {us:.1f} µs" for name, us in self.measured_us.items()))
        if self.seconds:
            lines.append("  seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in self.seconds.items()))
        return "\n".join(lines)


def nodes_of(module: torch.fx.GraphModule) -> list[str]:
    """The graph as a list of texts, each with the shape and dtype of its value."""

    def text(node: Any) -> str:
        value = node.meta.get("val")
        about = (
            f"  # {str(value.dtype).removeprefix('torch.')} {list(map(str, value.shape))}".replace("'", "")
            if isinstance(value, torch.Tensor)
            else ""
        )
        return (node.format_node() or node.name) + about

    return [text(n) for n in module.graph.nodes if n.op != "placeholder"]


NORMS = (
    aten.native_group_norm.default,
    aten.native_layer_norm.default,
    aten.native_batch_norm.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten.var.correction,
)


def _is_work(node: Any) -> bool:
    """Whether it is an elementwise or normalising kernel, one of those that no epilogue has here, too. No views, and no
    casts that their readers make on the way."""
    if (
        node.op != "call_function"
        or getattr(node.target, "is_view", False)
        or is_widening(node)
        or not node.all_input_nodes
    ):
        return False
    known = node.target in HANDLERS and node.target is not operator.getitem
    return (
        known
        or node.target in NORMS
        or bool({torch.Tag.pointwise, torch.Tag.reduction} & set(getattr(node.target, "tags", ())))
    )


def _produced_by(node: Any) -> Any:
    """The node whose result, or a view, a cast or a copy of it, a node is."""
    while is_copy(node) or is_widening(node):
        node = node.args[0]
    return node


def _computed(module: torch.fx.GraphModule) -> set:
    """All nodes that depend on a contraction."""
    found: set = set()
    for node in module.graph.nodes:
        if node.target in (*FUSED, *CONTRACTIONS, *BACKWARD_CONTRACTIONS) or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _only_producer(node: Any, computed: set) -> Any:
    """The call or contraction of which a node reads results, if it reads nothing else that depends on contractions; or
    None."""
    found = {_produced_by(n) for n in node.all_input_nodes if n in computed}
    return found.pop() if len(found) == 1 and next(iter(found)).target in (*FUSED, *CONTRACTIONS) else None


def _standalone(module: torch.fx.GraphModule, rows: Sequence[dict]) -> list[str]:
    """Kernels of PyTorch that one contraction's kernel could have had, each with the reason."""
    by_producer = {row.get("call", row["anchor"]): row for row in rows if "part_of" not in row}
    found, computed = [], _computed(module)
    for node in filter(_is_work, module.graph.nodes):
        if (producer := _only_producer(node, computed)) is not None:
            behind = (
                "a copy into another order of memory"
                if node.target is aten.clone.default
                else "an earlier operation writes in place"
            )
            row = by_producer.get(producer.name, {})
            why = row.get("left", {}).get(node.name) or ("" if row.get("taken") else row.get("ends")) or behind
            found.append(f"{node.name} ({node.target}): {why}")
    return found


def count(module: torch.fx.GraphModule, rows: Sequence[dict] = ()) -> dict:
    """Of a graph in which regions are calls: those, contractions that are left, conversions of memory order, and
    operations that read the results of one contraction and nothing else that contractions give, which a region could
    have had. rows: of the report, for reasons."""
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    return {
        "calls": sum(n.target in FUSED for n in nodes),
        "contractions left": sum(n.target in CONTRACTIONS for n in nodes),
        "backward contractions": sum(n.target in BACKWARD_CONTRACTIONS for n in nodes),
        "conversions": sum(n.target is aten.clone.default and _produced_by(n.args[0]).target in FUSED for n in nodes),
        "filters packed at each call": packed_filters(module),
        "tensors copied before each launch": copied_tensors(module),
        "standalone after a contraction": _standalone(module, rows),
    }
