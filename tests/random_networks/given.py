"""Weights of a network as inputs of it, as those of training and of compiled modules are."""

from onnx import TensorProto, helper, numpy_helper

READERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization", "GroupNormalization", "InstanceNormalization",
           "LayerNormalization", "RMSNormalization", "PRelu", "Add", "Mul", "Sub"}
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}


def with_given_weights(model, inputs):
    """(model, inputs) where each float constant that only such operators read is an input."""
    graph = model.graph
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    results = {o.name for o in graph.output}
    moved = [t for t in graph.initializer
             if t.data_type in FLOATS and t.dims and t.name not in results and readers.get(t.name, {""}) <= READERS]
    inputs = dict(inputs)
    for tensor in moved:
        inputs[tensor.name] = numpy_helper.to_array(tensor)
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    kept = [t for t in graph.initializer if t.name not in inputs]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model, inputs
