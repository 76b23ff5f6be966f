"""Evaluates an ONNX file in float64, and says how far float32 may be from that.

The interpreter is that of the package onnx; convolutions and pooling, for which it loops in Python, are PyTorch's, and
a resize is a matrix for each axis.

Tolerance: the file is evaluated once more with every result moved by a normally distributed amount whose size is the
rounding error to be expected of that operator in float32. What this does to an output, at its worst, times four, is the
tolerance for that output. With u = 2^-24, elementwise results move by u·|y|. A sum of n products rounds n times; the
errors add up like a random walk along partial sums, which grow to |y| or, where signs alternate, to the root of the
summed squares of the products: the result moves by u·√n·(|y| + √Σ(ab)²). Coordinates of a resize move by u·|x|.
"""
import math

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

ROUNDING = 0.42 * 2.0**-24
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


class Noise:
    """Moves results while `on`; a class variable, because the interpreter makes the operators."""
    on = False
    random = np.random.default_rng(0)

    @classmethod
    def move(cls, y, size):
        return y + size * cls.random.standard_normal(y.shape) if cls.on else y


def moved_sum(y, terms, square):
    """A sum of `terms` products, with square() the sum of their squares."""
    if not Noise.on:
        return y
    return Noise.move(y, ROUNDING * math.sqrt(terms / 2) * (np.abs(y) + np.sqrt(np.maximum(square(), 0))))


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
        run = lambda a, f: conv(padded(a, both), torch.tensor(f), None, strides, 0, dilations, group or 1).numpy()
        y = run(x, w)
        y = moved_sum(y, w[0].size, lambda: run(x * x, w * w))
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
        run = lambda a, f: torch.nn.functional.conv_transpose2d(
            torch.tensor(a), torch.tensor(f), None, strides or 1, pads[:spatial], output_padding or 0,
            group or 1, dilations or 1).numpy()
        y = run(x, w)
        y = moved_sum(y, w.shape[0] // (group or 1) * w[0, 0].size, lambda: run(x * x, w * w))
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
        return (Noise.move(y, ROUNDING * math.sqrt(math.prod(kernel_shape)) * np.abs(y)),)


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
                taps = self.taps(length, out, scale, mode, coordinate_transformation_mode, nearest_mode)
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
        at = np.clip(Noise.move(at, ROUNDING * np.abs(o)), 0, length - 1)
        low = np.floor(at).astype(int)
        np.add.at(taps, (rows, low), 1 - (at - low))
        np.add.at(taps, (rows, np.minimum(low + 1, length - 1)), at - low)
        return taps


class Gemm(OpRun):
    def _run(self, a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
        a, b = a.T if transA else a, b.T if transB else b
        y = moved_sum(alpha * (a @ b), a.shape[1], lambda: alpha**2 * ((a * a) @ (b * b)))
        return (y if c is None else y + beta * c,)


class MatMul(OpRun):
    def _run(self, a, b):
        return (moved_sum(np.matmul(a, b), a.shape[-1], lambda: np.matmul(a * a, b * b)),)


class BatchNormalization(OpRun):
    """With the stored statistics, in every opset (the package computes new ones before opset 14)."""

    def _run(self, x, scale, b, mean, var, epsilon=1e-5, momentum=None, training_mode=0, spatial=None):
        if training_mode:
            raise NotImplementedError("BatchNormalization with training_mode")
        columns = [v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale / np.sqrt(var + epsilon), mean, b)]
        y = (x - columns[1]) * columns[0]
        return (Noise.move(y, ROUNDING * np.abs(y)) + columns[2],)


def mean(x, axes, keep):
    n = math.prod(x.shape[a] for a in axes)
    return moved_sum(x.mean(axes, keepdims=keep), n, lambda: (x * x).mean(axes, keepdims=keep) / n)


class GlobalAveragePool(OpRun):
    def _run(self, x):
        return (mean(x, tuple(range(2, x.ndim)), True),)


class ReduceMean(OpRun):
    def _run(self, x, axes=None, keepdims=1, noop_with_empty_axes=0):
        if axes is None or len(axes) == 0:
            return (x if noop_with_empty_axes else mean(x, tuple(range(x.ndim)), bool(keepdims)),)
        return (mean(x, tuple(int(a) % x.ndim for a in axes), bool(keepdims)),)


OPERATORS = [Conv, ConvTranspose, MaxPool, AveragePool, Resize, Gemm, MatMul, BatchNormalization, GlobalAveragePool,
             ReduceMean]
MOVED = {c.__name__ for c in OPERATORS}
EXACT = set("""Abs Cast Clip Concat Constant ConstantOfShape DepthToSpace Dropout Expand Flatten Gather Identity Max Min Neg
               Pad Relu Reshape Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where""".split())


def widened(model):
    """The model with float64 in place of every shorter float."""
    def wide(t):
        if t.data_type in FLOATS:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
    for t in model.graph.initializer:
        wide(t)
    for node in model.graph.node:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                wide(a.t)
            if node.op_type == "Cast" and a.name == "to" and a.i in FLOATS:
                a.i = TensorProto.DOUBLE
    return model


class Float64:
    """A file, ready to be evaluated."""

    def __init__(self, path):
        model = widened(onnx.load(str(path)))
        self.outputs = [o.name for o in model.graph.output]
        self.evaluator = ReferenceEvaluator(model, new_ops=OPERATORS)
        self.nodes = self.evaluator.rt_nodes_
        self.last = {name: i for i, node in enumerate(self.nodes) for name in node.input}

    def _evaluate(self, inputs):
        known = {"": None, **self.evaluator.rt_inits_, **{k: v.astype(np.float64) for k, v in inputs.items()}}
        for i, node in enumerate(self.nodes):
            for name, y in zip(node.output, node.run(*[known[name] for name in node.input])):
                if isinstance(y, np.ndarray) and y.dtype in (np.float32, np.float16):
                    raise TypeError(f"{node.op_type} '{name}' was computed in {y.dtype}")
                moves = Noise.on and node.op_type not in MOVED | EXACT and getattr(y, "dtype", None) == np.float64
                known[name] = Noise.move(y, ROUNDING * np.abs(y)) if moves else y
            for name in node.input:
                if self.last[name] == i and name not in self.outputs and name in known and name:
                    del known[name]
        return [known[name] for name in self.outputs]

    def run(self, inputs):
        """[(value, tolerance of its elements), …] by output"""
        Noise.on = False
        exact = self._evaluate(inputs)
        Noise.on, Noise.random = True, np.random.default_rng(0)
        moved = self._evaluate(inputs)
        Noise.on = False
        return [(e, 4 * float(np.abs(e - m).max())) for e, m in zip(exact, moved)]
