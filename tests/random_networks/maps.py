"""Operators that no epilogue has: reductions, comparisons and choices, integers, and those that pick by indices."""

import numpy
from onnx import numpy_helper

from draft import Value
from elementwise import broadcast, operand
from normalisations import reduced

REDUCTIONS = ("ReduceMean", "ReduceMean", "ReduceSum", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
              "ReduceLogSumExp", "ReduceLogSum", "ReduceProd")


def reduce(d, x):
    if x.rank == 0:
        return None
    op = d.pick(REDUCTIONS)
    axes = sorted(d.random.sample(range(x.rank), d.random.randint(1, min(3, x.rank))))
    count = numpy.prod([x.shape[a] for a in axes])
    if op == "ReduceProd" and (count > 8 or x.mag > 2):
        op = "ReduceMean"
    if op == "ReduceLogSum":
        x = d.positive(x)
    if op == "ReduceLogSumExp":
        x = d.tame(x)
    mag = x.mag * {"ReduceSum": count ** 0.5, "ReduceL1": count, "ReduceL2": count ** 0.5, "ReduceSumSquare": count * x.mag}.get(op, 1) + 1
    y = d.tame(reduced(d, op, x, axes, keep=d.chance(0.6), mag=float(mag)))
    if y.rank == x.rank and d.chance(0.6):  # back over what it came from
        return d.tame(d.emit(d.pick(("Sub", "Mul", "Add")), [x, y], x.shape, mag=x.mag + y.mag + x.mag * y.mag))
    return y


def arg_reduce(d, x):
    if x.rank == 0:
        return None
    axis, keep = d.random.randint(0, x.rank - 1), d.chance(0.5)
    shape = tuple(1 if i == axis else e for i, e in enumerate(x.shape) if keep or i != axis)
    y = d.emit(d.pick(("ArgMax", "ArgMin")), [x], shape, "i", axis=d.axis(x, axis), keepdims=int(keep),
               select_last_index=1 if d.opset >= 12 and d.chance(0.2) else None)
    if d.chance(0.5):
        return d.emit("Cast", [y], shape, mag=float(x.shape[axis]), to=1)
    return None


def choose(d, x):
    """A comparison, and a choice by it."""
    op = d.pick(("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"))
    if op.endswith("OrEqual") and d.opset < 12:
        op = "Less"
    y = operand(d, x)
    condition = d.emit(op, [x, y], broadcast(x.shape, y.shape), "b")
    if d.chance(0.2):
        condition = d.emit("Not", [condition], condition.shape, "b")
    if d.chance(0.25):
        z = operand(d, Value("", condition.shape))
        other = d.emit("Less", [z, d.constant(numpy.float32(0.1))], z.shape, "b")
        shape = broadcast(condition.shape, other.shape)
        if not d.fits(shape):
            return None
        condition = d.emit(d.pick(("And", "Or", "Xor")), [condition, other], shape, "b")
    if d.chance(0.15):
        return d.emit("Cast", [condition], condition.shape, to=1, mag=1.0)
    z = operand(d, Value("", condition.shape))
    shape = broadcast(condition.shape, broadcast(x.shape, z.shape))
    if not d.fits(shape):
        return None
    both = [x, z] if d.chance(0.6) else [z, x]
    return d.emit("Where", [condition] + both, shape, mag=max(x.mag, z.mag))


def rounded(d, x):
    op = d.pick(("Floor", "Ceil", "Round", "Sign", "ThresholdedRelu", "Mod"))
    x = d.tame(x)
    if op == "Mod":
        return d.emit("Mod", [x, d.constant(numpy.float32(0.75))], x.shape, fmod=1)
    return d.emit(op, [x], x.shape, mag=x.mag + 1, alpha=0.3 if op == "ThresholdedRelu" else None)


