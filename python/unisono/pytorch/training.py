"""Graphs with their gradients, or that write their inputs, as networks: the parts that AOTAutograd makes of them.

AOTAutograd makes the graph functional: what it writes to (a batch norm's running averages) and outputs that are views
of inputs are further results, which it puts in their places itself. PyTorch's min-cut partitioner divides the graph.
Each part is cut into networks (parts.py). Where one has none both are left to regions (fuse.py), with the reason in the
report.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import RestartAnalysis
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._python_dispatch import _disable_current_modes

from .._native import CompileError, Unsupported, UserError
from .decompositions import statistics_dtype
from .export import KEPT, decompositions_but
from .parts import cut, results_of
from .program import CONTRACTIONS, Operators, device_of, refuse_inputs
from .regions import aten
from .report import Report
from .whole import Choices, Part, Running, networks, refuse_pieces, report_of, run_by


def attention_gradients(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], causal: bool,
                        dropout: float, scale: Optional[float]) -> tuple[Tensor, Tensor, Tensor]:
    """Of q, k and v, by the weights of the forward pass, computed again."""
    if dropout:
        return NotImplemented
    if q.shape[:-2] != k.shape[:-2]:
        return _of_groups(gradient, q, k, v, mask, causal, scale)
    factor = q.shape[-1]**-0.5 if scale is None else scale
    scores = torch.matmul(q, k.transpose(-2, -1)) * factor
    if mask is not None:
        scores = scores + mask
    if causal:
        later = torch.full(scores.shape[-2:], float("-inf"), dtype=q.dtype, device=q.device)
        scores = scores + torch.triu(later, 1)
    weights = torch.softmax(scores, -1)
    if mask is not None:  # a row that is minus infinity alone has the weights 0
        weights = torch.where(mask.amax(-1, keepdim=True) == float("-inf"), 0.0, weights)
    of_weights = torch.matmul(gradient, v.transpose(-2, -1))
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True)) * factor
    return (torch.matmul(of_scores, k), torch.matmul(of_scores.transpose(-2, -1), q),
            torch.matmul(weights.transpose(-2, -1), gradient))


def _of_groups(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], causal: bool,
               scale: Optional[float]) -> tuple[Tensor, Tensor, Tensor]:
    """For fewer heads of keys and values than of queries: q is (…, heads of k, groups, l, d), k (…, heads, 1, s, d)."""
    if (k.shape[:-2] != v.shape[:-2] or q.shape[:-3] != k.shape[:-3] or q.dim() < 3 or 0 in (q.shape[-3], k.shape[-3])
            or q.shape[-3] % k.shape[-3]):
        return NotImplemented
    heads = (k.shape[-3], q.shape[-3] // k.shape[-3])
    if mask is not None and mask.dim() > 2:
        mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, heads)
    k, v = (t.unsqueeze(-3).expand(*t.shape[:-2], heads[1], *t.shape[-2:]) for t in (k, v))
    of_q, of_k, of_v = attention_gradients(gradient.unflatten(-3, heads), q.unflatten(-3, heads), k, v, mask, causal,
                                           0.0, scale)
    return of_q.flatten(-4, -3), of_k.sum(-3), of_v.sum(-3)


def _of_cpu(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, dropout: float, causal: bool,
            *, attn_mask: Optional[Tensor] = None, scale: Optional[float] = None) -> Any:
    return attention_gradients(gradient, q, k, v, attn_mask, causal, dropout, scale)


def _of_flash(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, *more: Any,
              scale: Optional[float] = None) -> Any:
    return attention_gradients(gradient, q, k, v, None, more[5], more[4], scale)


def _of_efficient(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], out: Tensor, sums: Tensor,
                  seed: Any, offset: Any, dropout: float, wanted: Sequence[bool], causal: bool = False, *,
                  scale: Optional[float] = None) -> Any:
    if wanted[3]:
        return NotImplemented
    found = attention_gradients(gradient, q, k, v, bias, causal, dropout, scale)
    return found if found is NotImplemented else (*found, None)


def _of_cudnn(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, seed: Any, offset: Any,
              bias: Optional[Tensor], *more: Any, scale: Optional[float] = None) -> Any:
    return attention_gradients(gradient, q, k, v, bias, more[5], more[4], scale)


def dropout(x: Tensor, p: float, training: Optional[bool]) -> tuple[Tensor, Tensor]:
    """By random numbers that depend on nothing, which PyTorch can draw before a network."""
    if training is False or p == 0:
        return x * 1, torch.ones(x.shape, dtype=torch.bool, device=x.device)
    kept = aten.bernoulli.p(torch.zeros(x.shape, dtype=x.dtype, device=x.device), 1 - p)
    return x * kept * (1 / (1 - p) if p < 1 else 0.0), kept.to(torch.bool)


def _wide_on_a_cpu(norm: Any) -> Callable:
    """Of a norm whose weights are wider than its image of 16 bits. PyTorch's fake tensors round its statistics, its
    kernels do not, and where gradients cancel nothing is left of them."""
    def wide(x: Tensor, *more: Any) -> Any:
        kept = statistics_dtype(x, *(t for t in more if isinstance(t, Tensor)))
        if x.device.type != "cpu" or kept == x.dtype:
            return NotImplemented
        y, *rest = norm(x.to(kept), *more)
        return y.to(x.dtype), *rest
    return wide


def _dense(decomposition: Callable) -> Callable:
    """With the strides of PyTorch's kernel where the decomposition has those of an argument."""
    return lambda *args, **more: decomposition(*args, **more).contiguous()


