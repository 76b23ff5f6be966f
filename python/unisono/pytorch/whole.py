"""A whole inference graph as one executable: every operator is Unisono's, on a GPU as one CUDA graph.

With frozen=True weights do not change, so they are constants of a `Network`, which src/network fuses, places and runs.
What it does not serve is left to regions (fuse.py), with the reason in the report.
"""

from __future__ import annotations

import pathlib
import tempfile
import weakref
from types import SimpleNamespace
from typing import Any, Callable, Optional, Sequence

import torch
from torch.fx import Graph, GraphModule, Node

from .._native import (
    CompileError, Device, Layout, NetworkExecutable, Unsupported, UserError, compile_network, load_onnx)
from ..tensors import torch_dtypes, view
from .export import OPSET, decomposed, tensors_of, write_safetensors
from .onnx_file import Writer
from .onnx_nodes import HANDLERS
from .regions import aten
from .report import Report

CONTRACTIONS = (aten.convolution.default, aten.linear.default, aten.matmul.default, aten.mm.default,
                aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
                aten.scaled_dot_product_attention.default)


def _is_static(node: Node, value: Any) -> bool:
    """Whether an input of Dynamo's graph is a parameter or a buffer of a module."""
    kind = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or kind is not None


def _results(module: GraphModule) -> list[Any]:
    """What the graph returns, in order. Raises Unsupported for more than tensors."""
    (given,) = next(n for n in module.graph.nodes if n.op == "output").args
    results = list(given) if isinstance(given, (tuple, list)) else [given]
    for one in results:
        value = one.meta.get("example_value") if isinstance(one, Node) else None
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the graph returns {one}, which is no tensor")
        if _overlaps(value):
            raise Unsupported(f"elements of {one.name} share memory: strides {tuple(value.stride())}")
    return results


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie in one place, such as those of an expanded tensor."""
    end = 1
    for extent, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda dim: dim[1]):
        if extent > 1 and stride < end:
            return True
        end = max(end, (extent - 1) * stride + 1)
    return False


def _refuse_inputs(inputs: Sequence[Any]) -> None:
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"an input is a {type(value).__name__}: extents are not known")
        if any(not isinstance(e, int) for e in (*value.shape, *value.stride())):
            raise Unsupported("an input has extents that are not known")
        if type(value) not in (torch.Tensor, torch.nn.Parameter) and not hasattr(value, "fake_mode"):
            raise Unsupported(f"an input is a {type(value).__name__}")


def _program(module: GraphModule, inputs: Sequence[Any]) -> Any:
    try:
        with torch.no_grad():
            return decomposed(torch.export.export(module, tuple(inputs), strict=False))
    except Exception as error:  # of whatever type: what PyTorch cannot export is compiled another way
        raise Unsupported(f"torch.export: {type(error).__name__}: {str(error).splitlines()[0][:300]}") from error


def _refuse_writes(program: Any) -> None:
    signature = program.graph_signature
    written = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
    if written:
        raise Unsupported(f"the graph writes {', '.join(map(str, written.values()))}")


def _refuse_aliases(places: Sequence[Node], results: Sequence[Node]) -> None:
    """Results of a network have memory of their own; those of eager mode may be views of inputs and of one another."""
    seen: dict[Any, str] = {}
    for node in (*places, *results):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()._cdata
            if node in results and storage in seen:
                raise Unsupported(f"a result shares memory with {seen[storage]}")
            seen[storage] = node.name


def _precision(program: Any, device: torch.device) -> Optional[torch.dtype]:
    """In which a GPU multiplies. Raises Unsupported unless all products and convolutions are of one type of 16 bits, or
    of float32 on a CPU."""
    found = {n.meta["val"].dtype for n in program.graph.nodes if n.target in CONTRACTIONS}
    served = {torch.float32} if device.type == "cpu" else {torch.bfloat16, torch.float16}
    if len(found) != 1 or not found <= served:
        raise Unsupported(f"products and convolutions of {', '.join(sorted(map(str, found))) or 'no type'}; "
                          f"one network has one of {', '.join(sorted(map(str, served)))} on a {device.type}")
    return found.pop() if device.type == "cuda" else None


def _is_last(tensor: torch.Tensor) -> bool:
    return (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
            and not tensor.is_contiguous())


class Whole:
    """An executable with the weights that it was made of."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], spare_sms: int):
        _refuse_inputs(inputs)
        places = [n for n in module.graph.nodes if n.op == "placeholder"]
        if len(places) != len(inputs):
            raise Unsupported("inputs of Dynamo's graph are not those that were given")
        results = _results(module)
        _refuse_aliases(places, results)
        self.results = [n.meta["example_value"] for n in results]
        devices = {t.device for t in (*inputs, *self.results)}
        if len(devices) != 1:
            raise Unsupported(f"tensors on {', '.join(sorted(map(str, devices)))}")
        (self.device,) = devices
        self.static = [i for i, (n, v) in enumerate(zip(places, inputs)) if _is_static(n, v)]
        self.given = [i for i in range(len(inputs)) if i not in set(self.static)]
        if not self.given:
            raise Unsupported("the graph reads weights alone")
        self.spare_sms = spare_sms
        program = _program(module, inputs)
        _refuse_writes(program)
        self.precision = _precision(program, self.device)
        # not the program itself, which would keep weights alive that were replaced
        self.graph, self.constants, self.signature = program.graph, tensors_of(program), program.graph_signature
        self.names = list(self.signature.user_inputs)
        self.last = any(map(_is_last, (*(inputs[i] for i in self.given), *self.results)))
        self.load(inputs)

    def load(self, inputs: Sequence[torch.Tensor]) -> None:
        """Makes the executable with the weights among these inputs."""
        weights = {**self.constants, **{self.names[i]: inputs[i] for i in self.static}}
        signature = SimpleNamespace(user_inputs=[self.names[i] for i in self.given],
                                    user_outputs=self.signature.user_outputs)
        writer = Writer(SimpleNamespace(graph=self.graph, graph_signature=signature), weights)
        writer.write_nodes(HANDLERS)
        with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
            path = pathlib.Path(folder) / "weights.safetensors"
            places = write_safetensors(path, {n: t for n, t in weights.items() if n in writer.used})
            file = path.with_name("graph.onnx")
            file.write_bytes(writer.model(OPSET, path.name, places).SerializeToString())
            try:
                network = load_onnx(str(file))
            except UserError as error:
                raise Unsupported(str(error).replace(str(file), "its ONNX form")) from error
        self.executable = self._compiled(network)
        own = [inputs[i] for i in self.static]
        self.kept, self.addresses = [weakref.ref(w) for w in own], [w.data_ptr() for w in own]
        # PyTorch counts no writes to tensors that were made under inference_mode
        self.counted = [i for i, w in enumerate(own) if not w.is_inference()]
        self.versions = [own[i]._version for i in self.counted]
        self.outputs = list(network.outputs)

    def _compiled(self, network: Any) -> NetworkExecutable:
        options: dict[str, Any] = {"layout": Layout.nhwc if self.last else Layout.nchw}
        if self.device.type == "cpu":
            return compile_network(network, device=Device.cpu, threads=torch.get_num_threads(), **options)
        return compile_network(network, device=Device.cuda, device_index=self.device.index or 0, strict=True,
                               precision=torch_dtypes()[self.precision], spare_sms=self.spare_sms, **options)

    def plan(self, inputs: Sequence[torch.Tensor]) -> None:
        """Compiles the kernels. Raises Unsupported."""
        shapes = {self.names[i]: list(self._ordered(inputs[i]).shape) for i in self.given}
        self.executable.output_shapes(shapes)
        if self.device.type == "cuda":
            self.executable.workspace_bytes(shapes)

    def _ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the executable's layout has it."""
        return tensor.permute(0, 2, 3, 1) if self.last and tensor.dim() == 4 else tensor

    def _bound(self, tensor: torch.Tensor) -> Any:
        return view("tensor", self._ordered(tensor)).native()

    def _is_loaded(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the weights are those that were loaded; by lists, as a call has hundreds of them."""
        weights = [inputs[i] for i in self.static]
        return ([w.data_ptr() for w in weights] == self.addresses
                and [weights[i]._version for i in self.counted] == self.versions
                and all(kept() is w for kept, w in zip(self.kept, weights)))

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        if not self._is_loaded(inputs):
            self.load(inputs)
        results = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in self.results]
        read = {self.names[i]: self._bound(inputs[i]) for i in self.given}
        written = dict(zip(self.outputs, map(self._bound, results)))
        if self.device.type == "cuda":
            self.executable.enqueue(read, written, torch.cuda.current_stream(self.device).cuda_stream)
        else:
            self.executable.run(read, written)
        return results


def _rows(graph: Graph) -> list[dict]:
    return [{"anchor": n.name, "operator": str(n.target), "shape": list(n.meta["val"].shape),
             "dtype": str(n.meta["val"].dtype), "fused": ["the whole graph, as one network"], "stores": 1,
             "taken": True, "ends": "the note has what the network's kernels are"}
            for n in graph.nodes if n.target in CONTRACTIONS]


def whole(module: GraphModule, inputs: Sequence[Any], spare_sms: int) -> tuple[Callable, Report]:
    """The graph as one executable, and its report. Raises Unsupported, with the reason, where it cannot be one."""
    if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in inputs):
        raise Unsupported("gradients are recorded")
    try:
        made = Whole(module, inputs, spare_sms)
        made.plan(inputs)
        if not any(hasattr(t, "fake_mode") for t in inputs):
            made(*inputs)  # what it refuses, such as strides, it refuses now
    except (UserError, CompileError) as error:  # such as an operator with values that the importer refuses
        raise Unsupported(str(error)) from error
    report = Report(_rows(made.graph), made.executable.report(), "inference", {"calls": 1},
                    kernels=made.executable.kernels)
    return made, report
