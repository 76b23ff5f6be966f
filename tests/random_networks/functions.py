"""Functions, normalisations and bits that no epilogue has."""

import numpy


def function(d, x):
    """Of one value: within the function's domain, and away from its poles."""
    op = d.pick(("Acos", "Asin", "Atanh", "Acosh", "Asinh", "Atan", "Cosh", "Sinh", "Tan", "Shrink"))
    if op in ("Acos", "Asin", "Atanh", "Cosh", "Sinh", "Tan"):
        x = d.emit("Mul", [d.emit("Tanh", [x], x.shape, mag=1.0), d.constant(numpy.float32(0.8))], x.shape, mag=0.8)
    if op == "Acosh":
        x = d.emit("Add", [d.positive(x), d.constant(numpy.float32(1))], x.shape)
    if op == "Shrink":
        return d.emit(op, [x], x.shape, lambd=0.4, bias=d.pick((0.0, 0.2)))
    return d.emit(op, [x], x.shape, mag=max(1.6, x.mag) if op in ("Asinh", "Acosh") else 3.2)


def normalisation(d, x):
    op = d.pick(("LRN", "LpNormalization", "MeanVarianceNormalization", "Hardmax"))
    if op == "LRN":
        if x.rank != 4:
            return None
        return d.emit(op, [d.tame(x)], x.shape, size=d.pick((1, 3, 5)), alpha=0.05, beta=0.75, bias=1.0)
    if op == "MeanVarianceNormalization":
        if x.rank != 4 or x.shape[0] * x.shape[2] * x.shape[3] < 4:
            return None
        return d.emit(op, [x], x.shape, axes=[0, 2, 3] if d.chance(0.5) else None, mag=4.0)
    if x.rank == 0:
        return None
    axis = d.axis(x, d.random.randint(0, x.rank - 1))
    if op == "Hardmax":
        return d.emit(op, [x], x.shape, mag=1.0, low=0.0, axis=axis) if d.opset >= 13 else None
    return d.emit(op, [d.positive(x)], x.shape, mag=1.0, axis=axis, p=d.pick((1, 2)))


def bits(d, x):
    """A cast to integers, operations on their bits, and back."""
    scaled = d.emit("Mul", [d.emit("Sigmoid", [x], x.shape, mag=1.0), d.constant(numpy.float32(200))], x.shape, mag=200.0)
    y = d.emit("Cast", [scaled], x.shape, "u", to=12)
    shape = tuple(e if d.chance(0.5) else 1 for e in x.shape)
    if d.opset >= 18 and d.chance(0.6):
        other = d.constant(d.numbers.integers(0, 255, shape).astype(numpy.uint32))
        if d.chance(0.3):
            y = d.emit("BitwiseAnd", [d.emit("BitwiseNot", [y], x.shape, "u"), d.constant(numpy.uint32(255))], x.shape, "u")
        y = d.emit(d.pick(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), [y, other], x.shape, "u")
    else:
        other = d.constant(d.numbers.integers(0, 4, shape).astype(numpy.uint32))
        y = d.emit("BitShift", [y, other], x.shape, "u", direction=d.pick(("LEFT", "RIGHT")))
    y = d.emit("Cast", [y], x.shape, to=1, mag=200.0)
    return d.emit("Mul", [y, d.constant(numpy.float32(0.01))], x.shape, mag=2.0)


def classes(d, x):
    """OneHot, EyeLike, IsNaN, IsInf, ReverseSequence."""
    op = d.pick(("OneHot", "IsNaN", "IsInf", "ReverseSequence", *(("EyeLike",) * 3 if x.rank == 2 else ())))
    if op in ("IsNaN", "IsInf"):
        return d.emit("Cast", [d.emit(op, [x], x.shape, "b")], x.shape, to=1, mag=1.0)
    if op == "EyeLike" and x.rank == 2:
        return d.emit("Add", [x, d.emit(op, [x], x.shape, k=d.pick((None, 1, -1)), mag=1.0)], x.shape, mag=x.mag + 1)
    if op == "ReverseSequence" and x.rank >= 2:
        batch = d.random.randint(0, 1)
        lengths = d.numbers.integers(1, x.shape[1 - batch] + 1, (x.shape[batch],))
        return d.emit(op, [x, d.constant(lengths)], x.shape, batch_axis=batch, time_axis=1 - batch)
    if op == "OneHot" and 2 <= x.rank <= 4:
        shape, depth = x.shape[:-1], d.pick((2, 3, 7))
        if not d.fits(shape + (depth,)):
            return None
        places = d.emit("ArgMax", [x], shape, "i", axis=-1, keepdims=0)
        values = d.constant(numpy.array([-0.5, 1.5], numpy.float32))
        return d.emit(op, [places, d.integers(depth), values], shape + (depth,), mag=1.5, axis=-1)
    return None


def other_pools(d, x):
    op = d.pick(("LpPool", "LpPool", "GlobalLpPool", "CenterCropPad") if x.rank == 4 else ("CenterCropPad", "Col2Im"))
    if op == "CenterCropPad" and d.opset >= 18 and x.rank >= 2:
        shape = tuple(max(1, e + d.pick((-2, -1, 0, 1, 3))) for e in x.shape)
        return d.emit(op, [x, d.integers(shape)], shape) if d.fits(shape) else None
    if op == "Col2Im" and d.opset >= 18 and x.rank == 3:  # windows beside each other, as high as the image
        h, w = d.pick([(h, w) for h in (1, 2, 3) for w in (1, 2, 3) if x.shape[1] % (h * w) == 0])
        side = x.shape[2] + w - 1
        return d.emit(op, [x, d.integers([h, side]), d.integers([h, w])], (x.shape[0], x.shape[1] // (h * w), h, side), mag=w * x.mag)
    if x.rank != 4:
        return None
    p = d.pick((1, 2))
    if op == "GlobalLpPool":
        return d.tame(d.emit(op, [d.positive(x)], x.shape[:2] + (1, 1), p=p, mag=x.mag * x.shape[2] * x.shape[3]))
    k = d.pick((1, 2, 3))
    shape = x.shape[:2] + tuple(e - k + 1 for e in x.shape[2:])
    if op == "LpPool" and min(shape) >= 1:
        return d.tame(d.emit(op, [d.positive(x)], shape, kernel_shape=[k, k], p=p, mag=x.mag * k * k))
    return None


def window(d, x):
    """x times a window along its last axis. The window is a constant without bounds, of which runtimes differ in the last bits:
    float16 has none of these."""
    if d.opset < 17 or x.rank == 0 or x.shape[-1] < 2:
        return None
    e = x.shape[-1]
    y = d.emit(d.pick(("BlackmanWindow", "HammingWindow", "HannWindow")), [d.integers(e)], (e,), mag=1.0, periodic=d.pick((None, 0, 1)),
               output_datatype=d.pick((None, 1)))
    d.values.remove(y)
    y = d.emit("Cast", [d.emit("Cast", [y], (e,), "h", to=10)], (e,), to=1, mag=1.0)
    return d.emit("Mul", [x, y], x.shape)


MOTIFS = {function: (2, 0), normalisation: (1, 0), bits: (0.5, 0), classes: (0.7, 0), other_pools: (0.7, 0),
          window: (0.5, 0)}
