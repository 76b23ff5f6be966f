#!/usr/bin/env python3
"""Writes Conv2d -> GroupNormalization -> activation as ONNX, with the weights of .npy files, for the peers.

usage: block_onnx.py OUT.onnx --weights W.npy --bias B.npy --scale G.npy --shift Z.npy --groups G --activation silu|mish --height H --width W --batch N
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    for name in ("weights", "bias", "scale", "shift"):
        parser.add_argument("--" + name, required=True)
    for name in ("groups", "height", "width", "batch"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--activation", choices=("silu", "mish"), required=True)
    args = parser.parse_args()

    tensors = {name: np.load(getattr(args, name)) for name in ("weights", "bias", "scale", "shift")}
    k, c, r, s = tensors["weights"].shape
    nodes = [
        helper.make_node("Conv", ["x", "weights", "bias"], ["h"], pads=[r // 2, s // 2, r // 2, s // 2]),
        helper.make_node("GroupNormalization", ["h", "scale", "shift"], ["g"], num_groups=args.groups, epsilon=1e-5),
    ]
    if args.activation == "silu":
        nodes += [helper.make_node("Sigmoid", ["g"], ["s"]), helper.make_node("Mul", ["g", "s"], ["y"])]
    else:
        nodes.append(helper.make_node("Mish", ["g"], ["y"]))
    graph = helper.make_graph(
        nodes, "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [args.batch, c, args.height, args.width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [args.batch, k, args.height, args.width])],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, args.out)


main()
