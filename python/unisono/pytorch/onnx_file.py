"""An ONNX file as it is written: nodes, constants, weights that lie in another file."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
from torch.fx import Node

from .._native import Unsupported, UserError
from .shapes import hint


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as missing:
        raise UserError("export needs the package onnx: pip install onnx") from missing
    return onnx


def kind_of(dtype: torch.dtype) -> int:
    kinds = _onnx().TensorProto
    names = {torch.float32: "FLOAT", torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16", torch.float64: "DOUBLE",
             torch.int64: "INT64", torch.int32: "INT32", torch.bool: "BOOL", torch.uint8: "UINT8", torch.int8: "INT8"}
    if dtype not in names:
        raise Unsupported(f"export: ONNX files written here have no {dtype}")
    return getattr(kinds, names[dtype])


Handlers = dict[Any, Callable[["Writer", Node], None]]


class Writer:
    """Nodes, in the program's order. Values have the names of the program's nodes."""

    def __init__(self, program: Any, tensors: dict[str, torch.Tensor]):
        self.program, self.tensors, self.nodes, self.used, self.small = program, tensors, [], set(), {}
        self.vectors: dict[str, str] = {}
        self.casts: dict[tuple[str, torch.dtype], str] = {}
        self.onnx = _onnx()

    def take_as_vectors(self, nodes: Iterable[Node]) -> None:
        """Makes these inputs, which have one extent other than 1, (C), and what reads them a reshape of it: networks
        would lay (C,1,1) out anew."""
        for node in nodes:
            shape = self.constant(list(node.meta["val"].shape), torch.int64)
            self.vectors[node.name] = self.add("Reshape", [node.name, shape], f"{node.name}_shaped")

    def write_nodes(self, handlers: Handlers) -> None:
        """handlers: what writes the nodes of each operator."""
        unknown = sorted({str(n.target) for n in self.program.graph.nodes if n.op == "call_function"
                          and n.target not in handlers
                          and not isinstance(n.meta.get("val"), (torch.SymInt, int))})
        if unknown:
            raise Unsupported(f"export: no translation of {', '.join(unknown)}")
        for node in self.program.graph.nodes:
            if node.op == "call_function" and node.target in handlers:
                handlers[node.target](self, node)

    def name(self, x: Any) -> str:
        if isinstance(x, Node):
            if x.name in self.tensors:
                self.used.add(x.name)
            return self.vectors.get(x.name, x.name)
        raise Unsupported(f"export: an argument {x!r} where a tensor is expected")

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        tensor = torch.as_tensor(value, dtype=dtype)
        key = f"constant_{len(self.small)}"
        self.small[key] = tensor
        return key

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.add_node(kind, inputs, [output], **attributes)
        return output

    def add_node(self, kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> None:
        given = {n: v for n, v in attributes.items() if v is not None}
        if kind == "Reshape" and 0 in (extents := self.small[inputs[1]].tolist()) and -1 not in extents:
            given["allowzero"] = 1  # an extent, and not "as the input's"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, outputs,
                                                     name=f"{outputs[0]}_{kind}_{len(self.nodes)}", **given))

    def extents(self, node: Node, shape: Any) -> str:
        """A shape as a constant; one unknown extent is what is left."""
        values = [e if isinstance(e, int) else -1 for e in shape]
        if values.count(-1) > 1:
            raise Unsupported(f"export: {node.name} has a shape of two unknown extents, {tuple(shape)}")
        return self.constant(values, torch.int64)

    def model(self, opset: int, location: str, places: dict[str, tuple[int, int]]) -> Any:
        helper = self.onnx.helper
        initializers = [self._external(n, location, *place) for n, place in places.items()]
        read = {name for node in self.nodes for name in node.input}
        read.update(n for n in self.program.graph_signature.user_outputs if isinstance(n, str))
        initializers += [_inline(self.onnx, n, t) for n, t in self.small.items() if n in read]
        by_name = {n.name: n for n in self.program.graph.nodes}
        inputs = [self._info(by_name[n]) for n in self.program.graph_signature.user_inputs if isinstance(n, str)]
        outputs = [self._info(by_name[n]) for n in self.program.graph_signature.user_outputs if isinstance(n, str)]
        self._name_outputs(outputs)
        graph = helper.make_graph(self.nodes, "model", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in sorted(
            {n.domain for n in self.nodes if n.domain}))]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="unisono")

    def shapes_of_inputs(self) -> dict[str, list[int]]:
        """{input: shape} of the example."""
        by_name = {n.name: n for n in self.program.graph.nodes}
        names = [n for n in self.program.graph_signature.user_inputs if isinstance(n, str)]
        return {n: [hint(e) for e in by_name[n].meta["val"].shape] for n in names}

    def _name_outputs(self, outputs: list) -> None:
        """"output", or output_0, output_1, …; what is an input, a weight or given out twice is copied."""
        made = {name for node in self.nodes for name in node.output}
        renamed: dict[str, str] = {}
        for i, info in enumerate(outputs):
            name = "output" if len(outputs) == 1 else f"output_{i}"
            if info.name in made and info.name not in renamed:
                renamed[info.name] = name
            else:
                self.add("Identity", [info.name], name)
            info.name = name
        for node in self.nodes:
            for names in (node.input, node.output):
                for i, name in enumerate(names):
                    names[i] = renamed.get(name, name)

    def _info(self, node: Node) -> Any:
        value = node.meta["val"]
        shape = [e if isinstance(e, int) else str(e) for e in value.shape]
        if node.name in self.vectors:
            shape = [value.numel()]
        return self.onnx.helper.make_tensor_value_info(node.name, kind_of(value.dtype), shape)

    def _external(self, name: str, location: str, offset: int, size: int) -> Any:
        t = self.tensors[name]
        proto = self.onnx.TensorProto(name=name, data_type=kind_of(t.dtype), dims=list(t.shape),
                                      data_location=self.onnx.TensorProto.EXTERNAL)
        for key, value in (("location", location), ("offset", offset), ("length", size)):
            proto.external_data.add(key=key, value=str(value))
        return proto


def _inline(onnx: Any, name: str, t: torch.Tensor) -> Any:
    data = t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return onnx.TensorProto(name=name, data_type=kind_of(t.dtype), dims=list(t.shape), raw_data=data)


def dtype_of(node: Node) -> torch.dtype:
    return node.meta["val"].dtype


def promoted(w: Writer, x: Any, node: Node, dtype: torch.dtype) -> str:
    """An argument of a node, a tensor or a number, in the dtype in which PyTorch computes it."""
    if not isinstance(x, Node):
        return w.constant(x, dtype)
    name = w.name(x)
    if dtype_of(x) == dtype:
        return name
    if (name, dtype) not in w.casts:
        w.casts[name, dtype] = w.add("Cast", [name], f"{node.name}_{name}_cast", to=kind_of(dtype))
    return w.casts[name, dtype]