def decompositions() -> dict:
    """The decompositions of inference graphs, and those of dropout, norms of mixed types and the backward passes of
    attention (by their definitions, since networks do not store logarithms of sums)."""
    table = decompositions_but((*KEPT, aten.softplus))
    table[aten._scaled_dot_product_flash_attention_for_cpu_backward.default] = _of_cpu
    table[aten._scaled_dot_product_flash_attention_backward.default] = _of_flash
    table[aten._scaled_dot_product_efficient_attention_backward.default] = _of_efficient
    table[aten._scaled_dot_product_cudnn_attention_backward.default] = _of_cudnn
    for norm in (aten.native_layer_norm.default, aten.native_group_norm.default,
                 aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats):
        table[norm] = _wide_on_a_cpu(norm)
    table[aten.native_dropout.default] = dropout
    table[aten.baddbmm.default] = _dense(table[aten.baddbmm.default])
    return table


class Traced(Operators):
    """A part of a joint graph, all of whose tensors are inputs."""

    def __init__(self, graph: Graph):
        self.places = list(graph.find_nodes(op="placeholder"))
        self.outputs = results_of(graph)
        values = [n.meta["val"] for n in (*self.places, *self.outputs) if isinstance(n, Node) and n.users]
        refuse_inputs([v for v in values if v is not None])
        super().__init__(graph, {}, set(), device_of(values))


