"""Convolutions by ONNX's interpreter, as opinions.py corrects it, give what ONNX Runtime gives, whatever pads them."""

import itertools
import sys

import numpy
import opinions
from onnx import TensorProto, helper, numpy_helper


def error(auto_pad, axes, kernel, stride, group):
    numbers = numpy.random.default_rng(0)
    x = numbers.uniform(-1, 1, (2, 4, *(7, 9, 6)[:axes])).astype(numpy.float32)
    w = numbers.uniform(-1, 1, (6, 4 // group, *[kernel] * axes)).astype(numpy.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, strides=[stride] * axes, group=group)
    graph = helper.make_graph([node], "convolution", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return abs(opinions.interpreted(model, {"x": x})[0] - opinions.onnxruntime(model, {"x": x})["y"]).max()


def main():
    cases = list(itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2, 3), (1, 2, 3, 5), (1, 2, 3), (1, 2)))
    off = [c for c in cases if not error(*c) < 1e-4]
    print("\n".join(f"auto_pad, axes, kernel, stride, group = {c}: off by {error(*c):.3g}" for c in off) or f"{len(cases)} agree")
    sys.exit(bool(off))


if __name__ == "__main__":
    main()
