#!/usr/bin/env python3
"""Writes the small ONNX models of tests/data/onnx and, beside each, inputs with the outputs of ONNX Runtime.

usage: make_onnx.py [FOLDER]      (needs the Python packages onnx, onnxruntime and numpy)

One model tests one operator, or one pattern that exporters make of several. CASE.json holds
{"inputs": {name: {"shape": […], "data": […]}}, "outputs": {…}}.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = []


def case(name, opset=21):
    def add(function):
        CASES.append((name, opset, function))
        return function
    return add


class Graph:
    """Collects nodes, constants and inputs of one model."""

    def __init__(self, seed):
        self.nodes, self.constants, self.inputs, self.given = [], [], [], {}
        self.random = np.random.RandomState(seed)

    def input(self, shape, symbols=(), low=-2.0, high=2.0):
        """A float input; `symbols` replace the first extents in the declared shape."""
        name = f"x{len(self.inputs)}"
        declared = list(symbols) + list(shape[len(symbols):])
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))
        self.given[name] = self.random.uniform(low, high, shape).astype(np.float32)
        return name

    def constant(self, array, raw=True):
        name = f"c{len(self.constants)}"
        if raw:
            self.constants.append(numpy_helper.from_array(array, name))
        else:  # in the field of the type instead of bytes
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            self.constants.append(helper.make_tensor(name, kind, array.shape, array.flatten().tolist()))
        return name

    def weights(self, *shape, scale=0.5):
        return self.constant((self.random.uniform(-1, 1, shape) * scale).astype(np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def node(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op.lower()}_{len(self.nodes)}", **attributes))
        return name


def pointwise(name, op, opset=21, low=-3.0, high=3.0, **attributes):
    CASES.append((name, opset, lambda g: g.node(op, [g.input((2, 3, 2, 3), low=low, high=high)], **attributes)))


for name, op in [("relu", "Relu"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("softplus", "Softplus"), ("exp", "Exp"),
                 ("neg", "Neg"), ("abs", "Abs"), ("mish", "Mish"), ("hardswish", "HardSwish"), ("erf", "Erf"),
                 ("identity", "Identity"), ("sin", "Sin"), ("cos", "Cos")]:
    pointwise(name, op)
pointwise("log", "Log", low=0.1)
pointwise("sqrt", "Sqrt", low=0.0)
pointwise("reciprocal", "Reciprocal", low=0.5)
pointwise("leaky_relu", "LeakyRelu", alpha=0.2)
pointwise("leaky_relu_default", "LeakyRelu")
pointwise("elu", "Elu", alpha=1.5)
pointwise("hard_sigmoid", "HardSigmoid", alpha=0.3, beta=0.4)
pointwise("hard_sigmoid_default", "HardSigmoid")
pointwise("gelu", "Gelu")
pointwise("gelu_tanh", "Gelu", approximate="tanh")
pointwise("relu_opset11", "Relu", opset=11)


@case("mish_written_out", 17)
def _(g):
    x = g.input((1, 4, 3, 3))
    return g.node("Mul", [x, g.node("Tanh", [g.node("Softplus", [x])])])


@case("clip")
def _(g):
    return g.node("Clip", [g.input((2, 3, 2, 3)), g.constant(np.float32(-0.5)), g.constant(np.float32(1.25))])


@case("clip_above")
def _(g):
    return g.node("Clip", [g.input((2, 3, 2, 3)), "", g.constant(np.float32(0.75))])


@case("pow")
def _(g):
    square = g.node("Pow", [g.input((2, 3)), g.constant(np.float32(2))])
    return g.node("Pow", [g.node("Exp", [square]), g.constant(np.float32(0.3))])


@case("arithmetic_broadcast")
def _(g):
    x = g.input((2, 3, 4, 5), ("batch",))
    v = g.node("Add", [x, g.weights(3, 1, 1)])       # a channel
    v = g.node("Mul", [g.input((2, 3, 1, 1), ("batch",)), v])  # an image and channel
    v = g.node("Sub", [v, g.weights(1)])             # a scalar
    v = g.node("Div", [v, g.constant(g.random.uniform(1, 2, (5,)).astype(np.float32))])  # a column of pixels
    v = g.node("Add", [v, g.weights(3, 4, 5)])       # a whole image
    return g.node("Add", [v, g.input((2, 1, 4, 5), ("batch",))])  # a pixel


@case("variadic")
def _(g):
    x, y, z = g.input((2, 3)), g.input((2, 3)), g.input((1, 3))
    return g.node("Sum", [g.node("Max", [x, y, z]), g.node("Min", [x, y]), z])


def convolution(name, shape, filters, bias=True, opset=21, op="Conv", **attributes):
    def build(g):
        outputs = filters[0] if op == "Conv" else filters[1] * attributes.get("group", 1)
        inputs = [g.input(shape, ("batch",)), g.weights(*filters)] + ([g.weights(outputs)] if bias else [])
        return g.node(op, inputs, **attributes)
    CASES.append((name, opset, build))


convolution("conv", (2, 3, 7, 6), (5, 3, 3, 3), pads=[1, 1, 1, 1])
convolution("conv_no_bias", (2, 3, 7, 6), (5, 3, 3, 3), bias=False)
convolution("conv_stride_dilation", (1, 4, 11, 12), (6, 4, 3, 2), strides=[2, 3], dilations=[2, 1], pads=[1, 0, 2, 1])
convolution("conv_groups", (1, 6, 5, 5), (4, 3, 3, 3), group=2, pads=[1, 1, 1, 1])
convolution("conv_depthwise", (1, 6, 5, 5), (6, 1, 3, 3), group=6)
convolution("conv_same_upper", (1, 3, 7, 8), (4, 3, 4, 3), auto_pad="SAME_UPPER", strides=[2, 2])
convolution("conv_same_lower", (1, 3, 7, 8), (4, 3, 4, 3), auto_pad="SAME_LOWER", strides=[2, 2])
convolution("conv_valid", (1, 3, 7, 8), (4, 3, 3, 3), auto_pad="VALID", opset=11)
convolution("conv_transpose", (2, 4, 5, 6), (4, 3, 3, 3), op="ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1],
            output_padding=[1, 0])
convolution("conv_transpose_groups", (1, 4, 5, 5), (4, 2, 2, 2), op="ConvTranspose", strides=[2, 2], group=2,
            bias=False)


@case("gemm")
def _(g):
    return g.node("Gemm", [g.input((3, 4), ("batch",)), g.weights(5, 4), g.weights(5)], transB=1)


@case("gemm_alpha_beta")
def _(g):
    return g.node("Gemm", [g.input((4, 3)), g.weights(4, 5), g.weights(3, 1)], transA=1, alpha=0.5, beta=2.0)


@case("matmul")
def _(g):
    return g.node("Add", [g.node("MatMul", [g.input((2, 3, 4), ("batch",)), g.weights(4, 5)]), g.weights(5)])


@case("matmul_rank4")
def _(g):
    return g.node("MatMul", [g.input((2, 3, 2, 4), ("batch",)), g.weights(4, 5)])


def group_normalisation(name, opset):
    def build(g):
        per = 2 if opset < 21 else 6
        inputs = [g.input((2, 6, 4, 5), ("batch",)), g.weights(per), g.weights(per)]
        return g.node("GroupNormalization", inputs, num_groups=2, epsilon=1e-3)
    CASES.append((name, opset, build))


group_normalisation("group_norm", 21)
group_normalisation("group_norm_opset18", 18)


def exported_group_norm(g, x, channels, groups, shape_back):
    """What PyTorch's TorchScript exporter makes of GroupNorm."""
    flat = g.node("Reshape", [x, g.ints(0, groups, -1)])
    one, zero = g.constant(np.ones(groups, np.float32)), g.constant(np.zeros(groups, np.float32))
    v = g.node("InstanceNormalization", [flat, one, zero], epsilon=1e-5)
    v = g.node("Reshape", [v, shape_back])
    return g.node("Add", [g.node("Mul", [v, g.weights(channels, 1, 1)]), g.weights(channels, 1, 1)])


