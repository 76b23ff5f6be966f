"""Finds the regions of a functional ATen graph and puts one operator of Unisono in the place of each."""

from __future__ import annotations

import heapq
import operator
from dataclasses import dataclass, field
from typing import Optional

from torch.fx import GraphModule, Node

from . import dual, gradients, shapes
from .anchors import BACKWARD_CONTRACTIONS, CONTRACTIONS, anchor_of, check, kind_of
from .decompositions import merge_duplicates
from .expressions import NORMALISATIONS, expression, is_widening
from .judge import Kernels, Limits, judged
from .precision import check_precision
from .predict import Prediction, has_bias, has_last_pass
from .products import fold_batches
from .regions import Refused, Region, aten, hinted, is_copy, is_size, is_tensor, is_tuple, shape_of, source_of
from .rewrite import is_placed, replace
from .upsamplings import convolve_first
from .writer import mode_of


PARTED = "a normalisation whose result is not part of the region"


def _cannot_end(region: Region, places: dict[Node, int], most_stores: int) -> Optional[str]:
    """Why the region cannot end where it does, or None."""
    if any(is_tuple(n) and any(u not in region.names for u in n.users) for n in region.absorbed):
        return PARTED
    last = region.values[-1].name
    if not is_placed(region, places):
        return f"{last} would need an operand that is not there yet"
    stores = sum(region.is_full(n) for n in region.results())
    if stores > most_stores:
        return f"{last} would need {stores} stores, more than most_stores={most_stores}"
    known = {shapes.expression_of(e) for n in (*region.factors, *region.results()) for e in shape_of(n)}
    for size in region.sizes():
        if shapes.expression_of(size.meta["val"]) not in known:
            return f"{size.name} needs an extent that no result has"
    return region.unstorable()


@dataclass
class Search:
    """The graph in which regions are looked for, and what is taken already."""

    nodes: list[Node]  # before the first write
    places: dict[Node, int]
    limits: Limits
    taken: set[Node] = field(default_factory=set)

    def has(self, node: Node) -> bool:
        """Whether a node may be part of a region: what is put in meanwhile may not."""
        place = self.places.get(node, len(self.nodes))
        return place < len(self.nodes) and self.nodes[place] is node and node.op != "output"


def _is_from(node: Node, region: Region, places: dict[Node, int], apart: set[Node]) -> bool:
    """Whether a node is a value of the region or computed from one, not from its extents alone. apart: what is known to
    be neither, which grows. Nodes are asked for in the graph's order, so that this stays true."""
    start, waiting, seen = min(places[n] for n in (region.anchor, *region.heads)), [node], set()
    while waiting:
        one = waiting.pop()
        if one in region.names:
            return True
        if one in apart or one in seen or places[one] < start or is_size(one):
            continue
        seen.add(one)
        waiting += one.all_input_nodes
    apart |= seen
    return False


def grow(region: Region, search: Search) -> tuple[str, Optional[Prediction]]:
    """Absorbs what follows the anchor, in order; returns why it ends there, and a prediction for it. Raises Refused
    if no kernel serves even the contraction alone."""
    places, own = search.places, set(region.members)
    apart: set[Node] = set()
    why, none = "nothing reads its result but the graph's output", True
    waiting: list[int] = []  # places of what reads the region's values, or views, parts and copies of these
    met: set[Node] = set()

    def meet_readers(node: Node) -> None:
        for user in node.users:
            if user not in met and user not in own and search.has(user) and not is_size(user):
                met.add(user)
                heapq.heappush(waiting, places[user])

    for value in list(region.names):
        meet_readers(value)
    while waiting:
        node = search.nodes[heapq.heappop(waiting)]
        try:
            if (
                node.op != "call_function"
                or node in search.taken
                or node.target in CONTRACTIONS
                or node.target in BACKWARD_CONTRACTIONS
            ):
                raise Refused(f"{node.name} ({node.target}) starts its own region, or is not an operation")
            if any(n not in region.names and _is_from(n, region, places, apart) for n in node.all_input_nodes):
                raise Refused(f"{node.name} reads what is computed outside from the region's values")
            region.absorb(node, expression)
            meet_readers(node)
        except Refused as reason:
            why, none = (str(reason) if none else why), False
            region.left[node] = str(reason)
            if is_copy(node):
                meet_readers(node)
    return _cut_back(region, search, why)


