"""Makes a failing network small: nodes and outputs are dropped, values become inputs, extents shrink, for as long as the
judge says the same of it.

usage: shrink.py JUDGE FILE.onnx OUT.onnx [JUDGE'S OPTIONS …]
"""

import pathlib
import re
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from draft import with_data, without_data
from opinions import Judge, onnxruntime


def signature(verdict):
    """What two verdicts share if they have one cause: all but names and numbers."""
    text = re.sub(r"'[^']*'|[-+]?\d[\d.e+-]*|inf|nan", "*", verdict.get("text", ""))
    if verdict["verdict"] in ("wrong", "disputed"):
        text = text.split(":")[0] if "differ" not in text else text
    return verdict["verdict"], verdict.get("stage", ""), text[:200] if verdict["verdict"] != "crashed" else ""


def pruned(model, inputs):
    """Without what no output needs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    needed = {o.name for o in result.graph.output}
    kept = []
    for node in reversed(result.graph.node):
        if any(o in needed for o in node.output):
            kept.append(node)
            needed.update(node.input)
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in reversed(kept)]
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    for field in (result.graph.initializer, result.graph.input):
        items = [i for i in field if i.name in needed]
        del field[:]
        field.extend(items)
    return result, {n: a for n, a in inputs.items() if n in needed}


def copied(model):
    result = onnx.ModelProto()
    result.CopyFrom(model)
    return result


def intermediates(model, inputs):
    """Every float value that nodes make, by ONNX Runtime."""
    wider = copied(model)
    have = {o.name for o in wider.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in have:
                wider.graph.output.append(onnx.ValueInfoProto(name=name))
    return onnxruntime(wider, inputs)


def one_output_each(model, inputs, values):
    for o in model.graph.output if len(model.graph.output) > 1 else ():
        smaller = copied(model)
        del smaller.graph.output[:]
        smaller.graph.output.append(o)
        yield smaller, inputs


def earlier_ends(model, inputs, values):
    """The network up to one value."""
    kinds = {numpy.float32: TensorProto.FLOAT, numpy.int64: TensorProto.INT64, numpy.int32: TensorProto.INT32, numpy.bool_: TensorProto.BOOL}
    outputs = {o.name for o in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name in outputs or name not in values or values[name].dtype.type not in kinds:
                continue
            smaller = copied(model)
            del smaller.graph.output[:]
            smaller.graph.output.append(helper.make_tensor_value_info(name, kinds[values[name].dtype.type], values[name].shape))
            yield smaller, inputs


def later_starts(model, inputs, values):
    """A value that nodes make becomes an input."""
    outputs = {o.name for o in model.graph.output}
    for node in reversed(model.graph.node):
        for name in node.output:
            if name in outputs or name not in values or values[name].dtype != numpy.float32:
                continue
            smaller = copied(model)
            nodes = [n for n in smaller.graph.node if name not in n.output]
            del smaller.graph.node[:]
            smaller.graph.node.extend(nodes)
            smaller.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, values[name].shape))
            yield smaller, {**inputs, name: values[name]}


def bypassed(model, inputs, values):
    """A node's readers read its operand instead."""
    outputs = {o.name for o in model.graph.output}
    everything = {**values, **inputs}
    for node in reversed(model.graph.node):
        if len(node.output) != 1 or node.output[0] in outputs or node.output[0] not in values:
            continue
        for operand in node.input:
            if operand in everything and everything[operand].shape == values[node.output[0]].shape:
                smaller = copied(model)
                for n in smaller.graph.node:
                    for i, name in enumerate(n.input):
                        if name == node.output[0]:
                            n.input[i] = operand
                yield smaller, inputs


def fixed_extents(model, inputs, values):
    """Numbers for symbols."""
    smaller, changed = copied(model), False
    for i in smaller.graph.input:
        for at, dim in enumerate(i.type.tensor_type.shape.dim):
            if dim.dim_param:
                dim.dim_value, changed = inputs[i.name].shape[at], True
    if changed:
        yield smaller, inputs


def smaller_extents(model, inputs, values):
    """An extent wherever it stands: in inputs, constants, and the numbers of shapes."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    extents = sorted({e for a in list(inputs.values()) + list(arrays.values()) for e in a.shape if e > 1}, reverse=True)
    for extent in extents:
        for to in sorted({1, 2, extent // 2, extent - 1} - {extent, 0}):
            cut = lambda a: a[tuple(slice(0, to) if e == extent else slice(None) for e in a.shape)]
            smaller = copied(model)
            for t in smaller.graph.initializer:
                array = cut(arrays[t.name])
                if array.dtype == numpy.int64:
                    array = numpy.where(array == extent, to, array)
                t.CopyFrom(numpy_helper.from_array(numpy.ascontiguousarray(array), t.name))
            for i in smaller.graph.input:
                for dim in i.type.tensor_type.shape.dim:
                    if dim.dim_value == extent:
                        dim.dim_value = to
            for o in smaller.graph.output:
                o.type.tensor_type.ClearField("shape")
            yield smaller, {n: numpy.ascontiguousarray(cut(a)) for n, a in inputs.items()}


STEPS = (one_output_each, earlier_ends, later_starts, bypassed, fixed_extents, smaller_extents)


class Shrinker:
    def __init__(self, judge, folder):
        self.judge, self.path = judge, pathlib.Path(folder) / "candidate.onnx"

    def verdict(self, model, inputs):
        try:
            expected = onnxruntime(model, inputs)
        except Exception:
            return None
        self.path.write_bytes(with_data(model, inputs, expected).SerializeToString())
        return self.judge.ask(self.path)

    def shrink(self, model, inputs):
        """(model, inputs, verdict) of a smaller network of the same fault."""
        verdict = self.verdict(model, inputs)
        if verdict is None or verdict["verdict"] in ("agrees", "refused"):
            return model, inputs, None  # by itself it does not fail
        wanted, progress = signature(verdict), True
        while progress:
            progress = False
            for step in STEPS:
                found = self.first(step, model, inputs, wanted)
                while found:
                    model, inputs, verdict = found
                    progress = True
                    found = self.first(step, model, inputs, wanted)
        return model, inputs, verdict

    def first(self, step, model, inputs, wanted):
        try:
            values = intermediates(model, inputs)
        except Exception:
            values = {}
        for smaller, data in step(model, inputs, values):
            try:
                candidate = pruned(smaller, data)
            except Exception:
                continue
            if not candidate[1] or candidate[0].SerializeToString() == model.SerializeToString():
                continue
            verdict = self.verdict(*candidate)
            if verdict and signature(verdict) == wanted:
                return *candidate, verdict
        return None


def shrink_file(judge, source, target):
    model, inputs, _ = without_data(onnx.load(source))
    with tempfile.TemporaryDirectory() as folder:
        model, inputs, verdict = Shrinker(judge, folder).shrink(model, inputs)
    if verdict is not None:
        pathlib.Path(target).write_bytes(with_data(model, inputs, onnxruntime(model, inputs)).SerializeToString())
    return verdict, [n.op_type for n in model.graph.node]


if __name__ == "__main__":
    program = Judge([sys.argv[1]] + sys.argv[4:])
    said, operators = shrink_file(program, sys.argv[2], sys.argv[3])
    program.close()
    print(" ".join(operators), said)