def _is_view(node: Node) -> bool:
    """Whether it has memory of its first argument: also one of several views, as split() makes them."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


NORMS = {aten.native_layer_norm.default, aten.native_group_norm.default, aten.var_mean.correction,
         aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.no_stats}


def _is_short(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)


def _base(node: Node) -> Node:
    while _is_view(node):
        node = node.args[0]
    return node


def _behind_norms(graph: Graph, saved: set[Node]) -> set[Node]:
    """The saved values of 16 bits that norms are computed of."""
    found, seen = set[Node](), set[Node]()
    waiting = [n.args[0] for n in graph.nodes if n.target in NORMS]
    while waiting:
        node = waiting.pop()
        if node in seen or node.op != "call_function":
            continue
        seen.add(node)
        if node in saved and _is_short(node):
            found.add(node)
        elif node.target not in CONTRACTIONS:
            waiting += node.all_input_nodes
    return found


def round_normalised(graph: Graph) -> None:
    """Has norms on a CPU be of the values of 16 bits that the backward pass reads, and not of those in float32 that a
    network has of them. By the statistics of others, gradients that cancel do not."""
    found = _behind_norms(graph, {_base(n) for n in results_of(graph) if isinstance(n, Node)})
    for node in [n for n in graph.nodes if n in found and n.meta["val"].device.type == "cpu"]:
        read = node
        for dtype in (torch.float32, node.meta["val"].dtype):
            with graph.inserting_after(read):
                cast = graph.call_function(aten._to_copy.default, (read,), {"dtype": dtype})
            cast.meta["val"] = read.meta["val"].to(dtype)
            read = cast
        wide = read.args[0]
        node.replace_all_uses_with(read, delete_user_cb=lambda user, wide=wide: user is not wide)


class Trained:
    """A part as networks, and what PyTorch computes before and between them. Results that are views are PyTorch's, of
    inputs or of what the networks make."""

    def __init__(self, graph: Graph, static: set[str], choices: Choices):
        """static: names of inputs that lie in one place, as parameters do."""
        round_normalised(graph)
        self.program = program = Traced(graph)
        self.views: dict[Node, None] = {}  # in their order
        bases = [self._base(n) for n in program.outputs if isinstance(n, Node)]
        made = list(dict.fromkeys(n for n in bases if n.op != "placeholder"))
        weights = {n for n in program.places if n.name in static}
        steps = cut(graph, made, program.served, weights, CONTRACTIONS)
        refuse_pieces(steps, program, choices)
        self.steps = run_by(steps, program, choices, weights, {})
        self.parts = [s for s in self.steps if isinstance(s, Part)]
        self.runs = [Running(s, s.load({})) if isinstance(s, Part) else s.run for s in self.steps]
        for part in self.parts:
            part.plan()

    def _base(self, node: Node) -> Node:
        """What a result is a view of, through views that are to be made."""
        while _is_view(node):
            self.views = {node: None, **self.views}
            node = node.args[0]
        return node

    def __call__(self, *inputs: Any) -> list[Any]:
        values: dict[Node, Any] = dict(zip(self.program.places, inputs, strict=True))
        for run in self.runs:
            run(values)
        for node in self.views:  # also of what a network copied for a step after it
            args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
        return [values[n] if isinstance(n, Node) else n for n in self.program.outputs]


def _trained(kind: str, module: GraphModule, static: set[str], choices: Choices) -> Trained:
    try:
        with _disable_current_modes():  # AOTAutograd's fake tensors: constants have values
            return Trained(module.graph, static, choices)
    except (Unsupported, UserError, CompileError) as error:
        raise Unsupported(f"{kind}: {error}") from error


def _with_values(module: GraphModule, inputs: Sequence[Any]) -> GraphModule:
    """The graph with the values of inputs that are numbers, which AOTAutograd takes for unknown where others are."""
    places = module.graph.find_nodes(op="placeholder")
    values = {n: v for n, v in zip(places, inputs) if isinstance(v, (int, float)) and not isinstance(v, bool)}
    if not values:
        return module
    graph, made = Graph(), {}
    for node in module.graph.nodes:
        copied = graph.node_copy(node, made.__getitem__)
        if hasattr(node, "_dynamo_source"):
            copied._dynamo_source = node._dynamo_source
        made[node] = values.get(node, copied)
    known = GraphModule(module, graph)
    known.meta = module.meta
    if hasattr(module, "_param_name_to_source") and all(hasattr(n, "_dynamo_source") for n in places):
        known._param_name_to_source = module._param_name_to_source  # by which AOTAutograd knows parameters
    return known


class Functional:
    """A graph of known extents as AOTAutograd makes it functional, with its gradients where these are asked for."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], choices: Choices, partition: Callable,
                 publish: Callable[[Report], None]):
        """partition: divides the joint graph."""
        self.choices, self.partition, self.publish = choices, partition, publish
        self.made: dict[str, Trained] = {}
        self.call = self._compiled(module, inputs)

    def _compiled(self, module: GraphModule, inputs: Sequence[Any]) -> Callable:
        refuse_inputs(inputs)
        compilers = {f"{short}_compiler": functools.partial(self._compile, kind)
                     for short, kind in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))}
        try:
            return aot_autograd(**compilers, decompositions=decompositions(), partition_fn=self._partitioned)(
                _with_values(module, inputs), inputs)
        except (Unsupported, RestartAnalysis):  # Dynamo is to make another graph
            raise
        except Exception as error:  # of any type: what cannot be traced at these extents is compiled another way
            raise Unsupported(f"AOTAutograd: {type(error).__name__}: {str(error).splitlines()[:1]}") from error

    def _partitioned(self, joint: GraphModule, *values: Any, **more: Any) -> tuple[GraphModule, GraphModule]:
        parts = self.partition(joint, *values, **more)
        places = parts[0].graph.find_nodes(op="placeholder")
        static = {places[i].name for i in more.get("static_lifetime_input_indices") or ()}
        for kind, part in zip(("forward", "backward"), parts):
            self.made[kind] = _trained(kind, part, static, self.choices)
        return parts

    def _compile(self, kind: str, graph: GraphModule, values: list) -> Callable:
        if kind not in self.made:
            self.made[kind] = _trained(kind, graph, set(), self.choices)
        self.publish(report_of(self.made[kind], kind))
        return make_boxed_func(self.made[kind])

    def ready(self, inputs: Sequence[Any]) -> Callable:
        """As all weights are inputs."""
        return self.call


def functional(module: GraphModule, inputs: Sequence[Any], choices: Choices, partition: Callable,
               rest: Callable, publish: Callable[[Report], None]) -> Callable:
    """The graph as networks, with its gradients and with what it writes. Raises Unsupported, with the reason, if a part
    cannot be a network."""
    def make(known: GraphModule, given: Sequence[Any]) -> Functional:
        return Functional(known, given, choices, partition, publish)

    return networks(module, inputs, make, rest)
