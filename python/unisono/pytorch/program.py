"""An inference graph of Dynamo's as a program of ATen operators, for inputs of known extents, and which of its
operators networks have."""

from __future__ import annotations

import collections
import operator
from typing import Any, Optional, Sequence

import torch
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from .._native import Unsupported
from .export import decomposed, tensors_of
from .onnx_file import Writer, kind_of
from .onnx_gradients import ATTENTION, HANDLERS
from .onnx_moves import reads
from .parts import results_of
from .regions import aten
from .results import Results

class NotFunctional(Unsupported):
    """A graph that writes its inputs, or returns them: AOTAutograd makes it functional (training.py)."""


CONTRACTIONS = (aten.convolution.default, aten.linear.default, aten.matmul.default, aten.mm.default,
                aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
                aten.scaled_dot_product_attention.default, aten.convolution_backward.default, *ATTENTION)
# Types of a network's contractions, on a GPU of all of them one
SERVED = {"cpu": {torch.float32, torch.bfloat16, torch.float16}, "cuda": {torch.bfloat16, torch.float16}}


def device_of(values: Sequence[Any]) -> torch.device:
    devices = {t.device for t in values if isinstance(t, torch.Tensor)}
    if len(devices) != 1 or next(iter(devices)).type not in SERVED:
        raise Unsupported(f"tensors on {', '.join(sorted(map(str, devices)))}")
    return devices.pop()


def precision_of(contraction: Node) -> torch.dtype:
    return tensors_in([contraction.meta["val"]])[0].dtype


def is_static(node: Node, value: Any) -> bool:
    """Whether an input of Dynamo's graph is a parameter or a buffer of a module."""
    kind = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or kind is not None


def refuse_inputs(inputs: Sequence[Any]) -> None:
    for value in inputs:
        if isinstance(value, (int, float, bool)) and not isinstance(value, torch.SymInt):
            continue
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"an input is a {type(value).__name__}: extents are not known")
        if any(not isinstance(e, int) for e in (*value.shape, *value.stride())):
            raise Unsupported("an input has extents that are not known")
        if type(value) not in (torch.Tensor, torch.nn.Parameter) and not hasattr(value, "fake_mode"):
            raise Unsupported(f"an input is a {type(value).__name__}")


