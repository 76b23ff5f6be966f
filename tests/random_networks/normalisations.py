"""Normalisations and softmaxes, as exporters write them."""

import math

import numpy

from contractions import flattened


def epsilon(d):
    return d.pick((None, 1e-5, 1e-3, 0.1))


def scale_and_shift(d, shape):
    return d.constant(d.draw(shape, 0.5, 1.5)), d.constant(d.draw(shape, -0.5, 0.5))


def batch_norm(d, x):
    if x.rank < 2:
        return None
    c = (x.shape[1],)
    scale, shift = scale_and_shift(d, c)
    mean, variance = d.constant(d.draw(c, -0.5, 0.5)), d.constant(d.draw(c, 0.5, 2.0))
    return d.emit("BatchNormalization", [x, scale, shift, mean, variance], x.shape, mag=2 * x.mag + 1, epsilon=epsilon(d))


def batch_statistics(d, x):
    """BatchNormalization by the statistics of this batch, and the running ones that follow from it."""
    if d.opset < 14 or x.rank < 2 or x.elements // x.shape[1] < 4:
        return None
    c = (x.shape[1],)
    mean, variance = d.constant(d.draw(c, -0.5, 0.5)), d.constant(d.draw(c, 0.5, 2.0))
    return d.emit("BatchNormalization", [x, *scale_and_shift(d, c), mean, variance], [x.shape, c, c], "f", mag=4.0, training_mode=1,
                  epsilon=d.pick((None, 1e-3, 0.1)), momentum=d.pick((None, 0.5, 0.99)))[0]


