"""Seeded faults: copies of a model with one node wrong, which a check that sees that node must find.

A node is drawn at random among those that compute floats from the network's input. Its fault is a small one of the
kinds that compilers make: a vector operand that is read one element off (as by a wrong axis or stride), one channel of
its weights, or one channel or column of its result, a quarter larger. A channel is drawn from the half of them that
weighs more, as one that a ReLU leaves at 0 is right whatever it is multiplied by. A bias of keys in attention and the
like change nothing in exact arithmetic, and where a sigmoid or softmax behind the node is at its limit, neither does a
quarter more; where one kind of fault changes nothing, the other kinds are tried on the same node, at last a wrong sign.
If ONNX Runtime's outputs of all these copies are within the tolerance, too, the node is silent in this network, as an
attention whose bias is many times its scores: no program could be told from them, and another node is drawn.
"""
import dataclasses
import random
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor

from .runs import run_onnxruntime

CONTRACTIONS = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": -1}  # the axis of the weights' output channels
COMPUTING = set(CONTRACTIONS) | set("""
    Add Sub Mul Div Pow Sqrt Erf Relu LeakyRelu Sigmoid HardSigmoid HardSwish Tanh Gelu Softplus Clip PRelu Elu Softmax
    BatchNormalization InstanceNormalization GroupNormalization LayerNormalization RMSNormalization ReduceMean
    GlobalAveragePool AveragePool MaxPool Resize GridSample Concat Einsum""".split())
SHARE = 1.25


@dataclasses.dataclass(frozen=True)
class Result:
    """What a node computes: its shape, and the L2 norm at each position of the axes that faults are made on."""
    shape: tuple
    norms: dict

    @staticmethod
    def of(y):
        axes = {a for a in (channel_axis(y.shape), column_axis(y.shape)) if a >= 0}
        wide = y.astype(np.float64)
        return Result(y.shape, {a: np.sqrt(np.square(wide).sum(tuple(i for i in range(y.ndim) if i != a)))
                                for a in axes})


def channel_axis(shape):
    return 1 if len(shape) > 3 else len(shape) - 1


def column_axis(shape):
    return len(shape) - 1 if len(shape) > 3 else len(shape) - 2


