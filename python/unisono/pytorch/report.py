"""What became of the contractions of one compiled graph, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import torch

from .expressions import HANDLERS, is_widening
from .frozen import packed_filters
from .anchors import BACKWARD_CONTRACTIONS, CONTRACTIONS
from .library import FUSED
from .regions import aten


class Report:
    """str() is for people, `rows`, `counts`, `before`, `after` (the nodes of the graph, as text) and to_json() for programs."""

    def __init__(self, rows: list[dict], note: str = "", kind: str = "inference", counts: dict | None = None, before: list[str] | None = None,
                 after: list[str] | None = None):
        self.rows, self.note, self.kind, self.counts, self.before, self.after = rows, note, kind, counts or {}, before or [], after or []

    @property
    def regions(self) -> int:
        """Calls of Unisono in the graph."""
        return sum(row["taken"] and "part_of" not in row for row in self.rows)

    @property
    def share_of_flop(self) -> float:
        """Of the arithmetic of all contractions that could be regions, the part that is in regions; 1 if there are none."""
        whole = sum(row.get("flop", 0) for row in self.rows)
        return sum(row.get("flop", 0) for row in self.rows if row["taken"]) / whole if whole else 1.0

    @property
    def left(self) -> list[dict]:
        """Rows of contractions that a region could have had and that are left to PyTorch."""
        return [row for row in self.rows if not row["taken"] and row["operator"] not in map(str, BACKWARD_CONTRACTIONS)]

    def to_json(self) -> str:
        return json.dumps({"graph": self.kind, "regions": self.regions, "share_of_flop": self.share_of_flop, "note": self.note, "counts": self.counts,
                           "contractions": self.rows, "before": self.before, "after": self.after}, indent=1)

    def __str__(self) -> str:
        taken = sum(row["taken"] for row in self.rows)
        lines = [f"unisono: {taken} of {len(self.rows)} contractions with their epilogues as {'one kernel each' if taken == self.regions else f'{self.regions} kernels'} ({self.kind})"]
        lines += [self.note] if self.note else []
        for row in self.rows:
            lines.append(f"  {row['anchor']}: {row['operator']} {row['shape']} {row['dtype']}: "
                         + (f"in {row['part_of']}'s kernel" if "part_of" in row and row["taken"] else
                            "one kernel with " + ", ".join(row["fused"]) if row["taken"] else "left to PyTorch"))
            if "predicted_us" in row:
                lines.append(f"      predicted: {row['predicted_us']} µs, PyTorch's kernels {row['predicted_us_of_pytorch']} µs")
            lines.append("      ends: " + row["ends"].replace("\n", "\n      "))
        lines += [f"  {name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in self.counts.items() if value]
        return "\n".join(lines)


def nodes_of(module: torch.fx.GraphModule) -> list[str]:
    """The graph as a list of texts, each with the shape and dtype of its value."""
    def text(node: Any) -> str:
        value = node.meta.get("val")
        about = f"  # {str(value.dtype).removeprefix('torch.')} {list(map(str, value.shape))}".replace("'", "") if isinstance(value, torch.Tensor) else ""
        return (node.format_node() or node.name) + about
    return [text(n) for n in module.graph.nodes if n.op != "placeholder"]


def _is_work(node: Any) -> bool:
    return node.op == "call_function" and node.target in HANDLERS and getattr(node.target, "is_view", False) is False \
        and getattr(node.target, "__name__", "") != "getitem" and not is_widening(node)


def _produced_by(node: Any) -> Any:
    """The call or contraction whose result, or a view of it, a node is."""
    while getattr(node.target, "__name__", "") == "getitem" or getattr(node.target, "is_view", False) or is_widening(node):
        node = node.args[0]
    return node


def count(module: torch.fx.GraphModule) -> dict:
    """Of a graph in which regions are calls: those, contractions that are left, conversions of memory order, and operations
    with nothing but the result of one contraction for a tensor, which a region could have had."""
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    anchors = (*FUSED, *CONTRACTIONS)
    alone = [f"{n.name} ({n.target})" for n in nodes
             if _is_work(n) and {_produced_by(i).target for i in n.all_input_nodes} & set(anchors) and len(n.all_input_nodes) == 1]
    return {"calls": sum(n.target in FUSED for n in nodes), "contractions left": sum(n.target in CONTRACTIONS for n in nodes),
            "backward contractions": sum(n.target in BACKWARD_CONTRACTIONS for n in nodes),
            "conversions": sum(n.target is aten.clone.default and _produced_by(n.args[0]).target in FUSED for n in nodes),
            "filters packed at each call": packed_filters(module), "standalone behind a contraction": alone}
