#!/usr/bin/env python3
"""Writes small_unet.onnx: a UNet with the inputs and output of a latent diffusion model's, of a few thousand weights.

usage: make_small_unet.py [FILE]      (needs the Python packages numpy and onnx)
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(7)
WIDTH, SIZE, TOKENS, TEXT = 16, 16, 5, 24
nodes, constants = [], []


def constant(value):
    constants.append(numpy_helper.from_array(value, f"c{len(constants)}"))
    return constants[-1].name


def weight(*shape):
    return constant((random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))


def integers(*values):
    return constant(np.array(values, np.int64))


def op(kind, *inputs, **attributes):
    nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"], **attributes))
    return nodes[-1].output[0]


def conv(x, channels, filters, stride=1):
    return op("Conv", x, weight(filters, channels, 3, 3), pads=[1, 1, 1, 1], strides=[stride, stride])


def silu(x):
    return op("Mul", x, op("Sigmoid", x))


def norm(x, channels):
    return op("GroupNormalization", x, constant(np.ones(channels, np.float32)), constant(np.zeros(channels, np.float32)), num_groups=4)


def residual(x, time):
    h = conv(silu(norm(x, WIDTH)), WIDTH, WIDTH)
    shift = op("Unsqueeze", op("MatMul", time, weight(WIDTH, WIDTH)), integers(2, 3))
    return op("Add", x, conv(silu(norm(op("Add", h, shift), WIDTH)), WIDTH, WIDTH))


def cross_attention(x, text, size):
    rows = op("Transpose", op("Reshape", x, integers(2, WIDTH, size * size)), perm=[0, 2, 1])
    q = op("MatMul", rows, weight(WIDTH, WIDTH))
    k = op("Transpose", op("MatMul", text, weight(TEXT, WIDTH)), perm=[0, 2, 1])
    v = op("MatMul", text, weight(TEXT, WIDTH))
    weights = op("Softmax", op("Mul", op("MatMul", q, k), constant(np.float32(WIDTH ** -0.5))), axis=-1)
    h = op("Transpose", op("MatMul", op("MatMul", weights, v), weight(WIDTH, WIDTH)), perm=[0, 2, 1])
    return op("Add", x, op("Reshape", h, integers(2, WIDTH, size, size)))


frequencies = constant(np.exp(-np.log(10000) * np.arange(WIDTH // 2) / (WIDTH // 2)).astype(np.float32)[None])
angles = op("Mul", op("Unsqueeze", op("Cast", "timestep", to=TensorProto.FLOAT), integers(1)), frequencies)
time = silu(op("MatMul", op("Concat", op("Cos", angles), op("Sin", angles), axis=1), weight(WIDTH, WIDTH)))
first = conv("sample", 4, WIDTH)
down = residual(first, time)
low = cross_attention(residual(conv(down, WIDTH, WIDTH, 2), time), "encoder_hidden_states", SIZE // 2)
up = op("Resize", low, "", constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor")
h = silu(norm(conv(op("Concat", up, down, axis=1), 2 * WIDTH, WIDTH), WIDTH))
nodes.append(helper.make_node("Conv", [h, weight(4, WIDTH, 3, 3)], ["noise"], pads=[1, 1, 1, 1]))

images = [2, 4, SIZE, SIZE]
graph = helper.make_graph(nodes, "small_unet", [
    helper.make_tensor_value_info("sample", TensorProto.FLOAT, images),
    helper.make_tensor_value_info("timestep", TensorProto.INT64, [2]),
    helper.make_tensor_value_info("encoder_hidden_states", TensorProto.FLOAT, [2, TOKENS, TEXT])],
    [helper.make_tensor_value_info("noise", TensorProto.FLOAT, images)], constants)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
onnx.checker.check_model(model, full_check=True)
onnx.save(model, sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("small_unet.onnx"))