class Faults:
    """Draws nodes of a model and writes copies of it, each with one of them wrong."""

    def __init__(self, model, inputs, count, scratch):
        self.folder, self.scratch, self.inputs = model.parent, scratch, inputs
        # weights in other files stay there: copies are written into the model's folder
        self.model = onnx.load(str(model), load_external_data=False)
        self.weights = {t.name: t for t in self.model.graph.initializer}
        self.random = random.Random(zlib.crc32(str(model.parent.name).encode()))
        drawn = self._candidates()
        self.random.shuffle(drawn)
        self.nodes = self._with_results(drawn[:3 * count])

    def _candidates(self):
        """Nodes between data (float inputs, embeddings, what weights are multiplied with) and an output."""
        graph = self.model.graph
        data = {i.name for i in graph.input if i.type.tensor_type.elem_type == TensorProto.FLOAT}
        for node in graph.node:
            weighted = any(self._float_weight(name) for name in node.input)
            if (any(name in data for name in node.input)
                    or (weighted and node.op_type in ("Gather", *CONTRACTIONS))):
                data.update(node.output)
        needed = {o.name for o in graph.output}
        for node in reversed(graph.node):
            if any(name in needed for name in node.output):
                needed.update(node.input)
        return [n for n in graph.node if n.op_type in COMPUTING and n.output[0] in data and n.output[0] in needed]

    def _float_weight(self, name):
        return name in self.weights and self.weights[name].data_type == TensorProto.FLOAT

    def _with_results(self, nodes):
        """[(node, its Result)] of those whose result is float32 and has elements"""
        probe = onnx.ModelProto()
        probe.CopyFrom(self.model)
        names = [n.output[0] for n in nodes]
        probe.graph.ClearField("value_info")
        present = {o.name for o in probe.graph.output}
        probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
        onnx.save(probe, str(self.scratch))
        values = run_onnxruntime(self.scratch, self.inputs, names, rewritten=False)
        return [(n, Result.of(y)) for n, y in zip(nodes, values) if y.dtype == np.float32 and y.size]

    def copies(self, node, result):
        """Copies of the model with this node wrong: (what is wrong, file), one after the other."""
        makers = [self._operand] if any(self._float_weight(name) for name in node.input) else []
        makers.append(self._result)
        self.random.shuffle(makers)
        for maker in [*makers, *([self._column] if len(result.shape) > 2 else []), self._sign]:
            broken = onnx.ModelProto()
            broken.CopyFrom(self.model)
            position = next(i for i, n in enumerate(self.model.graph.node) if n.output[0] == node.output[0])
            what = maker(broken.graph, position, result)
            onnx.save(broken, str(self.scratch))
            yield what, self.scratch

    def _operand(self, graph, position, result):
        node = graph.node[position]
        slots = [i for i, name in enumerate(node.input) if self._float_weight(name)]
        slot = self.random.choice(slots)
        value = self._value(node.input[slot]).copy()
        if value.size == max(value.shape, default=1) and value.size > 1:
            what, value = f"operand {slot} is read one element off", np.roll(value.ravel(), 1).reshape(value.shape)
        elif value.size == 1:
            what, value = f"operand {slot} is a quarter larger", value * np.float32(SHARE)
        else:
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            axis = 0 if transposed else CONTRACTIONS.get(node.op_type, -1)
            channel = self.random.randrange(value.shape[axis])
            np.moveaxis(value, axis, 0)[channel] *= SHARE
            what = f"channel {channel} of operand {slot} is a quarter larger"
        graph.initializer.append(numpy_helper.from_array(value, "faulty_operand"))
        node.input[slot] = "faulty_operand"
        return what

    def _value(self, name):
        tensor = TensorProto()
        tensor.CopyFrom(self.weights[name])
        if tensor.data_location == TensorProto.EXTERNAL:
            load_external_data_for_tensor(tensor, str(self.folder))
            tensor.data_location = TensorProto.DEFAULT
            tensor.ClearField("external_data")
        return numpy_helper.to_array(tensor)

    def _result(self, graph, position, result):
        channel = self._multiplied(graph, position, result, channel_axis(result.shape), SHARE)
        return f"channel {channel} of the result is a quarter larger"

    def _column(self, graph, position, result):
        """What a normalisation of every channel by itself does not undo."""
        axis = column_axis(result.shape)
        where = self._multiplied(graph, position, result, axis, SHARE)
        return f"position {where} of axis {axis} of the result is a quarter larger"

    def _sign(self, graph, position, result):
        """What a function that is at its limit does not undo."""
        channel = self._multiplied(graph, position, result, channel_axis(result.shape), -1)
        return f"channel {channel} of the result has the wrong sign"

    def _multiplied(self, graph, position, result, axis, factor):
        """Multiplies the result of a node at one position of an axis that is not among the lighter half."""
        node = graph.node[position]
        scale = np.ones([n if i == axis else 1 for i, n in enumerate(result.shape)], np.float32)
        norms = result.norms.get(axis, np.ones(1))  # of a scalar: itself
        heavy = np.flatnonzero(norms >= np.median(norms))
        channel = int(self.random.choice(heavy))
        scale.reshape(-1)[channel] = factor
        graph.initializer.append(numpy_helper.from_array(scale, "fault"))
        name = node.output[0]
        node.output[0] = "without_fault"
        graph.node.insert(position + 1, helper.make_node("Mul", ["without_fault", "fault"], [name], "fault"))
        return channel


def try_faults(faults, node, result, error_of, reference_error_of):
    """{node, operator, tried, silent}: faults of one node until one is found."""
    tried, silent = [], True
    for what, file in faults.copies(node, result):
        tried.append({"fault": what, "error_over_tolerance": error_of(file)})
        if tried[-1]["error_over_tolerance"] > 1:
            silent = False
            break
        silent = silent and reference_error_of(file) <= 1
    return {"node": node.name or node.output[0], "operator": node.op_type, "tried": tried, "silent": silent}


def draw_faults(model, inputs, count, scratch, error_of, reference_error_of):
    """{drawn, blind, silent}: nodes with a fault each, those of them in which none was found, and nodes that were passed
    over as silent. error_of(file) is the error of a run over its tolerance, reference_error_of(file) ONNX Runtime's."""
    faults = Faults(model, inputs, count, scratch)
    drawn, silent = [], []
    try:
        for node, result in faults.nodes:
            if len(drawn) == count:
                break
            outcome = try_faults(faults, node, result, error_of, reference_error_of)
            (silent if outcome.pop("silent") else drawn).append(outcome)
    finally:
        scratch.unlink(missing_ok=True)
    blind = [d for d in drawn if not d["tried"][-1]["error_over_tolerance"] > 1]
    return {"drawn": drawn, "blind": blind, "silent": silent}
