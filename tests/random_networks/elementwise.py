"""Elementwise operators and the operands that they broadcast: constants, inputs, and what other nodes make."""

import numpy

from draft import EXTENTS, Value


def operand_shape(d, shape):
    """A shape that broadcasts with this one: of any rank, with ones anywhere; sometimes it makes the result larger."""
    rank = len(shape)
    kinds = ["same", "scalar", "channels", "channels", "last", "images", "planes", "mask", "mask", "tail", "higher", "wider"]
    kind = d.pick(kinds)
    ones = [1] * rank
    if kind == "same" or rank == 0 and kind != "higher":
        return shape
    if kind == "scalar":
        return d.pick(((), (1,), tuple(ones)))
    if kind == "channels" and rank > 2:
        bare = (shape[1],) + (1,) * (rank - 2)
        return bare if d.chance(0.5) else (1,) + bare
    if kind == "last":
        return (1,) * d.random.randint(0, rank - 1) + shape[-1:]
    if kind == "images":
        return shape[:1] + tuple(ones[1:]) if d.chance(0.4) else shape[:2] + tuple(ones[2:])
    if kind == "planes":
        return (1,) * d.random.randint(0, max(0, rank - 2)) + shape[-2:]
    if kind == "tail":
        return shape[d.random.randint(0, rank):]
    most = 4 if d.gpu else 5
    if kind == "higher" and rank < most:
        return (1,) * d.random.randint(1, most - rank) + (shape if d.chance(0.3) else tuple(e if d.chance(0.5) else 1 for e in shape))
    if kind == "wider" and 1 in shape:
        at = d.pick([i for i, e in enumerate(shape) if e == 1])
        wide = list(shape) if d.chance(0.5) else ones
        wide[at] = d.pick(EXTENTS)
        return tuple(wide)
    return tuple(e if d.chance(0.5) else 1 for e in shape)


def broadcast(*shapes):
    return tuple(numpy.broadcast_shapes(*shapes))


def computed(d, shape):
    """A value of this shape that nodes make, or None."""
    same = [v for v in d.values if v.shape == shape and v.kind == "f"]
    if same and d.chance(0.8):
        return d.pick(same)
    options = []
    for v in d.values:
        if v.kind != "f" or v.rank < len(shape) or v.rank == 0:
            continue
        lifted = (1,) * (v.rank - len(shape)) + shape
        if lifted != v.shape and all(a in (1, b) for a, b in zip(lifted, v.shape)):
            options.append((v, lifted))
    if options and d.chance(0.7):
        v, lifted = d.pick(options)
        axes = [i for i, e in enumerate(lifted) if e == 1 and (v.shape[i] != 1 or d.chance(0.3))]
        if v.rank == 4 and lifted == v.shape[:2] + (1, 1):
            y = d.emit(d.pick(("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool")) if not d.gpu else "GlobalAveragePool", [v], lifted)
        elif d.gpu:
            return None
        elif d.opset >= 18:
            y = d.emit(d.pick(("ReduceMean", "ReduceMax", "ReduceMin")), [v, d.integers(axes)], lifted, keepdims=1)
        else:
            y = d.emit(d.pick(("ReduceMean", "ReduceMax", "ReduceMin")), [v], lifted, axes=axes, keepdims=1)
        if lifted != shape:
            y = d.emit("Reshape", [y, d.integers(shape)], shape)
        return y
    if d.chance(0.5):
        return d.emit(d.pick(("Sigmoid", "Tanh", "Neg")), [d.input(shape)], shape, mag=1.0)
    return None


def operand(d, x):
    """A second operand for x."""
    if d.chance(0.25):  # a residual, or anything else of the same shape
        same = [v for v in d.values if v.shape == x.shape and v.kind == "f" and v.name != x.name]
        if same:
            return d.pick(same)
    for _ in range(8):
        shape = operand_shape(d, x.shape)
        if d.fits(broadcast(shape, x.shape)):
            break
    else:
        shape = ()
    kind = d.random.random()
    if kind < 0.5:
        return d.constant(d.draw(shape))
    if kind < 0.8:
        y = computed(d, shape)
        if y is not None:
            return y
    return d.input(shape)


UNARY = {  # operator: (first opset, attributes, size of the result)
    "Abs": 6, "Neg": 6, "Relu": 6, "Sigmoid": 6, "Tanh": 6, "LeakyRelu": 6, "Elu": 6, "Celu": 12, "Selu": 6, "Softplus": 1,
    "Softsign": 1, "Gelu": 20, "HardSigmoid": 6, "HardSwish": 14, "Mish": 18, "Erf": 9, "Sin": 7, "Cos": 7, "Clip": 11,
    "PRelu": 7, "Exp": 6, "Sqrt": 6, "Log": 6, "Reciprocal": 6, "Pow": 7, "Identity": 1}
COMMON = ("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Gelu", "HardSwish", "Mish", "Clip", "SiLU", "SiLU")
BOUNDED = ("Sigmoid", "Tanh", "Softsign", "HardSigmoid", "Erf", "Sin", "Cos")