def work_of(region: Region) -> list[Node]:
    """What was absorbed, without views and parts of tuples."""
    return [n for n in region.absorbed if n.target is not operator.getitem and source_of(n) is n]


def _cut_back(region: Region, search: Search, why: str) -> tuple[str, Optional[Prediction]]:
    limits, on_gpu = search.limits, region.anchor.meta["val"].device.type == "cuda"
    too_slow = ""
    while True:
        while region.absorbed and is_widening(region.absorbed[-1]):
            region.drop_last("it would double what is stored")
        is_pass = on_gpu and has_bias(region) and (bool(region.absorbed) or has_last_pass(region))
        if (count := len(work_of(region))) + is_pass < limits.minimum_operators:
            raise Refused(
                too_slow
                or f"{count} operators after it, fewer than minimum_operators={limits.minimum_operators}; "
                f"it ends there: {why}"
            )
        reason, prediction = _cannot_end(region, search.places, limits.most_stores), None
        if reason is None:
            reason, prediction = judged(region, limits)
        if reason is None and prediction is not None and prediction.gain < limits.minimum_gain:
            reason = (
                f"a predicted gain of {prediction.gain:.3f}, below minimum_gain={limits.minimum_gain}: "
                f"{prediction.ours:.1f} µs, "
                f"PyTorch's kernels {prediction.theirs:.1f} µs"
            )
            too_slow = too_slow or reason
            _drop_to_reduction(region, reason)
        if reason is None:
            return why, prediction
        if not region.absorbed:
            raise Refused(too_slow or reason)
        why = why if too_slow and reason == PARTED else reason  # what was dropped before has its own reason
        region.drop_last(why)


def _drop_to_reduction(region: Region, why: str) -> None:
    """Cuts the region back to its last reduction, which is what costs. A region does not end there, at statistics that
    PyTorch normalises by: nnU-Net, whose first convolution did, took 4.7 ms longer (docs/notes/pytorch.md)."""
    while len(region.absorbed) > 1 and region.absorbed[-1].target not in NORMALISATIONS:
        region.drop_last(why)


def _row(node: Node) -> dict:
    shape = [e if isinstance(e, int) else str(e) for e in shape_of(node)] if is_tensor(node) else None
    dtype = str(node.meta["val"].dtype) if is_tensor(node) else None
    return {
        "anchor": node.name,
        "operator": str(node.target),
        "shape": shape,
        "dtype": dtype,
        "fused": [],
        "stores": 0,
        "taken": False,
        **({"flop": flop} if node.target in CONTRACTIONS and (flop := _flop(node)) else {}),
    }


def _flop(node: Node) -> int:
    """Of any contraction, in the example, also of those that no region takes; 0 where nobody knows its sizes."""
    try:
        if node.target is aten.convolution.default:  # each pixel, of the input if transposed, meets the whole filter
            image = hinted(node.args[0] if node.args[6] else node)
            return 2 * image[0] * shapes.product(image[2:]) * shapes.product(hinted(node.args[1]))
        return 2 * shapes.product(hinted(node)) * hinted(node.args[-2])[-1]
    except Refused:
        return 0


def _first_write(nodes: list[Node]) -> int:
    return next(
        (
            i
            for i, n in enumerate(nodes)
            if n.op == "call_function"
            and getattr(n.target, "_schema", None) is not None
            and n.target._schema.is_mutable
        ),
        len(nodes),
    )


def _finished(region: Region, search: Search, row: dict) -> Region:
    """Grows it, and fills the row. Raises Refused."""
    row["ends"], prediction = grow(region, search)
    if prediction is not None:
        region.takes_slices = prediction.takes_slices
        row.update(
            predicted_us=round(prediction.ours, 2),
            predicted_us_of_pytorch=round(prediction.theirs, 2),
            plan=prediction.plan,
            plan_from=prediction.plan_from,
        )
    row.update(
        taken=True,
        fused=[f"{n.name} ({n.target})" for n in work_of(region)],
        stores=len(region.results()),
        left={n.name: why for n, why in region.left.items()},
        epilogue=region.text(),
    )
    return region


