"""What a graph became, as nodes that read one another: kernels, networks, PyTorch's operators and copies."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import torch
from torch.fx import Graph, GraphModule, Node

from .concatenations import COPY_INTO, INTO
from .frozen import copies_of
from .library import CONVOLUTIONS, FUSED
from .parts import results_of
from .regions import REPLACES, aten, is_copy, is_size, is_tuple

# Operators that compute nothing, by the names of their packets
MOVES = {"clone", "copy", "copy_", "copy_into", "_to_copy", "convert_element_type", "cat", "constant_pad_nd", "repeat",
         "index_select",
         "gather", "embedding", "slice_scatter", "select_scatter"}
# Which argument is a filter or a right factor
FILTERS = {"convolution": 1, "mm": 1, "bmm": 1, "addmm": 2, "baddbmm": 2, "convolution_backward": 2}


def name_of(target: Any) -> str:
    """relu of aten.relu.default."""
    return str(target).rsplit(".", 2)[-2] if str(target).count(".") > 1 else str(target)


def _value(node: Node) -> Any:
    value = node.meta.get("val")
    return value[0] if is_tuple(node) and value else value


def node_of(node: Node, kind: str, reads: Sequence[str] = (), why: str = "", **more: Any) -> dict:
    """kind: input, output, kernel, network, copy or pytorch. makes: tensors by which others read it."""
    value = _value(node)
    has_shape = isinstance(value, torch.Tensor)
    return {"name": node.name, "kind": kind, "operator": str(node.target),
            "shape": [e if isinstance(e, int) else str(e) for e in value.shape] if has_shape else None,
            "dtype": str(value.dtype).removeprefix("torch.") if has_shape else None, "reads": list(reads),
            "makes": [node.name, *(n.name for n in _written(node))], "why": why, **more}


def _written(node: Node) -> list[Node]:
    """What it writes in place, by its schema."""
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    writes = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
    return [n for i in writes if i < len(node.args) for n in _flat(node.args[i]) if isinstance(n, Node)]


def _flat(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _is_view(node: Node) -> bool:
    """Whether it takes no time: a view, a part of a tuple, what asks for extents or for memory."""
    if _written(node):
        return False
    return (node.target is not aten.clone.default and is_copy(node) or is_size(node)
            or name_of(node.target).startswith("empty")
            or _value(node) is not None and not isinstance(_value(node), torch.Tensor))


def _source(node: Node, shown: set[str]) -> Node:
    """What is shown of a node: itself, or what it is a view of."""
    while node.name not in shown and node.op == "call_function" and _is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _is_filter(user: Node, value: Node) -> bool:
    """Whether the user reads it as a filter or a right factor alone."""
    if user.target in FUSED:
        count = 3 if "dual" in str(user.target) else 2
        return value in user.args[1:count] and value not in (user.args[0], *_operands(user))
    place = FILTERS.get(name_of(user.target))
    return place is not None and [i for i, a in enumerate(user.args) if a is value] == [place]


def _operands(call: Node) -> list[Node]:
    return next(list(a) for a in call.args if isinstance(a, (list, tuple)))


def _is_shown(place: Node) -> bool:
    """Whether an input is a box: those that are vectors, filters and right factors alone are weights, as a rule."""
    value = place.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() < 2:
        return False
    waiting = [(user, place) for user in place.users]
    while waiting:
        user, read = waiting.pop()
        if _is_view(user) or user.target is aten.clone.default:
            waiting += [(n, user) for n in user.users]
        elif user.op != "output" and not _is_filter(user, read):
            return True
    return False


def _reads(node: Node, shown: set[str]) -> list[str]:
    if node.target is COPY_INTO or node.target in INTO.values():  # of the concatenation they read nothing
        return _shown([n for n in node.all_input_nodes if n not in _written(node)], shown)
    return _shown(node.all_input_nodes, shown)


def _shown(nodes: Iterable[Node], shown: set[str]) -> list[str]:
    names = (_source(n, shown).name for n in nodes)
    return list(dict.fromkeys(n for n in names if n in shown))


def _foreign(node: Node, shown: set[str], reasons: dict[str, str]) -> dict:
    kind = "copy" if name_of(node.target) in MOVES else "pytorch"
    return node_of(node, kind, _reads(node, shown), reasons.get(node.name, ""))


def _outputs(results: Iterable[Any], shown: set[str]) -> list[dict]:
    """Of those results that are not inputs."""
    nodes = [n for n in results if isinstance(n, Node) and _source(n, shown).op != "placeholder"]
    return [{**node_of(n, "output", _shown([n], shown)), "name": f"output {i}", "operator": "output"}
            for i, n in enumerate(nodes)]


def _reasons(rows: Sequence[dict], standalone: Sequence[str]) -> dict[str, str]:
    """By node, why it is in no kernel."""
    found = {name: why for row in rows for name, why in row.get("left", {}).items()}
    for entry in standalone:  # "relu (aten.relu.default): why"
        name, _, why = entry.partition(": ")
        found.setdefault(name.split(" ")[0], why)
    return found | {row["anchor"]: row["ends"] for row in rows if not row["taken"]}


def _call(call: Node, shown: set[str], row: dict) -> list[dict]:
    """A region's kernel, after the copies that the call makes of what it reads."""
    copied = copies_of(call) if call.target in (*CONVOLUTIONS, *INTO.values()) else []
    copies = [{**node_of(n, "copy", _shown([n], shown), "its memory order is not the kernel's"), "name": name,
               "makes": [name], "operator": "a copy before the launch"}
              for n in copied for name in (f"{n.name} for {call.name}",)]
    reads = [*_reads(call, shown), *(c["name"] for c in copies)]
    return [*copies, node_of(call, "kernel", reads, row["ends"], anchor=row["anchor"])]