def unary(d, x):
    op = d.pick(COMMON) if d.chance(0.5) else d.pick(list(UNARY))
    if op == "SiLU":
        return d.emit("Mul", [x, d.emit("Sigmoid", [x], x.shape, mag=1.0, low=0.0)], x.shape)
    if UNARY[op] > d.opset:
        op = "Relu"
    attributes, inputs, mag, low = {}, [x], x.mag, -numpy.inf
    if op in ("LeakyRelu", "Elu", "Celu") and d.chance(0.6):
        attributes["alpha"] = d.pick((0.1, 0.5, 1.5))
    if op == "HardSigmoid" and d.chance(0.6):
        attributes.update(alpha=d.pick((0.1, 0.25)), beta=d.pick((0.3, 0.5)))
    if op == "Gelu" and d.chance(0.4):
        attributes["approximate"] = "tanh"
    if op == "Selu":
        mag = 1.8 * x.mag
    if op == "PRelu":
        for _ in range(8):
            shape = operand_shape(d, x.shape)
            if len(shape) <= x.rank and broadcast(shape, x.shape) == x.shape:
                break
        else:
            shape = ()
        inputs.append(d.constant(d.draw(shape)))
    if op == "Clip":
        lower = d.constant(numpy.float32(d.pick((-1.0, -0.25, 0.0)))) if d.chance(0.8) else None
        upper = d.constant(numpy.float32(d.pick((0.5, 1.0, 6.0)))) if d.chance(0.8) else None
        inputs += [lower, upper]
    if op == "Exp":
        x = inputs[0] = d.tame(x) if x.mag <= 3 else d.emit("Tanh", [x], x.shape, mag=1.0)
        mag = float(numpy.exp(min(4, x.mag)))
    if op in ("Sqrt", "Log", "Reciprocal"):
        x = inputs[0] = d.positive(x)
        mag, low = (4.0, 0.2 if x.mag < 5 else -numpy.inf) if op == "Reciprocal" else (max(2.0, x.mag), 0.3 if op == "Sqrt" else -numpy.inf)
    if op == "Pow":
        exponent = d.pick((2.0, 2.0, 3.0, 0.5, 1.0, -1.0))
        if exponent in (0.5, -1.0):
            x = inputs[0] = d.positive(x)
        shape = d.pick(((), (), (1,), (1,) * x.rank))
        if len(shape) > x.rank:
            shape = ()
        inputs.append(d.constant(numpy.full(shape, exponent, numpy.float32)))
        mag = min(1e4, max(4.0, x.mag ** abs(exponent)))
        low = 0.0 if exponent == 2.0 else -numpy.inf
    if op in BOUNDED:
        mag = 1.5
    if op in ("Relu", "Sigmoid", "Abs"):
        low = 0.0
    return d.tame(d.emit(op, inputs, inputs[0].shape, mag=mag, low=low, **attributes))


def binary(d, x):
    op = d.pick(("Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min", "Div", "Sum"))
    y = operand(d, x)
    low = -numpy.inf
    if op == "Div" or y.constant and d.chance(0.1):
        op = "Div"
        y = d.constant(d.draw(y.shape, 0.5, 2.0)) if y.constant else d.positive(y)
    mag = {"Add": x.mag + y.mag, "Sub": x.mag + y.mag, "Sum": x.mag + y.mag, "Mul": x.mag * y.mag, "Div": 4 * x.mag}.get(op, max(x.mag, y.mag))
    if op in ("Add", "Sum") and x.low >= 0 and y.low >= 0:
        low = x.low + y.low
    operands = [y, x] if op != "Div" and d.chance(0.3) else [x, y]
    shape = broadcast(x.shape, y.shape)
    if op in ("Sum", "Max", "Min") and d.chance(0.4):
        z = operand(d, Value("", shape))
        if d.fits(broadcast(shape, z.shape)):
            shape, mag, low = broadcast(shape, z.shape), mag + z.mag, -numpy.inf
            operands.append(z)
    return d.tame(d.emit(op, operands, shape, mag=mag, low=low))


def gated(d, x):
    """Squeeze and excitation: the image times a vector for each of its images."""
    if x.rank != 4 or x.elements < 4:
        return None
    n, c = x.shape[:2]
    small = d.pick((1, 2, 8, 16))
    from contractions import weights
    pooled = d.emit("GlobalAveragePool", [x], (n, c, 1, 1))
    h = d.emit("Conv", [pooled, weights(d, (small, c, 1, 1), c), d.constant(d.draw((small,)))], (n, small, 1, 1), mag=2.0)
    h = d.emit(d.pick(("Relu", "Tanh", "Sigmoid")), [h], h.shape, mag=2.0)
    h = d.emit("Conv", [h, weights(d, (c, small, 1, 1), small), d.constant(d.draw((c,)))], (n, c, 1, 1), mag=2.0)
    h = d.emit(d.pick(("Sigmoid", "HardSigmoid")), [h], h.shape, mag=1.0)
    return d.emit("Mul", [x, h] if d.chance(0.7) else [h, x], x.shape)


def embedded(d, x):
    """An embedding of its own, projected and added to every pixel."""
    if x.rank != 4:
        return None
    from contractions import weights
    n, c = x.shape[:2]
    width = d.pick((3, 8, 16, 24))
    time = next((v for v in d.values if v.name in d.inputs and v.rank == 2 and v.shape[0] == n), None) or d.input((n, width))
    h = time if d.chance(0.4) else d.emit("Relu", [time], time.shape)
    h = d.emit("Gemm", [h, weights(d, (c, h.shape[1]), h.shape[1]), d.constant(d.draw((c,)))], (n, c), transB=1, mag=2.0)
    if d.chance(0.5):
        h = d.emit("Reshape", [h, d.integers((n, c, 1, 1) if d.chance(0.5) else (0, -1, 1, 1))], (n, c, 1, 1))
    elif d.opset >= 13:
        h = d.emit("Unsqueeze", [h, d.integers([2, 3])], (n, c, 1, 1))
    else:
        h = d.emit("Unsqueeze", [h], (n, c, 1, 1), axes=[2, 3])
    return d.emit(d.pick(("Add", "Mul")), [x, h], x.shape, mag=2 * x.mag + 2)