def through_integers(d, x):
    """A cast to integers, arithmetic on them, and back."""
    kind = d.pick("ij")
    scaled = d.emit("Mul", [d.tame(x), d.constant(numpy.float32(8))], x.shape)
    y = d.emit("Cast", [scaled], x.shape, kind, to=7 if kind == "i" else 6)
    for _ in range(d.random.randint(1, 3)):
        op = d.pick(("Add", "Sub", "Mul", "Max", "Min", "Mod", "Div", "Neg", "Abs"))
        if op in ("Max", "Min") and d.opset < 12:
            op = "Add"
        if op in ("Neg", "Abs"):
            y = d.emit(op, [y], y.shape, kind)
            continue
        shape = tuple(e if d.chance(0.5) else 1 for e in x.shape)
        low, high = (1, 6) if op in ("Mod", "Div") else (-5, 6)
        numbers = d.numbers.integers(low, high, shape)
        y = d.emit(op, [y, d.integers(numbers, kind)], y.shape, kind)
    return d.emit("Cast", [y], y.shape, to=1, mag=20.0)


def through_other_floats(d, x):
    """Rounded to float16, or arithmetic in float64."""
    x = d.tame(x)
    if d.chance(0.5):
        y = d.emit("Cast", [x], x.shape, "h", to=10)
        if d.opset >= 15 and d.chance(0.4):
            return d.emit("CastLike", [y, x], x.shape)
        return d.emit("Cast", [y], x.shape, to=1)
    y = d.emit("Cast", [x], x.shape, "d", to=11)
    y = d.emit(d.pick(("Mul", "Add", "Sub", "Max")), [y, d.constant(d.draw(operand_shape_within(d, x.shape)).astype(numpy.float64))], x.shape, "d")
    return d.emit("Cast", [y], x.shape, to=1)


def operand_shape_within(d, shape):
    return tuple(e if d.chance(0.5) else 1 for e in shape)[d.random.randint(0, len(shape)):]


def from_extents(d, x):
    """Numbers that come from the shape of x."""
    kind = d.pick(("Size", "ConstantOfShape", "Shape"))
    if kind == "Size":
        size = d.emit("Cast", [d.emit("Size", [x], (), "i")], (), to=1, mag=float(x.elements), low=1.0)
        return d.emit("Div", [x, size] if d.chance(0.5) else [x, d.emit("Sqrt", [size], (), low=1.0)], x.shape)
    shape = d.emit("Shape", [x], (x.rank,), "i")
    if kind == "ConstantOfShape":
        value = numpy_helper.from_array(numpy.array([d.pick((0.25, 1.0, -2.0))], numpy.float32))
        y = d.emit("ConstantOfShape", [shape], x.shape, value=value, mag=2.0)
        return d.emit(d.pick(("Add", "Mul", "Max")), [x, y], x.shape, mag=2 * x.mag + 2)
    if x.rank == 0:
        return None
    axis = d.random.randrange(x.rank)
    extent = d.emit("Gather", [shape, d.integers(axis if d.chance(0.5) else axis - x.rank)], (), "i", axis=0)
    number = d.emit("Cast", [extent], (), to=1, mag=float(x.shape[axis]), low=1.0)
    return d.emit("Div", [x, number], x.shape)


def by_indices(d, x):
    """Operators with indices of their own for each element."""
    if x.rank == 0:
        return None
    op = d.pick(("GatherElements", "GatherND", "ScatterElements", "ScatterND"))
    axis = d.random.randint(0, x.rank - 1)
    if op == "GatherElements":
        shape = tuple(d.random.randint(1, e) if d.chance(0.4) else e for e in x.shape)
        shape = shape[:axis] + (d.pick((1, 2, 5)),) + shape[axis + 1:]
        e = x.shape[axis]
        return d.emit(op, [x, d.integers(d.numbers.integers(-e, e, shape))], shape, axis=axis) if d.fits(shape) else None
    if op == "ScatterElements":
        count = d.random.randint(1, x.shape[axis])
        shape = x.shape[:axis] + (count,) + x.shape[axis + 1:]
        order = numpy.argsort(d.numbers.uniform(size=x.shape), axis)  # no place twice
        indices = numpy.take(order, range(count), axis)
        add = d.pick((None, None, "add")) if d.opset >= 16 else None
        return d.emit(op, [x, d.integers(indices), d.constant(d.draw(shape))], x.shape, axis=axis, reduction=add)
    depth = d.random.randint(1, x.rank)
    if op == "GatherND":
        rows = d.pick((1, 3, 5))
        indices = numpy.stack([d.numbers.integers(0, e, (rows,)) for e in x.shape[:depth]], -1)
        shape = (rows,) + x.shape[depth:]
        return d.emit(op, [x, d.integers(indices)], shape) if d.fits(shape) else None
    places = numpy.prod(x.shape[:depth])
    chosen = d.numbers.permutation(places)[: max(1, min(4, places))]
    indices = numpy.stack(numpy.unravel_index(chosen, x.shape[:depth]), -1)
    add = d.pick((None, None, "add")) if d.opset >= 16 else None
    return d.emit(op, [x, d.integers(indices), d.constant(d.draw((len(chosen),) + x.shape[depth:]))], x.shape, reduction=add)


