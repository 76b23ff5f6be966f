"""What ONNX's own interpreter needs to be an opinion in float64: models with every float widened, and operators that it
gets wrong. Needs no PyTorch.
"""
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_grid_sample import GridSample as GridSampleOfOpset20

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


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


class Softmaxes(OpRun):
    """Before opset 13, over the matrix into which the axes from `axis` on are flattened; after it, over one axis."""

    def exponents(self, x):
        """(x - its maximum, axes that are summed, the shape to return), over one axis or a matrix"""
        given = [a.i for a in self.onnx_node.attribute if a.name == "axis"]
        shape = x.shape
        if self.run_params["opsets"][""] >= 13:
            axis = given[0] if given else -1
        else:
            first = given[0] if given else 1
            x, axis = x.reshape(int(np.prod(shape[:first + x.ndim if first < 0 else first])), -1), 1
        return x - x.max(axis=axis, keepdims=True), axis, shape


class Softmax(Softmaxes):
    def _run(self, x, axis=None):
        x, axis, shape = self.exponents(x)
        e = np.exp(x)
        return ((e / e.sum(axis=axis, keepdims=True)).reshape(shape),)


class LogSoftmax(Softmaxes):
    def _run(self, x, axis=None):
        x, axis, shape = self.exponents(x)
        return ((x - np.log(np.exp(x).sum(axis=axis, keepdims=True))).reshape(shape),)


class BatchNormalization(OpRun):
    """With the stored statistics, in every opset (the package computes new ones before opset 14)."""

    def _run(self, x, scale, b, mean, var, epsilon=1e-5, momentum=None, training_mode=0, spatial=None):
        if training_mode:
            raise NotImplementedError("BatchNormalization with training_mode")
        scale, mean, b = [v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale / np.sqrt(var + epsilon), mean, b)]
        return (((x - mean) * scale + b).astype(x.dtype),)


class MeanVarianceNormalization(OpRun):
    """Its function's body, with the variance as the mean square of deviations: E[x²] - E[x]² of equal elements may be a
    little below 0, and its root no number."""

    def _run(self, x, axes=(0, 2, 3)):
        d = x - x.mean(axis=tuple(axes), keepdims=True)
        return (d / (np.sqrt((d * d).mean(axis=tuple(axes), keepdims=True)) + 1e-9),)


class GroupNormalization(OpRun):
    """By deviations, and in the type of its input: the body of the function computes E[x²] - E[x]² in float32. Opset 18 has a
    scale and a bias for each group, 21 for each channel."""

    def _run(self, x, scale, bias, epsilon=1e-5, num_groups=None, stash_type=1):
        g = x.reshape(x.shape[0], num_groups, -1)
        d = g - g.mean(axis=2, keepdims=True)
        y = (d / np.sqrt((d * d).mean(axis=2, keepdims=True) + epsilon)).reshape(x.shape)
        scale, bias = (np.repeat(v, x.shape[1] // len(v)).reshape((1, -1) + (1,) * (x.ndim - 2)) for v in (scale, bias))
        return ((y * scale + bias).astype(x.dtype),)


class GridSample(GridSampleOfOpset20):
    """With the names of modes that opset 16 has."""

    def _run(self, x, grid, mode=None, padding_mode=None, align_corners=None):
        mode = {None: "linear", "bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        return super()._run(x, grid, mode=mode, padding_mode=padding_mode or "zeros", align_corners=align_corners or 0)


CORRECTED = [Softmax, LogSoftmax, BatchNormalization, MeanVarianceNormalization, GroupNormalization, GridSample]
