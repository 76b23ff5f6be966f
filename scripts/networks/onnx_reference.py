"""Evaluates an ONNX file in float64 or float32, for models that exist as files alone.

The interpreter is that of the package onnx; convolutions and pooling, for which it loops in Python, are PyTorch's, and
a resize is a matrix for each axis.
"""
import math

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from .onnx_float64 import CORRECTED, widened


def padding(x, w, kernel, strides, dilations, pads, auto_pad):
    """Pads of each axis, (before, after)"""
    spatial = len(kernel)
    if auto_pad in (None, "NOTSET"):
        pads = pads or [0] * (2 * spatial)
        return [(pads[i], pads[spatial + i]) for i in range(spatial)]
    if auto_pad == "VALID":
        return [(0, 0)] * spatial
    both = []
    for i in range(spatial):
        span = (kernel[i] - 1) * dilations[i] + 1
        total = max((math.ceil(x.shape[2 + i] / strides[i]) - 1) * strides[i] + span - x.shape[2 + i], 0)
        less = total // 2
        both.append((less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less))
    return both


def padded(x, pads, value=0.0):
    return torch.nn.functional.pad(torch.from_numpy(np.ascontiguousarray(x)), [p for b in reversed(pads) for p in b],
                                   value=value)


class Conv(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=1, kernel_shape=None, pads=None, strides=None):
        spatial = x.ndim - 2
        strides, dilations = strides or [1] * spatial, dilations or [1] * spatial
        both = padding(x, w, w.shape[2:], strides, dilations, pads, auto_pad)
        conv = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}[spatial]
        y = conv(padded(x, both), torch.tensor(w), None, strides, 0, dilations, group or 1).numpy()
        return (y if b is None else y + b.reshape(-1, *[1] * spatial),)


class ConvTranspose(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=1, kernel_shape=None, output_padding=None,
             output_shape=None, pads=None, strides=None):
        spatial = x.ndim - 2
        if auto_pad not in (None, "NOTSET") or output_shape or spatial != 2:
            raise NotImplementedError("ConvTranspose with auto_pad, output_shape or other than two axes")
        pads = pads or [0] * (2 * spatial)
        if pads[:spatial] != pads[spatial:]:
            raise NotImplementedError("ConvTranspose with pads that differ before and after")
        y = torch.nn.functional.conv_transpose2d(torch.tensor(x), torch.tensor(w), None, strides or 1, pads[:spatial],
                                                 output_padding or 0, group or 1, dilations or 1).numpy()
        return (y if b is None else y + b.reshape(-1, *[1] * spatial),)


class MaxPool(OpRun):
    def _run(self, x, auto_pad=None, ceil_mode=0, dilations=None, kernel_shape=None, pads=None, storage_order=None,
             strides=None):
        strides, dilations = strides or [1, 1], dilations or [1, 1]
        both = padding(x, None, kernel_shape, strides, dilations, pads, auto_pad)
        y = torch.nn.functional.max_pool2d(padded(x, both, -math.inf), kernel_shape, strides, 0, dilations,
                                           bool(ceil_mode))
        return (y.numpy(),)


class AveragePool(OpRun):
    def _run(self, x, auto_pad=None, ceil_mode=0, count_include_pad=0, dilations=None, kernel_shape=None, pads=None,
             strides=None):
        both = padding(x, None, kernel_shape, strides or [1, 1], [1, 1], pads, auto_pad)
        if ceil_mode or any(b != a for b, a in both):
            raise NotImplementedError("AveragePool with ceil_mode or pads that differ before and after")
        y = torch.nn.functional.avg_pool2d(torch.from_numpy(x), kernel_shape, strides or 1, [b for b, _ in both], False,
                                           bool(count_include_pad)).numpy()
        return (y,)


class Resize(OpRun):
    """nearest and linear, one axis after the other"""

    def _run(self, x, roi=None, scales=None, sizes=None, antialias=None, axes=None, coordinate_transformation_mode=None,
             cubic_coeff_a=None, exclude_outside=None, extrapolation_value=None, keep_aspect_ratio_policy=None,
             mode=None, nearest_mode=None):
        if antialias or axes is not None or mode not in (b"linear", "linear", b"nearest", "nearest"):
            raise NotImplementedError(f"Resize with mode {mode}, antialias or axes")
        given = scales is not None and scales.size > 0
        for axis in range(x.ndim):
            length = x.shape[axis]
            out = math.floor(length * scales[axis]) if given else int(sizes[axis])
            scale = float(scales[axis]) if given else out / length
            if out != length or scale != 1:
                taps = self.taps(length, out, scale, mode, coordinate_transformation_mode, nearest_mode).astype(x.dtype)
                x = np.moveaxis(np.tensordot(taps, x, (1, axis)), 0, axis)
        return (np.ascontiguousarray(x),)

    @staticmethod
    def taps(length, out, scale, mode, coordinates, nearest):
        """(out, length): what of which element"""
        o = np.arange(out, dtype=np.float64)
        if coordinates == "align_corners":
            at = o * (length - 1) / (out - 1) if out > 1 else o * 0
        elif coordinates == "asymmetric":
            at = o / scale
        elif coordinates in ("half_pixel", "pytorch_half_pixel"):
            at = (o + 0.5) / scale - 0.5 if coordinates == "half_pixel" or out > 1 else o * 0
        else:
            raise NotImplementedError(f"Resize with coordinates {coordinates}")
        taps = np.zeros((out, length))
        rows = np.arange(out)
        if mode == "nearest":
            round_to = {"floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda a: np.ceil(a - 0.5),
                        "round_prefer_ceil": lambda a: np.floor(a + 0.5)}[nearest]
            taps[rows, np.clip(round_to(at), 0, length - 1).astype(int)] = 1
            return taps
        at = np.clip(at, 0, length - 1)
        low = np.floor(at).astype(int)
        np.add.at(taps, (rows, low), 1 - (at - low))
        np.add.at(taps, (rows, np.minimum(low + 1, length - 1)), at - low)
        return taps


OPERATORS = [Conv, ConvTranspose, MaxPool, AveragePool, Resize, *CORRECTED]


def evaluate(path, inputs, dtype):
    """The outputs, with dtype (float64 or float32) in place of every float."""
    model = onnx.load(str(path))
    evaluator = ReferenceEvaluator(widened(model) if dtype == np.float64 else model, new_ops=OPERATORS)
    nodes = evaluator.rt_nodes_
    last = {name: i for i, node in enumerate(nodes) for name in node.input}
    outputs = [o.name for o in model.graph.output]
    given = {k: v.astype(dtype) if np.issubdtype(v.dtype, np.floating) else v for k, v in inputs.items()}
    known = {"": None, **evaluator.rt_inits_, **given}
    for i, node in enumerate(nodes):
        for name, y in zip(node.output, node.run(*[known[name] for name in node.input])):
            if getattr(y, "dtype", None) in (np.float16, np.float32, np.float64) and y.dtype != dtype:
                raise TypeError(f"{node.op_type} '{name}' was computed in {y.dtype}")
            known[name] = y
        for name in set(node.input):
            if name and last[name] == i and name not in outputs:
                del known[name]
    return [known[name] for name in outputs]
