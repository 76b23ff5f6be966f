"""What exporters write of operators along the last axis: rotations of heads, lengths, normalisations by primitives."""

import numpy

from chains import joined, permuted, reshaped, sliced


def sum_of(d, a, b):
    return d.emit("Add", [a, b], a.shape, mag=a.mag + b.mag)


def times(d, a, b):
    return d.emit("Mul", [a, b], a.shape, mag=a.mag * b.mag)


def negative(d, x):
    return d.emit("Neg", [x], x.shape, mag=x.mag)


def as_heads(d, x):
    """(N,R,C) as (N,H,R,C/H)"""
    n, rows, columns = x.shape
    heads = d.pick([h for h in range(1, columns + 1) if columns % h == 0])
    return permuted(d, reshaped(d, x, (n, rows, heads, columns // heads)), (0, 2, 1, 3))


def halves(d, x):
    axis, width = x.rank - 1, x.shape[-1]
    return joined(d, [negative(d, sliced(d, x, axis, width // 2, width)), sliced(d, x, axis, 0, width // 2)], axis)


def pairs(d, x):
    axis, width = x.rank - 1, x.shape[-1]
    odd, even = negative(d, sliced(d, x, axis, 1, width, 2)), sliced(d, x, axis, 0, width, 2)
    single = x.shape[:-1] + (width // 2, 1)
    return reshaped(d, joined(d, [reshaped(d, odd, single), reshaped(d, even, single)], axis + 1), x.shape)


def by_places(d, x):
    """-x1, x0, …: a gather and a factor of signs"""
    width = x.shape[-1]
    places = d.integers([i + 1 - 2 * (i % 2) for i in range(width)])
    signs = d.constant(numpy.tile(numpy.float32([-1, 1]), width // 2))
    return times(d, d.emit("Gather", [x, places], x.shape, axis=x.rank - 1), signs)


def table(d, x):
    rows = x.shape[-2] if d.chance(0.7) else 1
    return d.constant(d.draw((rows, x.shape[-1])))


def rotated(d, x):
    turned = d.pick((halves, pairs, by_places))(d, x)
    return sum_of(d, times(d, x, table(d, x)), times(d, turned, table(d, x)))


def rotation(d, x):
    """All rows, or all but the first ones"""
    if x.rank == 3 and d.chance(0.5):
        x = as_heads(d, x)
    if x.rank < 2 or x.shape[-1] % 2:
        return None
    rows = x.shape[-2]
    if rows < 2 or d.chance(0.6):
        return rotated(d, x)
    first, axis = d.random.randint(1, rows - 1), x.rank - 2
    parts = [sliced(d, x, axis, 0, first), rotated(d, sliced(d, x, axis, first, rows))]
    return joined(d, parts if d.chance(0.8) else parts[::-1], axis)


def reduced(d, op, x, axis, mag):
    shape = x.shape[:axis] + (1,) + x.shape[axis + 1:]
    if d.opset >= 18 or (op == "ReduceSum" and d.opset >= 13):
        return d.emit(op, [x, d.integers([axis])], shape, mag=mag, keepdims=1)
    return d.emit(op, [x], shape, mag=mag, axes=[axis], keepdims=1)


def shifted(d, x, by):
    return d.emit("Add", [x, d.constant(numpy.float32(by))], x.shape, mag=x.mag + by, low=by)


def unit(d, x, axis):
    length = reduced(d, "ReduceL2", x, axis, x.mag * x.shape[axis] ** 0.5)
    return d.emit("Div", [x, shifted(d, length, 0.25)], x.shape, mag=1.0)


def root_mean_square(d, x, axis):
    mean = reduced(d, "ReduceMean", times(d, x, x), axis, x.mag ** 2)
    root = d.emit("Sqrt", [shifted(d, mean, 0.25)], mean.shape, mag=x.mag + 0.5, low=0.5)
    return d.emit("Div", [x, root], x.shape, mag=x.shape[axis] ** 0.5)


def normal(d, x, axis):
    mean = reduced(d, "ReduceMean", x, axis, x.mag)
    return root_mean_square(d, d.emit("Sub", [x, mean], x.shape, mag=2 * x.mag), axis)


def distribution(d, x, axis):
    largest = reduced(d, "ReduceMax", x, axis, x.mag)
    power = d.emit("Exp", [d.emit("Sub", [x, largest], x.shape, mag=2 * x.mag)], x.shape, mag=1.0, low=0.0)
    total = reduced(d, "ReduceSum", power, axis, float(x.shape[axis]))
    return d.emit("Div", [power, total], x.shape, mag=1.0)


def line(d, x):
    if d.opset < 13 or x.rank < 2:
        return None
    y = as_heads(d, x) if x.rank == 3 and d.chance(0.4) else x
    axis = y.rank - 1 if d.chance(0.7) else 1
    y = d.pick((unit, root_mean_square, normal, distribution))(d, y, axis)
    return rotation(d, y) or y if d.chance(0.3) else y


def rotation_of_opset(d, x):
    return rotation(d, x) if d.opset >= 13 else None