@case("group_norm_exported", 17)
def _(g):
    x = g.input((2, 6, 4, 5), ("batch",))
    return exported_group_norm(g, x, 6, 3, g.node("Shape", [x]))


@case("group_norm_exported_fixed", 13)
def _(g):
    x = g.input((2, 6, 4, 5))
    return exported_group_norm(g, x, 6, 3, g.ints(2, 6, 4, 5))


@case("instance_norm")
def _(g):
    return g.node("InstanceNormalization", [g.input((2, 3, 4, 5)), g.weights(3), g.weights(3)], epsilon=1e-2)


@case("instance_norm_1d")
def _(g):
    return g.node("InstanceNormalization", [g.input((2, 3, 8)), g.weights(3), g.weights(3)])


@case("batch_norm")
def _(g):
    variance = g.constant(g.random.uniform(0.1, 2, 3).astype(np.float32))
    return g.node("BatchNormalization", [g.input((2, 3, 4, 5)), g.weights(3), g.weights(3), g.weights(3), variance],
                  epsilon=1e-3)


@case("batch_norm_2d")
def _(g):
    variance = g.constant(g.random.uniform(0.1, 2, 3).astype(np.float32))
    return g.node("BatchNormalization", [g.input((4, 3)), g.weights(3), g.weights(3), g.weights(3), variance])


