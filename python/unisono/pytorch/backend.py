"""torch.compile(model, backend="unisono"): contractions and what follows them as one kernel each, the rest by Inductor.

AOTAutograd traces forward and backward as one graph, and PyTorch's own min-cut partitioner divides it. Regions are
found in both parts afterwards: what the backward pass reads of a region, such as the mean and rstd of a normalisation,
is one of its stores. So the backward graph is the one that Inductor would have had.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import numbers
import os
import time
from typing import Any, Callable, Iterator

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .._native import Unsupported, UserError
from .concatenations import place
from .decompositions import keep_statistics, kept_whole, save_normalised, written_out
from .expressions import FUSIONS
from .flow import of_regions
from .frozen import pack_in_graph, with_frozen_filters
from .fuse import Limits, fuse
from .judge import Kernels
from .layouts import dense_for_norms, relax, simplify
from .measured import fastest
from .precision import guard_settings, kinds_of_tf32
from .program import NotFunctional, device_of, is_static
from .report import Report, count, nodes_of
from .texts import VERSION
from .training import functional
from .whole import Choices, has_known_extents, whole

OPTIONS = {"rest": "inductor", "minimum_operators": 1, "most_stores": 3, "minimum_gain": None, "without": (),
           "strict": False, "report": None,
           "frozen": False, "networks": None, "spare_sms": 0}
# Who gives one of these asks for regions
OF_REGIONS = ("minimum_operators", "most_stores", "minimum_gain", "without")
NETWORKS = ("frozen", "inference", "measured", "any")  # of the option of that name
# The most bytes of weights, as float32, that networks copy where nobody asks for them
MOST_COPIED = 1 << 30

# By how much a region must be predicted to be faster where minimum_gain is not given. A training step must not become
# slower by an error of the prediction: what gains less is left to Inductor
GAINS = {"inference": 0.0, "forward": 0.1, "backward": 0.1}

_reports: list[Report] = []
atexit.register(_reports.clear)  # before the interpreter ends: reports hold objects of the extension


def reports() -> list[Report]:
    """Those of all graphs that this process has compiled, the latest last; at most 256. A backward graph is compiled
    when it first runs."""
    return list(_reports)


def _publish(report: Report, options: dict) -> None:
    if options.get("held") is not None:  # it is not yet decided that the graph is compiled so
        options["held"].append(report)
        return
    _reports.append(report)
    del _reports[:-256]
    if callable(options["report"]):
        options["report"](report)
    elif options["report"]:
        with open(options["report"], "a", encoding="utf-8") as file:
            file.write(report.to_json() + "\n")


def _checked(options: dict, more: dict) -> dict:
    unknown = set(options) - set(OPTIONS) | set(more)
    if unknown:
        raise UserError(
            f"backend unisono: unknown option {', '.join(sorted(unknown))}; expected {', '.join(OPTIONS)}"
        )
    chosen = {**OPTIONS, **options}
    if chosen["rest"] not in ("inductor", "eager"):
        raise UserError(f"backend unisono: rest={chosen['rest']!r}; expected 'inductor' or 'eager'")
    for name, least in (("minimum_operators", 0), ("most_stores", 1), ("spare_sms", 0)):
        value = chosen[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(f"backend unisono: {name}={value!r}; expected an int, {least} or more")
    if chosen["networks"] is None:
        chosen["networks"] = "frozen" if set(OF_REGIONS) & set(options) else "inference"
    if chosen["networks"] not in NETWORKS:
        raise UserError(f"backend unisono: networks={chosen['networks']!r}; expected {', '.join(map(repr, NETWORKS))}")
    if not isinstance(chosen["minimum_gain"], (numbers.Real, type(None))):
        raise UserError(f"backend unisono: minimum_gain={chosen['minimum_gain']!r}; expected a number, or None")
    report = chosen["report"]
    if report is not None and not callable(report) and not isinstance(report, (str, os.PathLike)):
        raise UserError(f"backend unisono: report={report!r}; expected a function, or the path of a file")
    for name in ("strict", "frozen"):
        if not isinstance(chosen[name], bool):
            raise UserError(f"backend unisono: {name}={chosen[name]!r}; expected True or False")
    without = chosen["without"]
    if isinstance(without, str) or not set(without) <= set(FUSIONS):
        raise UserError(f"backend unisono: without={without!r}; expected a tuple of {', '.join(FUSIONS)}")
    return chosen


@contextlib.contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = round(time.perf_counter() - start, 3)


def _fused(graph: torch.fx.GraphModule, options: dict, kind: str, compile_rest: Callable[[], Any]) -> Any:
    """Replaces the regions of a graph, and compiles what is left and, on a GPU, the kernels at the same time: what
    `compile_rest` gives. kind: inference, forward or backward."""
    seconds: dict[str, float] = {}
    with Kernels() as kernels:
        with _timed(seconds, "regions"):
            _replaced(graph, options, kind, kernels, seconds)
        with _timed(seconds, "rest"):
            made = compile_rest()
        with _timed(seconds, "kernels"):
            kernels.wait()
    return made


def _replaced(graph: torch.fx.GraphModule, options: dict, kind: str, kernels: Kernels, seconds: dict) -> None:
    """Finds and replaces the regions of a graph, and publishes the report. kernels: begins to compile theirs."""
    without = frozenset(options["without"])
    gain = GAINS[kind] if options["minimum_gain"] is None else float(options["minimum_gain"])
    limits = Limits(options["minimum_operators"], options["most_stores"], gain, without, options["spare_sms"],
                    options["strict"], options["tf32"])
    if kind == "backward" and "backward" in without:
        _publish(Report([], "switched off by without=('backward',)", kind, count(graph),
                        nodes=of_regions(graph, [], [])),
                 options)
        return
    before = nodes_of(graph)
    rows = fuse(graph, limits, kernels)
    simplify(graph)
    if options["rest"] == "inductor":
        pack_in_graph(graph)
    counts = count(graph, rows)
    if "concatenations" not in without:
        counts["concatenations without copies"] = place(graph)
    nodes = of_regions(graph, rows, counts["standalone after a contraction"])
    report = Report(rows, options["note"], kind, counts, before, nodes_of(graph), seconds, nodes=nodes,
                    problems=kernels.problems)
    _publish(report, options)
    if options["strict"] and report.left:
        raise Unsupported(f"backend unisono with strict=True:\n{report}")


def _tag(options: dict) -> str:
    """What compiled graphs depend on besides their text: the package, PyTorch's settings of tf32, and options but the
    one that only tells."""
    return VERSION + "".join(f"|{name}={value}" for name, value in sorted(options.items())
                             if name not in ("report", "note", "held"))


def _by_inductor(module: torch.fx.GraphModule, inputs: list, options: dict) -> Callable:
    from torch._functorch import config
    from torch._guards import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def inner(graph: torch.fx.GraphModule, values: list, **more: Any) -> Any:
        if (mode := detect_fake_mode(values)) is not None:
            relax(graph, values, mode)
        kind = "backward" if more.get("is_backward") else "inference" if more.get("is_inference") else "forward"
        return _fused(graph, options, kind, lambda: compile_fx_inner(graph, values, **more))

    # From the cache of whole graphs would come no report. Where the environment asks for that cache all the same, its
    # key has what regions depend on; so has Inductor's own, of what is compiled here
    with config.patch(enable_autograd_cache=False, enable_remote_autograd_cache=False), \
            torch.compiler.config.patch(cache_key_tag=torch.compiler.config.cache_key_tag + _tag(options)):
        return compile_fx(module, inputs, inner_compile=inner, decompositions=written_out())


def _by_inductor_alone(module: torch.fx.GraphModule, inputs: list) -> Callable:
    """What stands between networks."""
    from torch._inductor.compile_fx import compile_fx
    return compile_fx(module, inputs)


def _partitioned(joint: torch.fx.GraphModule, *values: Any, **more: Any) -> Any:
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    keep_statistics(joint.graph)
    save_normalised(joint.graph)
    return min_cut_rematerialization_partition(joint, *values, **more)


def _by_eager(module: torch.fx.GraphModule, inputs: list, options: dict) -> Callable:
    def compiler(kind: str, graph: torch.fx.GraphModule, values: list) -> Callable:
        _fused(graph, options, kind, lambda: dense_for_norms(graph))
        return make_boxed_func(graph.forward)

    forward, backward, inference = (functools.partial(compiler, kind) for kind in ("forward", "backward", "inference"))
    table = written_out() if _needs_gradients(module, inputs) else kept_whole()
    return aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference, decompositions=table,
                        partition_fn=_partitioned)(module, inputs)


def _needs_gradients(module: Any, inputs: list) -> bool:
    parameters = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else []
    return torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad
                                           for t in (*inputs, *parameters))


def _by_regions(options: dict | None, module: torch.fx.GraphModule) -> Callable:
    """The graph for all extents."""
    chosen = {**(options or {})}
    chosen["without"] = (*chosen.get("without", ()), "networks")
    plain = torch.fx.GraphModule(module, module.graph)  # of which forward() is written: Dynamo makes lazy ones

    def regions(graph: torch.fx.GraphModule, inputs: list) -> Callable:
        return unisono(graph, inputs, options=chosen)

    def again(*inputs: Any) -> Any:  # Dynamo does not trace modules that it has made
        return plain.forward(*inputs)

    again.__code__ = again.__code__.replace()  # by which Dynamo counts how often it compiled
    return torch.compile(again, backend=regions, dynamic=True)


def _asks_for_networks(module: torch.fx.GraphModule, inputs: list, options: dict) -> bool:
    """Whether a graph is to become networks if it can. Inference on a CPU is, where sizes are known: there they have
    been faster than regions on all models of convolutions that were compared (docs/notes/pytorch.md)."""
    if "networks" in options["without"]:
        return False
    if options["frozen"] or options["networks"] != "inference":
        return options["frozen"] or options["networks"] in ("measured", "any")
    tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
    places = module.graph.find_nodes(op="placeholder")
    weights = sum(4 * v.numel() for n, v in zip(places, inputs) if isinstance(v, torch.Tensor) and is_static(n, v))
    return (bool(tensors) and all(t.device.type == "cpu" and not hasattr(t, "fake_mode") for t in tensors)
            and not _needs_gradients(module, inputs) and weights <= MOST_COPIED and has_known_extents(module, inputs))


def _by_networks(module: torch.fx.GraphModule, inputs: list, options: dict, rest: Callable) -> Callable:
    """Compiles the graph as networks. Raises Unsupported, with the reason, if it cannot be one."""
    choices = Choices(options["frozen"], options["spare_sms"], options["strict"], options["networks"] == "inference",
                      _by_inductor_alone if options["rest"] == "inductor" else None)
    publish, takes_any = functools.partial(_publish, options=options), options["networks"] == "any"
    is_frozen = options["frozen"] and any(isinstance(t, torch.nn.Parameter) and t.requires_grad for t in inputs)
    if not takes_any or is_frozen or not _needs_gradients(module, inputs):  # frozen weights have no gradients
        try:
            return whole(module, inputs, choices, rest, publish)
        except NotFunctional:
            if not takes_any:
                raise
    return functional(module, inputs, choices, _partitioned, rest, publish)


def _by_the_faster(module: torch.fx.GraphModule, inputs: list, options: dict, rest: Callable) -> Callable:
    """Compiles an inference graph both ways, and runs both. Raises Unsupported, with the reason, if there are not
    two."""
    if _needs_gradients(module, inputs) or not has_known_extents(module, inputs):
        raise Unsupported("networks='measured' is for inference of known extents")
    if any(hasattr(t, "fake_mode") for t in inputs):
        raise Unsupported("networks='measured': the graph was given no tensors to run")
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise Unsupported("networks='measured': nothing is timed while a CUDA graph is captured")
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))  # as Inductor rewrites the one that it is given
    held: dict[str, dict] = {name: {**options, "held": []} for name in ("networks", "regions")}
    ways = {"networks": _by_networks(torch.fx.GraphModule(module, graph), inputs, held["networks"], rest)}
    name, us = "networks", None
    try:
        ways["regions"] = _without_networks(module, inputs, held["regions"])
    except Unsupported:  # strict: a contraction of theirs has no kernel
        pass
    else:
        name, us = fastest(ways, inputs, device_of(inputs))
    reports, held[name]["held"] = held[name]["held"], None
    for report in reports:
        report.measured_us = us
        _publish(report, options)
    return ways[name]


def _without_networks(module: torch.fx.GraphModule, inputs: list, options: dict) -> Callable:
    compiler = functools.partial(_by_eager if options["rest"] == "eager" else _by_inductor, options=options)
    return with_frozen_filters(module, inputs, compiler,
                               options["rest"] == "inductor") if options["frozen"] else compiler(module, inputs)


def unisono(module: torch.fx.GraphModule, inputs: list, *, options: dict | None = None, **more: Any) -> Callable:
    """The backend. Options: rest ("inductor" or "eager": who runs what is not taken), minimum_operators (after a
    contraction, for a region), most_stores (of one kernel), minimum_gain (on a GPU: 0.1 asks for 1.1 times the speed of
    PyTorch's kernels, by prediction; None: 0 for inference, 0.1 for training), without (kinds of fusion that are
    switched off: FUSIONS), strict (a contraction that no kernel takes is Unsupported, and so is a call whose tensors
    would be copied), report (called with each Report, or the path of a file to which its JSON is appended), frozen
    (weights do not change: an inference graph becomes networks, or filters that kernels would reorder at each call are
    reordered once), networks ("frozen": only then; "inference": also on a CPU where weights may change, unless sizes
    do; "measured": an inference graph is compiled as networks and as regions, and what is faster stays; "any": all
    graphs, training too; None: "frozen" if an option of regions is given, else "inference"),
    spare_sms (SMs of a GPU that kernels leave to communication and others)."""
    chosen = {**_checked(options or {}, more), "tf32": kinds_of_tf32(), "note": "", "held": None}  # backward, too
    guard_settings()
    if _asks_for_networks(module, inputs, chosen):
        by_networks = _by_the_faster if chosen["networks"] == "measured" else _by_networks
        try:
            return by_networks(module, inputs, chosen, functools.partial(_by_regions, options))
        except Unsupported as reason:
            chosen["note"] = f"not one network: {reason}"
    return _without_networks(module, inputs, chosen)
