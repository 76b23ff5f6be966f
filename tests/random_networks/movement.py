"""Views, slices, concatenations and other operators that move elements."""

import math

import numpy

from draft import EXTENTS


def shape_input(d, x, shape):
    """The new shape of a Reshape of x: numbers, a zero or −1 among them, or computed from x's own."""
    numbers = list(shape)
    if d.chance(0.25):
        for i, e in enumerate(numbers):
            if i < x.rank and x.shape[i] == e and d.chance(0.5):
                numbers[i] = 0
    if numbers and d.chance(0.35) and 0 not in shape:
        numbers[d.random.randrange(len(numbers))] = -1
    if x.rank and shape and x.shape[0] == shape[0] and d.chance(0.15):  # the batch is read from the shape
        whole = d.emit("Shape", [x], (x.rank,), "i")
        first = d.emit("Slice", [whole, d.integers([0]), d.integers([1]), d.integers([0])], (1,), "i")
        if len(shape) == 1:
            return first
        return d.emit("Concat", [first, d.integers([-1 if i == 1 else e for i, e in enumerate(shape)][1:])], (len(shape),), "i", axis=0)
    return d.integers(numbers)


def factors(d, count):
    """A random shape of so many elements."""
    rank, shape = d.random.randint(1, 4 if d.gpu else 5), []
    for _ in range(rank - 1):
        f = d.pick([i for i in range(1, count + 1) if count % i == 0][:12])
        shape.append(f)
        count //= f
    shape.append(count)
    if d.chance(0.7):
        d.random.shuffle(shape)
    return tuple(shape)