def _dual(node: Node, search: Search, row: dict) -> Optional[Region]:
    """The region of two products, or convolutions, that begins with this one, if a value reads both and one kernel
    serves them."""
    limits = search.limits
    if not dual.may_pair(node) or limits.without & {kind_of(node), "pairs"} or limits.minimum_operators > 2:
        return None
    try:
        check(node, *(a for a in node.args if is_tensor(a)))
        halves = dual.halves_of(node, search.places, limits.without)
        pairs = [halves] if halves else dual.pair_of(node, search.nodes, search.places, search.taken, limits.without)
        for region in pairs:
            trial = dict(row)
            try:
                _finished(region, search, trial)
            except Refused:
                continue
            if dual.joins(region):
                row.update(trial)
                return region
    except Refused:
        pass
    return None


def _found(node: Node, search: Search, row: dict) -> Region:
    """The region of an anchor. Raises Refused."""
    if node.target in BACKWARD_CONTRACTIONS:
        raise Refused("gradients of filters are PyTorch's: there are no native kernels for them yet")
    check_precision(node, kind_of(node), search.limits.tf32)
    return _dual(node, search, row) or _finished(anchor_of(node, search.limits.without), search, row)


def _part_of(row: dict, node: Node) -> dict:
    """The row of the second product of a pair, whose arithmetic the first one's row has."""
    return {
        **_row(node),
        "taken": True,
        "part_of": row["anchor"],
        "ends": f"the second of the pair in {row['anchor']}'s kernel",
    }


def fuse(module: GraphModule, limits: Limits, kernels: Optional[Kernels] = None) -> list[dict]:
    """Fuses in place; returns a row of the report for each contraction. kernels: has the regions' compiled meanwhile,
    each as soon as it is known."""
    merge_duplicates(module.graph)
    fold_batches(module)
    if not limits.without & {"convolutions", "resampling"}:
        nodes = list(module.graph.nodes)
        convolve_first(module, nodes[: _first_write(nodes)])
    parted = {}
    if "convolutions" not in limits.without:
        nodes = list(module.graph.nodes)
        parted = gradients.part(module.graph, nodes[: _first_write(nodes)])
    nodes = list(module.graph.nodes)
    search = Search(nodes[: _first_write(nodes)], {n: i for i, n in enumerate(nodes)}, limits)
    rows, regions = [], []
    for node in search.nodes:
        is_contraction = node.op == "call_function" and node.target in (*CONTRACTIONS, *BACKWARD_CONTRACTIONS)
        if not is_contraction or node in search.taken:
            continue
        rows.append(row := _row(node))
        try:
            region = _found(node, search, row)
        except Refused as reason:
            row["ends"] = str(reason)
            continue
        if kernels is not None:
            kernels.begin(region, limits)
        search.taken.update(region.members)
        regions.append((region, row))
        rows += [_part_of(row, n) for n in region.heads if n is not node and n.target in CONTRACTIONS]
    replaced: dict[Node, Node] = {}
    mode = mode_of(module) if regions else None
    for region, row in reversed(regions):  # those that read others' results first
        if replace(module, region, replaced, limits, mode):
            row["call"] = region.call.name
        else:
            row.update(taken=False, left={}, ends="an operand from another region comes after a reader of its result")
            for other in rows:
                if other.get("part_of") == row["anchor"]:
                    other.update(taken=False, ends=row["ends"])
    rows = _with_gradients(rows, parted, gradients.join(module.graph, parted))
    module.graph.lint()
    module.recompile()
    return rows


def _with_gradients(rows: list[dict], parted: dict[Node, Node], taken: set[Node]) -> list[dict]:
    """The rows, where an image's gradient that no region took is told of by the row of what it is a part of."""
    by_anchor = {row["anchor"]: row for row in rows}
    for gradient, node in parted.items():
        row, whole = by_anchor[gradient.name], by_anchor[node.name]
        if node in taken:
            row["gradient_of"] = node.name
            whole["ends"] = f"the image's gradient is in {gradient.name}'s kernel; {whole['ends']}"
        else:
            rows.remove(row)
            whole["ends"] = f"the image's gradient: {row['ends']}; {whole['ends']}"
    return rows