@case("softmax_channels")
def _(g):
    return g.node("Softmax", [g.input((2, 3, 4, 5))], axis=1)


@case("softmax_last")
def _(g):
    return g.node("Softmax", [g.node("Softmax", [g.input((2, 3, 4, 5))], axis=-1)], axis=3)


def pooling(name, op, shape=(2, 3, 7, 8), **attributes):
    CASES.append((name, 21, lambda g: g.node(op, [g.input(shape)], **attributes)))


pooling("max_pool", "MaxPool", kernel_shape=[2, 2], strides=[2, 2])
pooling("max_pool_pad", "MaxPool", kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 0])
pooling("max_pool_ceil", "MaxPool", kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)
pooling("max_pool_dilation", "MaxPool", kernel_shape=[2, 3], dilations=[3, 2])
pooling("average_pool", "AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
pooling("average_pool_count_pad", "AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        count_include_pad=1)
pooling("global_average_pool", "GlobalAveragePool")


def resizing(name, scales=None, sizes=None, shape=(1, 2, 4, 5), opset=21, **attributes):
    def build(g):
        scale = g.constant(np.array(scales, np.float32)) if scales else ""
        extents = [g.ints(*sizes)] if sizes else []
        return g.node("Resize", [g.input(shape, ("batch",)), "", scale] + extents, **attributes)
    CASES.append((name, opset, build))


resizing("resize_nearest", [1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
resizing("resize_nearest_half_pixel", [1, 1, 1.5, 2.5])
resizing("resize_nearest_ceil", [1, 1, 2, 3], coordinate_transformation_mode="align_corners", nearest_mode="ceil")
resizing("resize_nearest_prefer_ceil", [1, 1, 0.5, 0.8], nearest_mode="round_prefer_ceil", opset=13)
resizing("resize_linear", [1, 1, 2, 2], mode="linear")
resizing("resize_linear_corners", [1, 1, 2, 2], mode="linear", coordinate_transformation_mode="align_corners")
resizing("resize_linear_asymmetric", [1, 1, 1.5, 0.5], mode="linear", coordinate_transformation_mode="asymmetric")
resizing("resize_linear_pytorch", [1, 1, 3, 0.2], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
resizing("resize_axes", [2, 3], axes=[2, 3], mode="linear")


@case("resize_sizes")
def _(g):
    x = g.input((2, 2, 4, 5), ("batch",))
    head = g.node("Slice", [g.node("Shape", [x]), g.ints(0), g.ints(2), g.ints(0)])
    sizes = g.node("Concat", [head, g.ints(7, 9)], axis=0)
    return g.node("Resize", [x, "", "", sizes], mode="linear")


@case("concat")
def _(g):
    x, y = g.input((2, 3, 2, 2)), g.input((2, 1, 2, 2))
    return g.node("Concat", [g.node("Relu", [x]), y, g.node("Relu", [x]), g.node("Exp", [y])], axis=1)


@case("concat_axes")
def _(g):
    x = g.input((2, 3, 2, 4))
    return g.node("Concat", [g.node("Concat", [x, g.node("Neg", [x])], axis=-1), g.weights(2, 3, 1, 8)], axis=2)


@case("flatten")
def _(g):
    return g.node("Gemm", [g.node("Flatten", [g.node("Relu", [g.input((2, 3, 2, 2), ("batch",))])]), g.weights(12, 3)])


@case("reshape_chain")
def _(g):
    x = g.node("Relu", [g.input((2, 4, 3, 3), ("batch",))])
    batch = g.node("Gather", [g.node("Shape", [x]), g.constant(np.array(0, np.int64))])
    target = g.node("Concat", [g.node("Unsqueeze", [batch, g.ints(0)]), g.ints(2, 18)], axis=0)
    return g.node("Reshape", [x, target])


@case("reshape_images")
def _(g):
    return g.node("Reshape", [g.node("Relu", [g.input((2, 4, 3, 6))]), g.ints(0, 8, -1, 3)])


@case("squeeze_excite")
def _(g):
    x = g.node("Relu", [g.input((2, 4, 3, 3), ("batch",))])
    v = g.node("Flatten", [g.node("GlobalAveragePool", [x])])
    v = g.node("Relu", [g.node("Gemm", [v, g.weights(2, 4), g.weights(2)], transB=1)])
    v = g.node("Sigmoid", [g.node("Gemm", [v, g.weights(4, 2), g.weights(4)], transB=1)])
    return g.node("Mul", [x, g.node("Unsqueeze", [g.node("Unsqueeze", [v, g.ints(2)]), g.ints(3)])])


@case("transpose")
def _(g):
    v = g.node("Transpose", [g.node("Relu", [g.input((2, 3, 4, 5))])], perm=[0, 2, 3, 1])
    return g.node("Transpose", [g.node("Transpose", [v], perm=[1, 0, 3, 2])])


@case("pad")
def _(g):
    return g.node("Pad", [g.input((1, 2, 3, 4)), g.ints(0, 1, 2, -1, 0, 0, 1, 3), g.constant(np.float32(0.5))])


@case("pad_axes")
def _(g):
    return g.node("Pad", [g.input((1, 2, 3, 4)), g.ints(1, 2, 3, 4), "", g.ints(2, -1)])


@case("constants")
def _(g):
    """Constants of every kind, in every field, and a chain of integers."""
    x = g.input((2, 3))
    half = g.constant(np.array([1.5, -2, 0.25], np.float16))
    double = g.constant(np.array([1e-3, 2, 3], np.float64), raw=False)
    plain = g.constant(np.array([1, 2, 3], np.float32), raw=False)
    to_float = {"to": TensorProto.FLOAT}
    v = g.node("Add", [x, g.node("Cast", [half], **to_float)])
    v = g.node("Mul", [v, g.node("Cast", [double], **to_float)])
    v = g.node("Add", [v, plain])
    v = g.node("Mul", [v, g.node("Constant", [], value_float=2.0)])
    v = g.node("Add", [v, g.node("Constant", [], value_floats=[0.5, 0.25, 0.125])])
    v = g.node("Add", [v, g.node("Constant", [], value=numpy_helper.from_array(np.array([3.0], np.float32)))])
    six = g.node("Mul", [g.node("Constant", [], value_ints=[3]), g.node("Constant", [], value_ints=[2])])
    ones = g.node("ConstantOfShape", [six], value=numpy_helper.from_array(np.array([1.0], np.float32)))
    return g.node("Add", [g.node("Dropout", [g.node("Reshape", [v, six])]), ones])


@case("two_outputs")
def _(g):
    x = g.input((1, 3, 4, 4), ("batch",))
    h = g.node("Conv", [x, g.weights(4, 3, 3, 3), g.weights(4)], pads=[1, 1, 1, 1])
    return [h, g.node("Relu", [h]), g.node("Identity", [x])]


@case("batch_norm_1d")
def _(g):
    variance = g.constant(g.random.uniform(0.1, 2, 3).astype(np.float32))
    return g.node("BatchNormalization", [g.input((2, 3, 4)), g.weights(3), g.weights(3), g.weights(3), variance])


def expand_as_exported(g, x, *extents):
    """x.expand(…) as the TorchScript exporter writes it: -1, which keeps an extent, becomes 1."""
    joined = g.node("Concat", list(extents), axis=0)
    shape = g.node("Reshape", [joined, g.ints(-1)])
    ones = g.node("ConstantOfShape", [g.node("Shape", [shape])], value=numpy_helper.from_array(np.array([1], np.int64)))
    keeps = g.node("Equal", [shape, g.node("Mul", [ones, g.constant(np.array(-1, np.int64))])])
    return g.node("Expand", [x, g.node("Where", [keeps, ones, shape])])


@case("expand_exported", 17)
def _(g):
    """A row of weights for each image of a batch that is open, joined with the image's rows."""
    x = g.input((3, 2, 4), ("batch",))
    batch = g.node("Gather", [g.node("Shape", [x]), g.constant(np.array(0, np.int64))])
    batch = g.node("Unsqueeze", [batch, g.ints(0)])
    row = expand_as_exported(g, g.weights(1, 1, 4), batch, g.ints(-1), g.ints(-1))
    return g.node("Concat", [row, x], axis=1)


@case("expand_symbols", 17)
def _(g):
    """To the shape of no tensor: numbers and two symbols, of which one is at another place."""
    x, y = g.input((2, 3, 4), ("batch", "rows")), g.input((3, 1), ("rows",))
    extent = lambda of, axis: g.node("Slice", [g.node("Shape", [of]), g.ints(axis), g.ints(axis + 1)])
    return g.node("Expand", [y, g.node("Concat", [extent(x, 0), g.ints(5), extent(x, 1), g.ints(2)], axis=0)])


@case("shape_arithmetic", 17)
def _(g):
    """Products, quotients and differences of open extents, as shapes and as numbers of the run."""
    x = g.input((2, 3, 8, 16), ("batch", 3, "rows", "columns"))
    shape = g.node("Shape", [x])
    one = lambda n: g.constant(np.array(n, np.int64))
    rows, columns = (g.node("Gather", [shape, one(axis)]) for axis in (2, 3))
    area = g.node("Mul", [rows, columns])
    start = g.node("Slice", [shape, g.ints(0), g.ints(2)])
    flat = g.node("Reshape", [x, g.node("Concat", [start, g.node("Unsqueeze", [area, g.ints(0)])], axis=0)])
    odd = g.node("Sub", [g.node("Add", [area, g.node("Add", [columns, rows])]), g.node("Sub", [columns, rows])])
    flat = g.node("Mul", [flat, g.node("Cast", [odd], to=TensorProto.FLOAT)])
    half = {"kernel_shape": [2, 2], "strides": [2, 2]}
    quarter = g.node("MaxPool", [g.node("MaxPool", [x], **half)], **half)
    parts = [g.node("Unsqueeze", [g.node("Div", [n, one(4)]), g.ints(0)]) for n in (rows, columns)]
    sizes = g.node("Concat", [start, *parts], axis=0)
    wide = g.node("Resize", [g.node("MaxPool", [quarter], **half), "", "", sizes], mode="linear")
    return [flat, g.node("Add", [quarter, wide])]


@case("pad_integers")
def _(g):
    padded = g.node("Pad", [g.ints(5, 6), g.ints(1, 0)])
    return g.node("Add", [g.input((2, 3)), g.node("Cast", [padded], to=TensorProto.FLOAT)])


@case("einsum_attention", 17)
def _(g):
    """Products of two computed batches, by an equation, with open extents."""
    q, k, v = (g.input((2, 3, 2, 4), ("batch", "rows")) for _ in range(3))
    weights = g.node("Softmax", [g.node("Einsum", [q, k], equation="bqhd,bkhd->bhqk")], axis=-1)
    return g.node("Einsum", [weights, v], equation="bhqk, bkhd -> bqhd")


@case("einsum_sums", 17)
def _(g):
    x, y = g.input((2, 3, 4)), g.input((4, 3, 3))
    total = g.node("Einsum", [x], equation="a...->...")
    diagonal = g.node("Einsum", [y, x], equation="kii,bik->bi")
    chain = g.node("Einsum", [x, g.weights(4, 5), g.weights(5, 2)], equation="abc,cd,de")
    outer = g.node("Einsum", [g.input((2,)), g.input((3,))], equation="i,j->ji")
    return [total, diagonal, chain, outer]


@case("causal_mask", 17)
def _(g):
    """As transformers are exported: places below an open extent, compared, and a triangle of as many rows."""
    x = g.input((2, 4, 4), ("batch", "rows", "rows"))
    rows = g.node("Gather", [g.node("Shape", [x]), g.constant(np.array(1, np.int64))], axis=0)
    one, zero = g.constant(np.array(1, np.int64)), g.constant(np.array(0, np.int64))
    places = g.node("Range", [zero, rows, one])
    below = g.node("GreaterOrEqual", [g.node("Unsqueeze", [places, g.ints(1)]), places])
    masked = g.node("Where", [below, x, g.constant(np.array(-100, np.float32))])
    longer = g.node("Range", [one, g.node("Add", [rows, g.constant(np.array(3, np.int64))]), one])
    return [masked, g.node("Trilu", [x, one], upper=0), g.node("Cast", [longer], to=TensorProto.FLOAT)]


@case("top_k")
def _(g):
    x = g.input((2, 5, 3), ("batch",))
    names = ["values", "places"]
    g.nodes.append(helper.make_node("TopK", [x, g.ints(2)], names, axis=1, largest=0))
    return [names[0], g.node("Cast", [names[1]], to=TensorProto.FLOAT)]


@case("scatter_and_one_hot", 18)
def _(g):
    x = g.input((3, 4))
    at = g.constant(np.array([[0], [-1], [0]], np.int64))
    y = g.node("ScatterND", [x, at, g.input((3, 4))], reduction="add")
    inputs = [g.ints(1, -1, 7), g.constant(np.array(4, np.int64)), g.constant(np.array([2, 5], np.float32))]
    hot = g.node("OneHot", inputs)
    return g.node("Mul", [y, hot])


@case("grid_sample", 20)
def _(g):
    x, grid = g.input((2, 3, 4, 5), ("batch",)), g.input((2, 3, 2, 2), ("batch",), low=-1.2, high=1.2)
    modes = [("linear", "zeros", 1), ("cubic", "zeros", 0), ("linear", "reflection", 0)]
    return [g.node("GridSample", [x, grid], mode=m, padding_mode=p, align_corners=a) for m, p, a in modes]


def last_layer_norm(channels):
    """How ConvNeXt ends: LayerNormalization over the channels of single pixels, in their own order of axes."""
    def build(g):
        x = g.node("Transpose", [g.input((1, channels, 1, 1))], perm=[0, 2, 3, 1])
        y = g.node("LayerNormalization", [x, g.weights(channels), g.weights(channels)], axis=-1, epsilon=1e-6)
        return g.node("Transpose", [y], perm=[0, 3, 1, 2])
    return build


case("layer_norm_of_pixels", 18)(last_layer_norm(16))
case("layer_norm_of_wide_pixels", 18)(last_layer_norm(768))


@case("multiply_last_axis", 18)
def _(g):
    """A vector along the last axis of an image of one row and one channel."""
    return g.node("Mul", [g.input((1, 1, 1, 320)), g.weights(320)])


@case("group_norm_dynamo", 18)
def _(g):
    """What PyTorch's dynamo exporter makes of every GroupNorm behind a convolution: scale and shift are (C,1,1)."""
    x = g.node("Conv", [g.input((2, 8, 6, 6)), g.weights(16, 8, 3, 3, scale=0.2)], pads=[1, 1, 1, 1])
    return g.node("Relu", [exported_group_norm(g, x, 16, 4, g.ints(2, 16, 6, 6))])


@case("attention_grouped", 23)
def _(g):
    """Four heads of queries, two of keys, of an open number of places, none of which looks ahead."""
    q, k, v = (g.input(shape, ("batch", shape[1], "rows")) for shape in ((2, 4, 3, 6), (2, 2, 3, 6), (2, 2, 3, 5)))
    return g.node("Attention", [q, k, v], is_causal=1, scale=0.4)


@case("attention_flat", 23)
def _(g):
    q, k, v = g.input((2, 3, 8), ("batch",)), g.input((2, 5, 8), ("batch",)), g.input((2, 5, 8), ("batch",))
    mask = g.constant(np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0], [0, 1, 1, 1, 1]], bool))
    flat = g.node("Attention", [q, k, v, mask], q_num_heads=4, kv_num_heads=4)
    past = [g.input((2, 4, 2, 2), ("batch",)) for _ in range(2)]
    names = [f"attention{i}" for i in range(3)]
    inputs = [q, k, v, g.input((3, 7)), *past]
    g.nodes.append(helper.make_node("Attention", inputs, names, q_num_heads=4, kv_num_heads=4))
    return [flat, *names]


@case("rotary_embedding", 23)
def _(g):
    x, flat = g.input((2, 3, 4, 8), ("batch", 3, "rows")), g.input((2, 4, 12), ("batch", "rows"))

    def angles(columns):
        turns = np.outer(np.arange(9), 0.3 / (1 + np.arange(columns)))
        return [g.constant(f(turns).astype(np.float32)) for f in (np.cos, np.sin)]

    places = g.constant(np.array([[0, 1, 2, 3], [5, 6, 7, 8]], np.int64))
    halves = g.node("RotaryEmbedding", [x, *angles(4), places])
    pairs = g.node("RotaryEmbedding", [flat, *angles(2), places], interleaved=1, num_heads=2, rotary_embedding_dim=4)
    return [halves, pairs]


@case("rms_normalization", 23)
def _(g):
    x = g.input((2, 3, 4), ("batch",))
    return [g.node("RMSNormalization", [x, g.weights(4)], epsilon=1e-3),
            g.node("RMSNormalization", [g.input((2, 3, 2, 4)), g.weights(2, 4)], axis=2)]


# Sizes that keep the image's proportions: what is rounded is how many pixels there are, not where they lie
for name, policy, attributes in [("resize_not_larger", "not_larger", {}), ("resize_not_smaller", "not_smaller", {}),
                                 ("resize_not_larger_nearest", "not_larger", dict(mode="nearest")),
                                 ("resize_not_smaller_asymmetric", "not_smaller",
                                  dict(coordinate_transformation_mode="asymmetric"))]:
    def build(g, policy=policy, attributes=attributes):
        x = g.input((1, 2, 5, 4), ("batch",))
        return g.node("Resize", [x, "", "", g.ints(7, 9)],
                      **dict(dict(mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy), **attributes))
    CASES.append((name, 19, build))


@case("resize_proportions", 19)
def _(g):
    sizes = [g.node("Resize", [g.input((1, 2, 5, 7)), "", "", g.ints(3, 6)], mode=mode, antialias=antialias,
                    axes=[2, 3], keep_aspect_ratio_policy="not_smaller")
             for mode, antialias in (("cubic", 0), ("linear", 1))]
    exact = g.node("Resize", [g.input((1, 2, 4, 6)), "", "", g.ints(2, 9)], mode="linear", axes=[2, 3],
                   keep_aspect_ratio_policy="not_larger")
    return sizes + [exact]


# Reductions over no axes: what is left is done to each element
@case("reduce_over_no_axes", 18)
def _(g):
    x, none = g.input((2, 3), ("batch",)), g.ints()
    results = [g.node(op, [x, none] if given else [x], noop_with_empty_axes=1)
               for op in ("ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceProd")
               for given in (True, False)]
    return results + [g.node("ReduceLogSum", [g.input((2, 3), low=0.1)], noop_with_empty_axes=1)]


# Operators that ONNX defines as functions of others
pointwise("swish", "Swish", opset=24)
pointwise("swish_alpha", "Swish", opset=24, alpha=1.7)


@case("windows", 17)
def _(g):
    x = g.input((2, 7))
    return [g.node("Mul", [x, g.node(op, [g.constant(np.int64(7))], periodic=periodic)])
            for op in ("HannWindow", "HammingWindow", "BlackmanWindow") for periodic in (0, 1)]


@case("affine_grid", 20)
def _(g):
    plane, space = g.input((1, 2, 3)), g.input((2, 3, 4), ("batch",))
    grids = [g.node("AffineGrid", [plane, g.ints(1, 3, 4, 5)], align_corners=corners) for corners in (0, 1)]
    size = g.node("Concat", [g.node("Shape", [space], end=1), g.ints(1, 2, 3, 4)], axis=0)
    grids += [g.node("AffineGrid", [space, size], align_corners=corners) for corners in (0, 1)]
    return grids + [g.node("GridSample", [g.input((1, 3, 6, 7)), grids[0]], mode="linear")]


@case("attention_capped", 23)
def _(g):
    """The cap comes before the mask, which it would open again; one query sees no place but the first."""
    q, k, v = g.input((2, 2, 4, 6), ("batch",)), g.input((2, 2, 4, 6), ("batch",)), g.input((2, 2, 4, 3), ("batch",))
    mask = g.constant(np.array([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 0, 0, 0]], bool))
    added = g.input((4, 4))
    return [g.node("Attention", [q, k, v, mask], softcap=0.5),
            g.node("Attention", [q, k, v, added], softcap=0.7, scale=2.0),
            g.node("Attention", [q, k, v], softcap=0.5, is_causal=1)]


# Losses behind a linear layer, and gated units, as PyTorch's two exporters write them

def linear(g, rows, columns, of=None):
    x = g.input((rows, 16)) if of is None else of
    return g.node("Gemm", [x, g.weights(columns, 16), g.weights(columns)], transB=1)


def number(g, value):
    return g.constant(np.array(value, np.float32))


@case("bce_torchscript", 18)
def _(g):
    p, t = g.node("Sigmoid", [linear(g, 12, 8)]), g.input((12, 8), low=0.0, high=1.0)
    ones = [g.node("Sub", [number(g, 1.0), v]) for v in (t, p)]
    terms = [g.node("Mul", [a, g.node("Log", [b])]) for a, b in ((t, p), ones)]
    return g.node("Neg", [g.node("ReduceMean", [g.node("Add", terms)], keepdims=0)])


@case("bce_dynamo", 18)
def _(g):
    """binary_cross_entropy, whose logarithms are clamped; the mean keeps its axes and is squeezed."""
    p, t = g.node("Sigmoid", [linear(g, 12, 8)]), g.input((12, 8), low=0.0, high=1.0)
    floor = number(g, -100.0)
    off = g.node("Max", [g.node("Log", [g.node("Add", [g.node("Neg", [p]), number(g, 1.0)])]), floor])
    on = g.node("Max", [g.node("Log", [p]), floor])
    loss = g.node("Sub", [g.node("Mul", [g.node("Sub", [t, number(g, 1.0)]), off]), g.node("Mul", [t, on])])
    return g.node("Squeeze", [g.node("ReduceMean", [loss, g.ints(0, 1)], keepdims=1)])


@case("bce_logits_torchscript", 18)
def _(g):
    """With a weight of the positive class, and the sum."""
    z, t = linear(g, 12, 8), g.input((12, 8), low=0.0, high=1.0)
    p = g.node("Sigmoid", [z])
    off = g.node("Log", [g.node("Sub", [g.constant(np.ones(1, np.float32)), p])])
    t_off = g.node("Sub", [g.constant(np.ones(1, np.float32)), t])
    on = g.node("Mul", [g.node("Mul", [t, g.node("Log", [p])]), g.weights(8)])
    return g.node("ReduceSum", [g.node("Neg", [g.node("Add", [on, g.node("Mul", [t_off, off])])])], keepdims=0)


@case("bce_logits_dynamo", 18)
def _(g):
    z, t = linear(g, 12, 8), g.input((12, 8), low=0.0, high=1.0)
    loss = g.node("Sub", [g.node("Mul", [g.node("Sub", [number(g, 1.0), t]), z]),
                          g.node("Log", [g.node("Sigmoid", [z])])])
    return g.node("Squeeze", [g.node("ReduceMean", [loss, g.ints(0, 1)], keepdims=1)])


@case("bce_one_column", 18)
def _(g):
    """max(z, 0) - z*t + log(1 + exp(-|z|)), summed and divided by the rows."""
    z, t = linear(g, 12, 1), g.input((12, 1), low=0.0, high=1.0)
    soft = g.node("Log", [g.node("Add", [g.node("Exp", [g.node("Neg", [g.node("Abs", [z])])]), number(g, 1.0)])])
    loss = g.node("Add", [g.node("Sub", [g.node("Clip", [z, number(g, 0.0)]), g.node("Mul", [z, t])]), soft])
    return g.node("Div", [g.node("ReduceSum", [loss], keepdims=0), number(g, 12.0)])


def projected(g, columns, bias=True):
    y = g.node("MatMul", [g.input((2, 5, 16)), g.weights(16, columns)])
    return g.node("Add", [y, g.weights(columns)]) if bias else y


def erf_gelu(g, x):
    e = g.node("Erf", [g.node("Div", [x, number(g, 2 ** 0.5)])])
    return g.node("Mul", [g.node("Mul", [x, g.node("Add", [e, number(g, 1.0)])]), number(g, 0.5)])


def silu(g, x):
    return g.node("Mul", [x, g.node("Sigmoid", [x])])


@case("geglu_slices", 18)
def _(g):
    y = projected(g, 48)
    h, gate = (g.node("Slice", [y, g.ints(start), g.ints(end), g.ints(2)]) for start, end in ((0, 24), (24, 48)))
    return g.node("Mul", [h, erf_gelu(g, gate)])


@case("geglu_split", 18)
def _(g):
    y = projected(g, 48)
    g.nodes.append(helper.make_node("Split", [y], ["h", "gate"], axis=-1, num_outputs=2))
    return g.node("Mul", ["h", erf_gelu(g, "gate")])


@case("swiglu_two_products", 18)
def _(g):
    x = g.input((2, 5, 16))
    gate, up = (g.node("MatMul", [x, g.weights(16, 24)]) for _ in range(2))
    return g.node("Mul", [silu(g, gate), up])


@case("swiglu_interleaved", 18)
def _(g):
    y = projected(g, 48)
    last = np.iinfo(np.int64).max
    gate, up = (g.node("Slice", [y, g.ints(start), g.ints(last), g.ints(-1), g.ints(2)]) for start in (0, 1))
    gate = g.node("Clip", [gate, "", number(g, 0.5)])
    up = g.node("Clip", [up, number(g, -0.5), number(g, 0.5)])
    gated = g.node("Mul", [gate, g.node("Sigmoid", [g.node("Mul", [gate, number(g, 1.702)])])])
    return g.node("Mul", [g.node("Add", [up, number(g, 1.0)]), gated])


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, opset, build) in enumerate(CASES):
        graph = Graph(seed)
        results = build(graph)
        results = results if isinstance(results, list) else [results]
        outputs = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results]
        model = helper.make_model(helper.make_graph(graph.nodes, name, graph.inputs, outputs, graph.constants),
                                  opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(model, folder / f"{name}.onnx")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        values = dict(zip(results, session.run(None, graph.given)))
        record = {kind: {k: {"shape": list(v.shape), "data": [float(x) for x in v.flatten()]} for k, v in given.items()}
                  for kind, given in (("inputs", graph.given), ("outputs", values))}
        (folder / f"{name}.json").write_text(json.dumps(record) + "\n")
    print(f"{len(CASES)} models in {folder}")


main()