def group_norm(d, x):
    """By its own operator, or InstanceNormalization between Reshapes; with a scale and a shift behind it, too."""
    if x.rank < 3:
        return None
    n, c = x.shape[:2]
    groups = d.pick([g for g in range(1, c + 1) if c % g == 0])
    if d.opset >= 18 and d.chance(0.4):
        scale, shift = scale_and_shift(d, (c if d.opset >= 21 else groups,))
        return d.emit("GroupNormalization", [x, scale, shift], x.shape, mag=3.0, num_groups=groups, epsilon=epsilon(d))
    target = (0, groups, -1) if d.chance(0.6) else (n, groups, x.elements // n // groups)
    shaped = (n, groups, x.elements // n // groups)
    h = d.emit("Reshape", [x, d.integers(target)], shaped)
    plain = d.chance(0.7)
    scale = d.constant(numpy.ones(groups, numpy.float32)) if plain else d.constant(d.draw((groups,), 0.5, 1.5))
    shift = d.constant(numpy.zeros(groups, numpy.float32)) if plain else d.constant(d.draw((groups,)))
    h = d.emit("InstanceNormalization", [h, scale, shift], shaped, mag=3.0, epsilon=epsilon(d))
    if d.chance(0.3):
        back = d.emit("Shape", [x], (x.rank,), "i")
    else:
        back = d.integers(x.shape)
    h = d.emit("Reshape", [h, back], x.shape, mag=3.0)
    if d.chance(0.7):
        vector = (c,) + (1,) * (x.rank - 2)
        vector = vector if d.chance(0.7) else (1,) + vector
        scale, shift = scale_and_shift(d, vector)
        h = d.emit("Mul", [h, scale], x.shape, mag=4.0)
        h = d.emit("Add", [h, shift], x.shape, mag=5.0)
    return h


def instance_norm(d, x):
    if x.rank < 3:
        return None
    scale, shift = scale_and_shift(d, (x.shape[1],))
    return d.emit("InstanceNormalization", [x, scale, shift], x.shape, mag=4.0, epsilon=epsilon(d))


def layer_norm(d, x):
    if x.rank == 0:
        return None
    if d.opset < 17:
        return written_layer_norm(d, x)
    if x.rank == 4 and d.chance(0.5):  # over the channels, between transposes
        n, c, h, w = x.shape
        y = d.emit("Transpose", [x], (n, h, w, c), perm=[0, 2, 3, 1])
        scale, shift = scale_and_shift(d, (c,))
        y = d.emit("LayerNormalization", [y, scale, shift], y.shape, mag=4.0, axis=-1, epsilon=epsilon(d))
        return d.emit("Transpose", [y], x.shape, perm=[0, 3, 1, 2])
    axis = x.rank - 1 if d.chance(0.6) else d.random.randint(0, x.rank - 1)
    scale, shift = scale_and_shift(d, x.shape[axis:])
    return d.emit("LayerNormalization", [x, scale, shift if d.chance(0.8) else None], x.shape, mag=4.0,
                  axis=None if axis == x.rank - 1 and d.chance(0.3) else d.axis(x, axis), epsilon=epsilon(d))


def reduced(d, op, x, axes, keep=True, mag=None):
    shape = tuple(1 if i in axes else e for i, e in enumerate(x.shape) if keep or i not in axes)
    keepdims = None if keep and d.chance(0.3) else int(keep)
    given = [d.axis(x, a) for a in axes]
    if d.opset >= (13 if op == "ReduceSum" else 18):
        return d.emit(op, [x, d.integers(given)], shape, mag=mag, keepdims=keepdims)
    return d.emit(op, [x], shape, mag=mag, axes=given, keepdims=keepdims)


def written_layer_norm(d, x):
    """As exporters of opsets before 17 write it; over any axis."""
    if x.rank == 0 or d.gpu:
        return None
    axes = [x.rank - 1] if d.chance(0.5) else [d.random.randint(0, x.rank - 1)]
    mean = reduced(d, "ReduceMean", x, axes)
    apart = d.emit("Sub", [x, mean], x.shape, mag=2 * x.mag)
    square = d.emit("Pow", [apart, d.constant(numpy.float32(2))], x.shape, mag=x.mag * x.mag) if d.chance(0.6) else d.emit(
        "Mul", [apart, apart], x.shape, mag=x.mag * x.mag)
    variance = reduced(d, "ReduceMean", square, axes)
    root = d.emit("Sqrt", [d.emit("Add", [variance, d.constant(numpy.float32(d.pick((1e-3, 0.1))))], variance.shape)], variance.shape)
    y = d.emit("Div", [apart, root], x.shape, mag=4.0)
    scale, shift = scale_and_shift(d, tuple(x.shape[a] for a in axes) + (1,) * (x.rank - 1 - axes[0]))
    return d.emit("Add", [d.emit("Mul", [y, scale], x.shape), shift], x.shape, mag=6.0)


def softmax(d, x):
    if x.rank == 0:
        return None
    x = d.tame(x)
    op = "Softmax" if d.gpu or d.chance(0.75) else "LogSoftmax"
    axis = d.random.randint(0, x.rank - 1) if d.chance(0.5) else x.rank - 1
    if x.rank == 4 and d.chance(0.4):
        axis = 1
    default = x.rank - 1 if d.opset >= 13 else 1
    return d.emit(op, [x], x.shape, mag=1.0 if op == "Softmax" else 8.0, low=0.0 if op == "Softmax" else -numpy.inf,
                  axis=None if axis == default and d.chance(0.3) else d.axis(x, axis))


def rms_norm(d, x):
    """x / sqrt(mean(x²) + ε), written out."""
    if x.rank == 0 or d.gpu:
        return None
    mean = reduced(d, "ReduceMean", d.emit("Mul", [x, x], x.shape, mag=x.mag * x.mag), [x.rank - 1])
    h = d.emit("Add", [mean, d.constant(numpy.float32(0.01))], mean.shape, low=0.01)
    if d.chance(0.5):
        h = d.emit("Reciprocal", [d.emit("Sqrt", [h], h.shape)], h.shape, mag=5.0)
        return d.emit("Mul", [x, h], x.shape, mag=4.0)
    return d.emit("Div", [x, d.emit("Sqrt", [h], h.shape)], x.shape, mag=4.0)