def reshape(d, x):
    if d.chance(0.35) and x.rank >= 2:  # two neighbours become one, or one becomes two
        i = d.random.randrange(x.rank - 1)
        shape = x.shape[:i] + (x.shape[i] * x.shape[i + 1],) + x.shape[i + 2:]
    elif d.chance(0.4) and x.rank in ((3,) if d.gpu else (3, 4)) and x.shape[1] > 1:
        f = d.pick([i for i in range(1, x.shape[1] + 1) if x.shape[1] % i == 0])
        shape = (x.shape[0], f, x.shape[1] // f) + x.shape[2:]
    elif x.elements == 1 and d.chance(0.3):
        shape = ()
    else:
        shape = factors(d, x.elements)
    return d.emit("Reshape", [x, shape_input(d, x, shape)], shape)


def flatten(d, x):
    axis = d.random.randint(0, x.rank)
    shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return d.emit("Flatten", [x], shape, axis=axis if axis == x.rank else d.axis(x, axis))


def squeeze(d, x):
    ones = [i for i, e in enumerate(x.shape) if e == 1]
    if not ones:
        return unsqueeze(d, x)
    axes = sorted(d.random.sample(ones, d.random.randint(1, len(ones))))
    shape = tuple(e for i, e in enumerate(x.shape) if i not in axes)
    given = [d.axis(x, a) for a in axes]
    if d.opset >= 13:
        return d.emit("Squeeze", [x, d.integers(given)], shape)
    return d.emit("Squeeze", [x], shape, axes=given)


def unsqueeze(d, x):
    most = 4 if d.gpu else 5
    rank = d.random.randint(x.rank + 1, min(most, x.rank + 2)) if x.rank < most else 0
    if rank == 0:
        return None
    axes = sorted(d.random.sample(range(rank), rank - x.rank))
    rest = iter(x.shape)
    shape = tuple(1 if i in axes else next(rest) for i in range(rank))
    given = [a - rank if d.chance(0.3) else a for a in axes]
    if d.opset >= 13:
        return d.emit("Unsqueeze", [x, d.integers(given)], shape)
    return d.emit("Unsqueeze", [x], shape, axes=given)


def transpose(d, x):
    if x.rank < 2:
        return None
    order = list(range(x.rank))
    if d.chance(0.4):
        i = d.random.randrange(x.rank - 1)
        order[i], order[i + 1] = order[i + 1], order[i]
    elif x.rank == 4 and d.chance(0.4):
        order = d.pick(([0, 2, 3, 1], [0, 3, 1, 2]))
    else:
        d.random.shuffle(order)
    y = d.emit("Transpose", [x], tuple(x.shape[i] for i in order),
               perm=None if order == order[::-1] and order == list(range(x.rank))[::-1] and d.chance(0.5) else order)
    if d.chance(0.35):  # back again, with or without something between
        y = d.emit(d.pick(("Relu", "Tanh", "Neg", "Identity")), [y], y.shape)
        back = [order.index(i) for i in range(x.rank)]
        y = d.emit("Transpose", [y], tuple(y.shape[i] for i in back), perm=back)
    return y


def split(d, x):
    axes = [i for i, e in enumerate(x.shape) if e > 1]
    if not axes:
        return None
    axis = 1 if 1 in axes and d.chance(0.5) else d.pick(axes)
    extent = x.shape[axis]
    if d.chance(0.5) and extent % 2 == 0:
        parts, given = [extent // 2] * 2, False
    else:
        first = d.random.randint(1, extent - 1)
        parts, given = [first, extent - first], True
        if parts[1] > 1 and d.chance(0.3):
            parts[1:] = [1, parts[1] - 1]
    shapes = [x.shape[:axis] + (p,) + x.shape[axis + 1:] for p in parts]
    kinds = "f" * len(parts)
    attributes = dict(axis=d.axis(x, axis))
    if given or d.chance(0.5):
        if d.opset >= 13:
            results = d.emit("Split", [x, d.integers(parts)], shapes, kinds, **attributes)
        else:
            results = d.emit("Split", [x], shapes, kinds, split=parts, **attributes)
    else:
        results = d.emit("Split", [x], shapes, kinds, num_outputs=len(parts) if d.opset >= 18 else None, **attributes)
    kind = d.random.random()
    if kind < 0.3 and shapes[0] == shapes[-1]:  # a gated unit
        return d.emit("Mul", [results[0], d.emit("Sigmoid", [results[-1]], shapes[-1], mag=1.0)], shapes[0])
    if kind < 0.5:  # joined again in another order
        return d.emit("Concat", results[::-1], x.shape, axis=axis)
    return d.pick(results)


def slice_(d, x):
    if x.rank == 0:
        return None
    axes = sorted(d.random.sample(range(x.rank), d.random.randint(1, min(2, x.rank))))
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for a in axes:
        e, step = x.shape[a], d.pick((1, 1, 1, 2, -1, -2, 3)) if not d.gpu or d.chance(0.3) else 1
        begin = d.random.randrange(e)
        count = d.random.randint(1, (e - begin + step - 1) // step if step > 0 else begin // -step + 1)
        last = begin + (count - 1) * step
        end = last + (1 if step > 0 else -1)
        shape[a] = count
        if step > 0 and d.chance(0.3) and (e - begin + step - 1) // step == count:
            end = d.pick((2 ** 31 - 1, 2 ** 63 - 1, e))
        if step < 0 and end < 0:
            end = -e - 1 if d.chance(0.5) else -2 ** 31
        elif d.chance(0.3) and end < e and end > 0:
            end -= e
        starts.append(begin - e if d.chance(0.3) else begin), ends.append(end), steps.append(step)
    inputs = [x, d.integers(starts), d.integers(ends)]
    if axes != list(range(len(axes))) or d.chance(0.7):
        inputs.append(d.integers([d.axis(x, a) for a in axes]))
    if any(s != 1 for s in steps) or len(inputs) == 4 and d.chance(0.3):
        if len(inputs) == 3:
            inputs.append(None)
        inputs.append(d.integers(steps))
    return d.emit("Slice", inputs, tuple(shape))


def concat(d, x):
    """With something that has its other extents; the result may be sliced again."""
    if x.rank == 0:
        return None
    axis = 1 if x.rank > 1 and d.chance(0.55) else d.random.randint(0, x.rank - 1)
    fits = [v for v in d.values if v.kind == "f" and v.rank == x.rank and all(
        a == b or i == axis for i, (a, b) in enumerate(zip(v.shape, x.shape)))]
    parts = [x] + [d.pick(fits) for _ in range(d.pick((1, 1, 2)))] if len(fits) > 1 else [x]
    if len(parts) == 1 or d.chance(0.2):
        shape = x.shape[:axis] + (d.pick(EXTENTS),) + x.shape[axis + 1:]
        parts.append(d.constant(d.draw(shape)) if d.chance(0.4) else d.input(shape))
    if d.chance(0.1):  # a part of nothing, as a segmentation model joins in place of a skip that an encoder lacks
        parts.append(d.constant(d.draw(x.shape[:axis] + (0,) + x.shape[axis + 1:])))
    d.random.shuffle(parts)
    shape = x.shape[:axis] + (sum(p.shape[axis] for p in parts),) + x.shape[axis + 1:]
    if not d.fits(shape):
        return None
    y = d.emit("Concat", parts, shape, mag=max(p.mag for p in parts), axis=d.axis(x, axis))
    if d.chance(0.2):
        return slice_(d, y)
    return y


def pad(d, x):
    if x.rank == 0:
        return None
    mode = "constant" if d.gpu else d.pick(("constant", "constant", "edge", "reflect") + (("wrap",) if d.opset >= 19 else ()))
    before, after = [0] * x.rank, [0] * x.rank
    for i in d.random.sample(range(x.rank), d.random.randint(1, min(2, x.rank))):
        most = min(3, x.shape[i] - 1) if mode == "reflect" else min(2, x.shape[i]) if mode == "wrap" else 3
        before[i], after[i] = d.random.randint(0, most), d.random.randint(0, most)
        if mode == "constant" and x.shape[i] > 4 and d.chance(0.15):
            after[i] = -1
    shape = tuple(e + b + a for e, b, a in zip(x.shape, before, after))
    if not d.fits(shape):
        return None
    inputs = [x, d.integers(before + after)]
    if mode == "constant" and d.chance(0.6):
        inputs.append(d.constant(numpy.float32(d.pick((0.0, 0.5, -1.0)))))
    if d.opset >= 18 and d.chance(0.3):
        axes = [i for i in range(x.rank) if before[i] or after[i]] or [0]
        inputs[1] = d.integers([before[i] for i in axes] + [after[i] for i in axes])
        inputs += [None] * (3 - len(inputs)) + [d.integers([d.axis(x, a) for a in axes])]
    return d.emit("Pad", inputs, shape, mode=mode if mode != "constant" or d.chance(0.5) else None, mag=x.mag + 1)


def tile(d, x):
    if x.rank == 0:
        return None
    repeats = [d.pick((1, 1, 1, 2, 3)) for _ in x.shape]
    shape = tuple(e * r for e, r in zip(x.shape, repeats))
    return d.emit("Tile", [x, d.integers(repeats)], shape) if d.fits(shape) else None


def expand(d, x):
    from elementwise import broadcast, operand_shape
    target = operand_shape(d, x.shape)
    shape = broadcast(target, x.shape)
    if not d.fits(shape):
        return None
    if d.chance(0.2) and target == x.shape:
        return d.emit("Expand", [x, d.emit("Shape", [x], (x.rank,), "i")], shape)
    return d.emit("Expand", [x, d.integers(target)], shape)


def gather(d, x):
    if x.rank == 0:
        return None
    axis = d.random.randint(0, x.rank - 1)
    e = x.shape[axis]
    indices = d.pick(((), (1,), (3,), (2, 2)))
    shape = x.shape[:axis] + indices + x.shape[axis + 1:]
    if not d.fits(shape):
        return None
    numbers = d.numbers.integers(-e, e, indices).astype(numpy.int64 if d.chance(0.7) else numpy.int32)
    return d.emit("Gather", [x, d.constant(numbers)], shape, axis=None if axis == 0 and d.chance(0.5) else d.axis(x, axis))


def dropout(d, x):
    return d.emit(d.pick(("Dropout", "Identity")), [x], x.shape)