def sequences(d, x):
    """CumSum, Trilu, TopK, Range and Einsum."""
    op = d.pick(("CumSum", "Trilu", "TopK", "Einsum", "Range"))
    if op == "Trilu" and d.opset >= 14 and x.rank >= 2:
        k = d.integers(d.random.randint(-2, 2)) if d.chance(0.5) else None
        return d.emit(op, [x, k], x.shape, upper=d.pick((0, 1, None)))
    if op == "CumSum" and x.rank >= 1:
        axis = d.random.randint(0, x.rank - 1)
        return d.tame(d.emit(op, [x, d.integers(d.axis(x, axis))], x.shape, mag=x.mag * x.shape[axis] ** 0.5, exclusive=d.pick((0, 1)),
                             reverse=d.pick((0, 1))))
    if op == "TopK" and x.rank >= 1:
        axis = d.random.randint(0, x.rank - 1)
        k = d.random.randint(1, x.shape[axis])
        shape = x.shape[:axis] + (k,) + x.shape[axis + 1:]
        return d.emit(op, [x, d.integers([k])], [shape, shape], "fi", axis=d.axis(x, axis), largest=d.pick((0, 1)), sorted=1)[0]
    if op == "Einsum" and d.opset >= 12 and 2 <= x.rank <= 3:
        n, k = d.pick((1, 3, 8)), x.shape[-1]
        w = d.constant(d.draw((k, n)) / max(1, k) ** 0.5)
        b = "b" if x.rank == 3 else ""
        equation, shape = d.pick(((f"{b}ij,jk->{b}ik", x.shape[:-1] + (n,)), (f"{b}ij,jk->{b}ki", x.shape[:-2] + (n, x.shape[-2]))))
        return d.emit(op, [x, w], shape, equation=equation, mag=2 * x.mag)
    if op == "Range" and x.rank >= 1:
        e = x.shape[-1]
        places = d.emit(op, [d.constant(numpy.float32(0)), d.constant(numpy.float32(e)), d.constant(numpy.float32(1))], (e,), mag=float(e))
        scaled = d.emit("Mul", [places, d.constant(numpy.float32(1 / e))], (e,), mag=1.0)
        return d.emit("Add", [x, scaled], x.shape, mag=x.mag + 1)
    return None


def affine_grid(d, size):
    """A little turned and moved, by a matrix for each image."""
    n, _, h, w = size
    theta = numpy.array([[1, 0, 0], [0, 1, 0]], numpy.float32) * 0.8 + d.draw((n, 2, 3), -0.3, 0.3)
    given = d.constant(theta)
    if d.chance(0.4):
        given = d.emit("Add", [given, d.emit("Tanh", [d.input((n, 1, 3), -0.2, 0.2)], (n, 1, 3), mag=0.2)], (n, 2, 3), mag=1.3)
    return d.emit("AffineGrid", [given, d.integers(size)], (n, h, w, 2), mag=2.0,
                  align_corners=d.pick((None, 0, 1)) if min(h, w) > 1 else 0)


def grid_sample(d, x):
    if x.rank != 4 or d.opset < 16:
        return None
    n, c = x.shape[:2]
    h, w = d.pick((1, 3, 5)), d.pick((2, 4, 7))
    grid = affine_grid(d, (n, c, h, w)) if d.opset >= 20 and d.chance(0.6) else d.constant(d.draw((n, h, w, 2), -1.2, 1.2))
    mode = "linear" if d.opset >= 20 else "bilinear"
    return d.emit("GridSample", [x, grid], (n, c, h, w), mode=mode, padding_mode=d.pick(("zeros", "border", None)),
                  align_corners=d.pick((0, 1)))