def _run_as_fakes(module: GraphModule, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Inputs and results as fake tensors of these extents, in eager mode's strides."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(t, static_shapes=True) if isinstance(t, torch.Tensor) else t for t in inputs]
    with mode, torch.no_grad():
        results = module(*fakes)
    return fakes, list(results) if isinstance(results, (tuple, list)) else [results]


def _examples(module: GraphModule, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Inputs and results of the graph as fake tensors, whose strides are eager mode's, and whose memory is shared where
    eager mode's is."""
    value = lambda n: n.meta.get("example_value") if isinstance(n, Node) else n  # noqa: E731
    places = [value(n) for n in module.graph.find_nodes(op="placeholder")]
    results = [value(n) for n in results_of(module.graph)]
    known = (isinstance(e, int) for t in (*places, *results) if isinstance(t, torch.Tensor)
             for e in (*t.shape, *t.stride()))
    if all(known) and not any(isinstance(x, torch.SymInt) for x in (*places, *results)):
        return places, results
    return _run_as_fakes(module, inputs)


def _refuse_false_strides(module: GraphModule) -> None:
    """PyTorch's fake tensors of volumes that it pads by their own elements are contiguous; its kernels keep channels
    last."""
    for node in module.graph.nodes:
        if node.target is not torch._C._nn.pad or not {"replicate", "reflect"}.intersection(
                m for m in (*node.args, *node.kwargs.values()) if isinstance(m, str)):
            continue
        volume = node.args[0].meta.get("example_value")
        if (volume is not None and volume.dim() == 5 and not volume.is_contiguous()
                and volume.is_contiguous(memory_format=torch.channels_last_3d)):
            raise Unsupported(f"{node.name} pads a volume that is channels last by its own elements: PyTorch does not "
                              "say in which strides")


class Operators:
    """A graph of ATen operators whose extents are known. constants: tensors of placeholders; constant: placeholders
    that are constants of networks, these among them; precision: in which networks multiply on a GPU; served: the nodes
    that networks have; refused: of others, the reason."""

    def __init__(self, graph: Graph, constants: dict[Node, torch.Tensor], constant: set[Node], device: torch.device):
        self.graph, self.constants, self.constant, self.device = graph, constants, constant, device
        self.precision = self._precision()
        self.served: set[Node] = set()
        self.refused: dict[Node, str] = {}
        self._serve()

    def contractions(self) -> list[Node]:
        return [n for n in self.graph.nodes if n.target in CONTRACTIONS]

    def _precision(self) -> torch.dtype:
        """The one of most products and convolutions. On a GPU those of others are PyTorch's."""
        found = collections.Counter(precision_of(n) for n in self.contractions())
        served = SERVED[self.device.type]
        for dtype, _ in found.most_common():
            if dtype in served:
                return dtype
        raise Unsupported(f"products and convolutions of {', '.join(sorted(map(str, found))) or 'no type'}; "
                          f"networks have {', '.join(sorted(map(str, served)))} on a {self.device.type}")

    def _multiplies(self, dtype: torch.dtype) -> bool:
        return dtype == self.precision if self.device.type == "cuda" else dtype in SERVED["cpu"]

    def _serve(self) -> None:
        scratch = Writer(self, {n.name: t for n, t in self.constants.items()})
        fixed = set(self.constant)
        for node in self.graph.nodes:
            if node.op != "call_function":
                continue
            is_fixed = fixed.issuperset(node.all_input_nodes)
            why = self._refusal(scratch, node, is_fixed, fixed)
            if why is not None:
                self.refused[node] = why
                continue
            self.served.add(node)
            if is_fixed:
                fixed.add(node)

    def _refusal(self, scratch: Writer, node: Node, is_fixed: bool, fixed: set[Node]) -> Optional[str]:
        if node.target is operator.getitem and node.args[0].op == "call_function":
            return self.refused.get(node.args[0])
        if node.target not in HANDLERS:
            return f"no translation of {node.target}"
        if node.target in CONTRACTIONS and not self._multiplies(dtype := precision_of(node)):
            return f"of {dtype}, in a network of {self.precision}"
        computed = [n for n in (*node.all_input_nodes, *(() if is_fixed else (node,))) if n not in fixed]
        try:
            for value in tensors_in(_read_of(n) for n in (*node.all_input_nodes, node)):
                kind_of(value.dtype)
                if any(not isinstance(e, int) for e in value.shape):
                    return f"extents {tuple(value.shape)}"
            for value in tensors_in(_read_of(n) for n in computed):
                if value.device != self.device:
                    return f"on {value.device}"
            HANDLERS[node.target](scratch, node)
        except Unsupported as reason:
            return str(reason)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            return f"arguments of {node.target} that its translation does not know: {error!r}"
        return None


class Program(Operators):
    """What torch.export makes of Dynamo's graph. outputs: the nodes of the results, or numbers; made: of the results
    that are computed, the nodes, in order; places: of each input, the node."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], static: Sequence[int]):
        refuse_inputs(inputs)
        _refuse_false_strides(module)
        try:
            examples, results = _examples(module, inputs)
            self.results = Results(results, examples)
            with torch.no_grad(), tracing(None):  # not by Dynamo's symbols, of which this program knows none
                exported = decomposed(torch.export.export(module, tuple(inputs), strict=False))
        except Unsupported:
            raise
        except Exception as error:  # of any type: what PyTorch cannot export is compiled another way
            raise Unsupported(f"torch.export: {type(error).__name__}: {str(error).splitlines()[0][:300]}") from error
        constants = self._read(exported)
        super().__init__(self.graph, constants, {*constants, *(self.places[i] for i in static)},
                         device_of([*inputs, *self.results.like]))

    def _read(self, exported: Any) -> dict[Node, torch.Tensor]:
        """Returns the constants."""
        # not the program itself, which would keep weights alive that were replaced
        self.graph, signature = exported.graph, exported.graph_signature
        written = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
        if written:
            raise NotFunctional(f"the graph writes {', '.join(map(str, written.values()))}")
        by_name = {n.name: n for n in self.graph.nodes}
        self.places = [by_name.get(n) if isinstance(n, str) else None for n in signature.user_inputs]
        self.outputs = results_of(self.graph)
        if len(self.outputs) != len(self.results.like):
            raise Unsupported(f"torch.export gives {len(self.outputs)} results of {len(self.results.like)}")
        for node, like in zip(self.outputs, self.results.like):
            made = node.meta.get("val") if isinstance(node, Node) else node
            if _type_of(made) != _type_of(like):  # as where autocast ends within the graph
                raise Unsupported(f"torch.export makes {_type_of(made)} of a result that is {_type_of(like)}")
        self.made = [n for n, is_made in zip(self.outputs, self.results.are_computed()) if is_made]
        if any(n.op == "placeholder" for n in self.made):
            raise NotFunctional("a result is an input or a constant")
        for node in self.graph.nodes:
            if node.op == "get_attr" or isinstance(node.target, torch._ops.HigherOrderOperator):
                raise Unsupported(f"the graph calls another: {node.target}")
        return {by_name[n]: t for n, t in tensors_of(exported).items()}


def _type_of(value: Any) -> tuple:
    return (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else (type(value),)


def _read_of(node: Node) -> Any:
    """Its value; of several results, those that are read: flash attention's seeds are of a type that ONNX has not."""
    value = node.meta.get("val")
    if not isinstance(value, (tuple, list)):
        return value
    return [v for i, v in enumerate(value) if reads(node, i)]


def tensors_in(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += [v for v in value if isinstance(v, torch.Tensor)]
    return found


