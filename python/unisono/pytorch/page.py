"""A page to explore one compiled graph, by the code that draws those of `unisono explain --html`."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Optional, Sequence

from .. import _native
from .._native import InternalError, Unsupported
from .flow import name_of


def _shape(node: dict) -> str:
    return f"({','.join(map(str, node['shape']))}) {node['dtype']}" if node["shape"] is not None else ""


def _launch(kernel: int, name: str, what: str, how: str, kind: str, predicted_us: float = 0) -> dict:
    return {"kernel": kernel, "name": name, "what": what, "how": how, "kind": kind, "flop": 0, "bytes": 0,
            "floor_us": 0, "predicted_us": predicted_us}


class Page:
    """Puts the data of a page together: launches in their order, each with a box."""

    def __init__(self, title: str, note: str):
        self.data: dict[str, Any] = {
            "title": title, "kind": "pytorch", "device": "the CPU", "device_note": "", "note": note, "measured": False,
            "run_ms": 0, "runs": 0, "complete": True, "decisions": "",
            **{name: [] for name in ("launches", "regions", "epilogues", "plans", "sources", "boxes", "edges")}}
        self.makers: dict[str, set[int]] = {}  # by tensor, the boxes that make it
        self.known: dict[tuple[str, str], int] = {}  # texts and plans, by their place in the data
        self.kernels = self.networks = 0

    def box(self, lines: Sequence[str], makers: set[int], launch: Optional[int] = None) -> int:
        number = len(self.data["boxes"])
        self.data["boxes"].append({"lines": [line for line in lines if line],
                                   **({} if launch is None else {"launch": launch})})
        self.data["edges"] += [{"from": maker, "to": number} for maker in sorted(makers)]
        return number

    def _made_by(self, names: Sequence[str], box: int) -> None:
        """Several may make one tensor: a concatenation."""
        for name in names:
            self.makers.setdefault(name, set()).add(box)

    def _makers(self, node: dict) -> set[int]:
        return set().union(*(self.makers.get(name, set()) for name in node["reads"]))

    def _add(self, node: dict, launch: dict, region: dict, lines: Sequence[str]) -> None:
        number = len(self.data["launches"])
        self.data["launches"].append(launch)
        self.data["regions"].append({"kernel": launch["kernel"], "kind": "single", "name": launch["name"],
                                     "contraction": "", "outputs": [node["name"]], "note": node["why"],
                                     "epilogue": None, **region})
        self._made_by(node["makes"], self.box(lines, self._makers(node), number))

    def add_tensor(self, node: dict) -> None:
        self._made_by(node["makes"], self.box([node["name"], _shape(node)], self._makers(node)))

    def add_operator(self, node: dict) -> None:
        """One of PyTorch's, or a copy."""
        short = name_of(node["operator"])
        kind = "movement" if node["kind"] == "copy" else "foreign"
        launch = _launch(0, node["name"], f"{short} {_shape(node)}", f"PyTorch's {node['operator']}", kind)
        self._add(node, launch, {"operators": [node["operator"]]}, [short, _shape(node)])

    def add_kernel(self, node: dict, row: dict, problem: Any) -> None:
        """A region's. problem: the contraction, the epilogue's text, and options of the kernel."""
        self.kernels += 1
        contraction, text, options = problem
        is_gpu = options.get("device") == _native.Device.cuda
        found = json.loads(_native._explore_kernel(_native.parse(text), contraction if is_gpu else None,
                                                   **(options if is_gpu else {})))
        if is_gpu:
            self.data.update(device=found["device"], device_note=found["device_note"])
        kept, what = self._take(found), str(contraction)
        launch = {**found["launches"][0], **kept(found["launches"][0]), "kernel": self.kernels, "name": node["name"],
                  "what": what, "kind": "contraction"}
        fused = [one.partition(" (")[2].removesuffix(")") for one in row["fused"]]  # "relu (aten.relu.default)"
        region = {"kind": "contraction", "contraction": what, "operators": [row["operator"], *fused],
                  **kept(found["regions"][0])}
        predicted = (f"{row['predicted_us']:.1f} µs predicted, PyTorch's kernels "
                     f"{row['predicted_us_of_pytorch']:.1f} µs") if "predicted_us" in row else ""
        self._add(node, launch, region, [f"{self.kernels}. {what}", " ".join(f"+ {name_of(one)}" for one in fused),
                                         predicted])

    def add_network(self, explored: dict, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """A network's launches. inputs, outputs: tensors of the graph, for which its first and last boxes stand."""
        self.networks += 1
        first_launch, kept, data = len(self.data["launches"]), self._take(explored), self.data
        for part in (*explored["launches"], *explored["regions"]):
            part.update(kept(part), name=f"network {self.networks}: {part['name']}",
                        kernel=part["kernel"] + self.kernels if part["kernel"] else 0)
        data["launches"] += explored["launches"]
        data["regions"] += explored["regions"]
        data["decisions"] += re.sub(r"^kernel (\d+)(?= )", lambda m: f"kernel {int(m[1]) + self.kernels}",
                                    explored.get("decisions", ""), flags=re.M)
        self._add_boxes(explored, first_launch, inputs, outputs)
        self.kernels = max((r["kernel"] for r in data["regions"]), default=0)
        data["complete"] &= explored["complete"]
        data.update({name: explored[name] for name in ("device", "device_note", "precision") if name in explored})

    def _add_boxes(self, explored: dict, first_launch: int, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Of the launches: those of tensors at the borders are the graph's own."""
        boxes = explored["boxes"]
        last = len(boxes) - len(outputs)
        if [i for i, box in enumerate(boxes) if "launch" not in box] != [*range(len(inputs)), *range(last, len(boxes))]:
            raise InternalError("to_html(): a network's boxes are not its inputs, launches and outputs")
        made = [self.makers.get(name, set()) for name in inputs]
        reads: dict[int, set[int]] = {}
        for edge in explored["edges"]:
            reads.setdefault(edge["to"], set()).add(edge["from"])
        for i, box in enumerate(boxes[len(inputs):], len(inputs)):
            makers: set[int] = set().union(*(made[maker] for maker in reads.get(i, ())))
            if i < last:
                head = re.sub(r"^\d+(?=[.] )", lambda m: str(int(m[0]) + self.kernels), box["lines"][0])
                makers = {self.box([head, *box["lines"][1:]], makers, first_launch + box["launch"])}
            else:
                self.makers[outputs[i - last]] = makers
            made.append(makers)

    def _take(self, explored: dict) -> Callable[[dict], dict]:
        """Takes over texts and plans, equal ones once; returns a function that renumbers a launch's or region's."""
        places = {name: [self._once(name + "s", one) for one in explored.get(name + "s", ())]
                  for name in ("source", "plan", "epilogue")}
        return lambda part: {name: None if part[name] is None else known[part[name]]
                             for name, known in places.items() if name in part}

    def _once(self, where: str, one: Any) -> int:
        key = (where, json.dumps(one))
        if key not in self.known:
            self.known[key] = len(self.data[where])
            self.data[where].append(one)
        return self.known[key]

    def html(self) -> str:
        page: str = _native._explore_page(json.dumps(self.data))
        return page


def page_of(title: str, note: str, nodes: Sequence[dict], rows: Sequence[dict], problems: dict[str, Any],
            networks: Sequence[Callable[[], Any]]) -> str:
    """problems: by the anchors of regions. networks: their parts (whole.Part), if those still are."""
    if not hasattr(_native, "_explore_page"):
        raise Unsupported("to_html(): this build of Unisono has no pages to explore; build it with UNISONO_TOOLS=ON")
    page, by_anchor, number = Page(title, note), {row["anchor"]: row for row in rows}, 0
    for node in nodes:
        if node["kind"] in ("input", "output"):
            page.add_tensor(node)
        elif node["kind"] == "kernel":
            page.add_kernel(node, by_anchor[node["anchor"]], problems[node["anchor"]])
        elif node["kind"] == "network":
            part, number = networks[number](), number + 1
            if part is None:
                raise Unsupported("to_html(): the compiled graph of this report is gone, and its networks with it; "
                                  "call it while the compiled model is there")
            page.add_network(json.loads(part.explored()), part.inputs, node["makes"])
        else:
            page.add_operator(node)
    return page.html()
