"""torch.compile(model, backend="unisono"): contractions and what follows them as one kernel each, the rest by Inductor.

Inference only: where a gradient is asked for, the graph goes to Inductor (or eager) unchanged, and the report says so.
"""

from __future__ import annotations

import json
from typing import Any, Callable

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx.experimental.proxy_tensor import make_fx

from .._native import Unsupported, UserError
from .fuse import fuse
from .regions import aten

OPTIONS = {"rest": "inductor", "minimum_operators": 1, "most_stores": 3, "strict": False, "report": None}
# Kept whole while regions are found; what no region takes is decomposed afterwards
WHOLE = (aten.native_group_norm, aten.native_layer_norm, aten.silu, aten.gelu, aten.mish, aten.hardswish, aten.hardsigmoid,
         aten.leaky_relu, aten.hardtanh, aten.addmm)


class Report:
    """What became of the contractions of one compiled graph. str() is for people, `rows` and to_json() for programs."""

    def __init__(self, rows: list[dict], note: str = ""):
        self.rows, self.note = rows, note

    @property
    def regions(self) -> int:
        """Calls of Unisono in the graph."""
        return sum(row["taken"] for row in self.rows)

    def to_json(self) -> str:
        return json.dumps({"regions": self.regions, "note": self.note, "contractions": self.rows}, indent=1)

    def __str__(self) -> str:
        lines = [f"unisono: {self.regions} of {len(self.rows)} contractions with their epilogues as one kernel each"]
        lines += [self.note] if self.note else []
        for row in self.rows:
            lines.append(f"  {row['anchor']}: {row['operator']} {row['shape']} {row['dtype']}: "
                         + ("one kernel with " + ", ".join(row["fused"]) if row["taken"] else "left to PyTorch"))
            lines.append("      ends: " + row["ends"].replace("\n", "\n      "))
        return "\n".join(lines)


_reports: list[Report] = []


def reports() -> list[Report]:
    """Those of all graphs that this process has compiled, the latest last; at most 256."""
    return list(_reports)


def _publish(report: Report, options: dict) -> None:
    _reports.append(report)
    del _reports[:-256]
    if callable(options["report"]):
        options["report"](report)
    elif options["report"]:
        with open(options["report"], "a", encoding="utf-8") as file:
            file.write(report.to_json() + "\n")


def _decompositions() -> dict:
    from torch._inductor.decomposition import select_decomp_table
    kept = {overload for packet in WHOLE for overload in (getattr(packet, name) for name in packet.overloads())}
    return {op: how for op, how in select_decomp_table().items() if op not in kept}


def _rest(module: torch.fx.GraphModule, inputs: list, how: str) -> Callable:
    if how == "eager":
        return make_boxed_func(module.forward)
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table
    with torch._guards.tracing(None):  # the graph is one of its own: no guards of the caller's
        decomposed = make_fx(module, decomposition_table=select_decomp_table(), tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)
        compiled = compile_fx(decomposed, inputs)
    boxed = lambda values: compiled(*values)  # noqa: E731
    boxed._boxed_call = True
    return boxed


def _needs_gradients(module: Any, inputs: list) -> bool:
    parameters = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    return torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in (*inputs, *parameters))


def unisono(module: torch.fx.GraphModule, inputs: list, *, options: dict | None = None, **more: Any) -> Callable:
    """The backend. Options: rest ("inductor" or "eager": who runs what is not taken), minimum_operators (behind a
    contraction, for a region), most_stores (of one kernel), strict (a contraction that no kernel takes is Unsupported),
    report (called with each Report, or the path of a file to which its JSON is appended)."""
    unknown = set(options or {}) - set(OPTIONS) | set(more)
    if unknown:
        raise UserError(f"backend unisono: there is no option {', '.join(sorted(unknown))}; there are {', '.join(OPTIONS)}")
    chosen = {**OPTIONS, **(options or {})}
    if chosen["rest"] not in ("inductor", "eager"):
        raise UserError(f"backend unisono: rest={chosen['rest']!r}; expected 'inductor' or 'eager'")
    for name in ("minimum_operators", "most_stores"):
        if not isinstance(chosen[name], int):
            raise UserError(f"backend unisono: {name}={chosen[name]!r}; expected an int")
    if _needs_gradients(module, inputs):
        note = "gradients are asked for: the graph is left to PyTorch. Call it under torch.no_grad() or inference_mode()"
        _publish(Report([], note), chosen)
        if chosen["strict"]:
            raise Unsupported(f"backend unisono with strict=True: {note}")
        if chosen["rest"] == "inductor":
            from torch._inductor.compile_fx import compile_fx
            return compile_fx(module, inputs)
        return module.forward

    def compile_functional(graph: torch.fx.GraphModule, values: list) -> Callable:
        report = Report(fuse(graph, chosen["minimum_operators"], chosen["most_stores"]))
        _publish(report, chosen)
        left = [row for row in report.rows if not row["taken"]]
        if chosen["strict"] and left:
            raise Unsupported(f"backend unisono with strict=True:\n{report}")
        return _rest(graph, values, chosen["rest"])

    return aot_autograd(fw_compiler=compile_functional, inference_compiler=compile_functional,
                        decompositions=_decompositions())(module, inputs)