def of_regions(module: GraphModule, rows: Sequence[dict], standalone: Sequence[str]) -> list[dict]:
    """A graph in which regions are calls. standalone: of count()."""
    calls = {row["call"]: row for row in rows if row.get("taken") and "call" in row}
    reasons = _reasons(rows, standalone)
    found: list[dict] = []
    shown: set[str] = set()
    for node in module.graph.nodes:
        made: list[dict] = []
        if node.op == "placeholder" and _is_shown(node):
            made = [node_of(node, "input")]
        elif node.op == "output":
            made = _outputs(results_of(module.graph), shown)
        elif node.op == "call_function" and not _is_view(node):
            row = calls.get(node.meta.get(REPLACES, node.name))
            made = [_foreign(node, shown, reasons)] if row is None else _call(node, shown, row)
        found += made
        shown.update(name for m in made for name in m["makes"])
    return found


def _network(step: Any, number: int, shown: set[str]) -> dict:
    return {"name": f"network {number}", "kind": "network",
            "operator": f"a network of {step.executable.kernels} kernels", "shape": None, "dtype": None,
            "reads": _shown(step.step.reads, shown), "makes": [n.name for n in step.step.makes], "why": ""}


def of_steps(graph: Graph, steps: Sequence[Any], outputs: Sequence[Any], constants: set[Node],
             refused: dict[Node, str]) -> list[dict]:
    """A program as steps: those that have an `executable` are networks, in the order of their numbers."""
    reasons = {n.name: why for n, why in refused.items()}
    weights = {name for s in steps for name in getattr(s, "weights", ())}
    read = {n for s in steps for n in s.step.reads}
    found = [node_of(n, "input") for n in graph.find_nodes(op="placeholder")
             if n in read and n not in constants and n.name not in weights]
    shown = {node["name"] for node in found}
    networks = 0
    for step in steps:
        if hasattr(step, "executable"):
            networks += 1
            found.append(_network(step, networks, shown))
            shown.update(found[-1]["makes"])
            continue
        for node in step.step.nodes:
            if node.op == "call_function" and not _is_view(node):
                found.append(_foreign(node, shown, reasons))
                shown.add(node.name)
    return found + _outputs(outputs, shown)
