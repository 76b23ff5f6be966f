#!/usr/bin/env python3
"""Writes pooling.txt and resize.txt: what ONNX Runtime computes for small images, as tables for the tests.

usage: make_tables.py    (needs numpy, onnx and onnxruntime; writes beside this script)

One case is two lines: its attributes as key=value (lists with commas), then the output in NCHW order. The input is the
pattern ((37*i + 11) mod 64)/4 - 8 over the elements i of an NCHW image of shape `shape`.
"""
import itertools
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

here = pathlib.Path(__file__).parent


def pattern(shape):
    i = np.arange(np.prod(shape))
    return (((37 * i + 11) % 64) / 4 - 8).astype(np.float32).reshape(shape)


def run(node, shape, opset, constants=()):
    graph = helper.make_graph(
        [node], "case", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [onnx.numpy_helper.from_array(np.asarray(v), name=k) for k, v in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": pattern(shape)})[0]


def text(v):
    return ",".join(str(e) for e in v) if isinstance(v, (list, tuple)) else str(v)


def write(file, attributes, y):
    attributes = dict(attributes, out=list(y.shape))
    print(" ".join(f"{k}={text(v)}" for k, v in attributes.items()), file=file)
    print(" ".join(f"{v:.9g}" for v in y.ravel()), file=file)


def pooling(file):
    windows = [  # kernel, stride, pad (top, left, bottom, right), dilation
        ([2, 2], [2, 2], [0, 0, 0, 0], [1, 1]),
        ([3, 3], [2, 2], [1, 1, 1, 1], [1, 1]),
        ([3, 2], [1, 2], [0, 1, 2, 0], [1, 1]),
        ([2, 3], [3, 2], [1, 0, 0, 2], [2, 1]),
        ([3, 3], [3, 3], [1, 1, 0, 0], [1, 2]),
    ]
    shape = [1, 2, 5, 7]
    for (kernel, stride, pad, dilation), ceil in itertools.product(windows, [0, 1]):
        for kind, count in [("max", 0), ("average", 0), ("average", 1)]:
            attributes = dict(kernel_shape=kernel, strides=stride, pads=pad, dilations=dilation, ceil_mode=ceil)
            if kind == "average":
                attributes["count_include_pad"] = count
            node = helper.make_node("MaxPool" if kind == "max" else "AveragePool", ["x"], ["y"], **attributes)
            y = run(node, shape, 22)
            write(file, dict(kind=kind, shape=shape, kernel=kernel, stride=stride, pad=pad, dilation=dilation, ceil=ceil,
                             count_pad=count), y)


def resize(file):
    # Scales and regions are sums of few powers of two, so that no coordinate that ONNX Runtime computes in f32 falls on
    # the other side of a rounding or of the edge.
    coordinates = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                   "tf_crop_and_resize"]
    targets = [dict(size=[8, 10]), dict(size=[3, 2]), dict(size=[1, 7]), dict(scale=[1.5, 2.125]), dict(scale=[0.625, 0.4375])]
    shape = [1, 1, 4, 5]
    for coordinate, target in itertools.product(coordinates, targets):
        variants = [("nearest", dict(nearest_mode=m)) for m in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")]
        variants += [("linear", {}), ("cubic", dict(cubic_coeff_a=-0.75)), ("cubic", dict(cubic_coeff_a=-0.5, exclude_outside=1))]
        for mode, extra in variants:
            crop = coordinate == "tf_crop_and_resize"
            if crop and extra.get("exclude_outside"):
                continue  # ONNX Runtime refuses the pair
            roi = [0.0, 0.0, 0.125, 0.25, 1.0, 1.0, 0.875, 1.125] if crop else []
            constants = [("roi", np.asarray(roi, np.float32)),
                         ("scales", np.asarray([1, 1] + target["scale"] if "scale" in target else [], np.float32))]
            names = ["x", "roi", "scales"]
            if "size" in target:
                constants.append(("sizes", np.asarray(shape[:2] + target["size"], np.int64)))
                names = ["x", "roi", "", "sizes"]
                constants = [c for c in constants if c[0] != "scales"]
            attributes = dict(mode=mode, coordinate_transformation_mode=coordinate, **extra)
            if crop:
                attributes["extrapolation_value"] = 99.0
            y = run(helper.make_node("Resize", names, ["y"], **attributes), shape, 19, constants)
            case = dict(shape=shape, mode=mode, coordinates=coordinate, **extra, **target)
            if crop:
                case["roi"] = [0.125, 0.25, 0.875, 1.125]
            write(file, case, y)


for name, cases in [("pooling", pooling), ("resize", resize)]:
    with open(here / f"{name}.txt", "w") as file:
        cases(file)
