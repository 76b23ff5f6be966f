"""Convolutions and products. Each function takes (draft, value) and gives a value, or None where it does not apply."""

import math

import numpy

from draft import CHANNELS, EXTENTS, MOST_PRODUCTS


def weights(d, shape, fan_in):
    """Constants that keep the size of what they are multiplied with; now and then an input."""
    bound = math.sqrt(2.0 / max(1, fan_in))
    array = d.draw(shape, -bound, bound)
    if not d.gpu and d.chance(0.04):
        return d.input(shape, -bound, bound)
    return d.constant(array)


def bias(d, count):
    if d.chance(0.3):
        return None
    if d.chance(0.05) and not d.gpu:
        return d.input((count,), -0.5, 0.5)
    return d.constant(d.draw((count,), -0.5, 0.5))


def window(d, extents):
    """Kernel, strides, dilations and pads of a convolution, and what they make of the extents."""
    n = len(extents)
    automatic = d.pick(("SAME_UPPER", "SAME_LOWER", "VALID")) if d.chance(0.12) else None
    equal = d.chance(0.7)
    draw = lambda options: [d.pick(options)] * n if equal else [d.pick(options) for _ in range(n)]
    kernel, strides, dilations = draw((1, 1, 2, 3, 3, 3, 5, 7)), draw((1, 1, 1, 2, 3)), draw((1, 1, 1, 1, 2))
    same = d.chance(0.6)
    before, after, result = [], [], []
    for i, e in enumerate(extents):
        span = (kernel[i] - 1) * dilations[i] + 1
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            result.append((e + strides[i] - 1) // strides[i])
            before.append(0), after.append(0)
            continue
        pad = (span // 2, span // 2) if same else (d.random.randint(0, span - 1), d.random.randint(0, span - 1)) if d.chance(0.6) else (0, 0)
        if automatic:
            pad = (0, 0)
        if e + sum(pad) < span:
            kernel[i], dilations[i], span, pad = 1, 1, 1, (0, 0)
        before.append(pad[0]), after.append(pad[1])
        result.append((e + sum(pad) - span) // strides[i] + 1)
    attributes = dict(strides=strides, dilations=dilations)
    if automatic:
        attributes["auto_pad"] = automatic
        if automatic != "VALID" and max(dilations) > 1:  # runtimes disagree on what SAME is then
            attributes["dilations"] = dilations = [1] * n
    else:
        attributes["pads"] = before + after
    if d.chance(0.5):
        attributes["kernel_shape"] = kernel
    for name, default in (("strides", 1), ("dilations", 1), ("pads", 0)):
        if name in attributes and all(v == default for v in attributes[name]) and d.chance(0.5):
            del attributes[name]
    return kernel, attributes, result


def groups_of(d, channels):
    if d.chance(0.65):
        return 1
    if d.chance(0.6):
        return channels
    return d.pick([g for g in range(1, channels + 1) if channels % g == 0])


def conv(d, x):
    if x.rank not in (3, 4, 5):
        return None
    channels, groups = x.shape[1], groups_of(d, x.shape[1])
    kernel, attributes, extents = window(d, x.shape[2:])
    out = d.pick(CHANNELS)
    if groups > 1:
        out = groups * d.pick((1, 1, 2, 3) if groups == channels else (1, 2, 4))
    shape = (x.shape[0], out, *extents)
    fan_in = channels // groups * math.prod(kernel)
    if not d.fits(shape) or math.prod(shape) * fan_in > MOST_PRODUCTS:
        return None
    inputs = [x, weights(d, (out, channels // groups, *kernel), fan_in), bias(d, out)]
    return d.emit("Conv", inputs, shape, mag=1.2 * x.mag + 0.5, group=groups if groups > 1 or d.chance(0.3) else None, **attributes)


def gated_conv(d, x):
    """Two convolutions of one image, or one that is cut in two, each with its activation, multiplied."""
    if x.rank not in (3, 4):
        return None
    kernel, attributes, extents = window(d, x.shape[2:])
    channels, out, is_cut = x.shape[1], d.pick((1, 3, 8, 8, 16, 24)), d.chance(0.5)
    half = (x.shape[0], out, *extents)
    whole = (x.shape[0], 2 * out, *extents)
    fan_in = channels * math.prod(kernel)
    if not d.fits(whole) or math.prod(whole) * fan_in > MOST_PRODUCTS:
        return None

    def convolution(shape):
        inputs = [x, weights(d, (shape[1], channels, *kernel), fan_in), bias(d, shape[1])]
        return d.emit("Conv", inputs, shape, mag=1.2 * x.mag + 0.5, **attributes)

    if is_cut:
        both = convolution(whole)
        if d.opset >= 13:
            parts = d.emit("Split", [both, d.integers([out, out])], [half, half], "ff", axis=1)
        else:
            parts = d.emit("Split", [both], [half, half], "ff", split=[out, out], axis=1)
    else:
        parts = [convolution(half), convolution(half)]
    a = d.emit(d.pick(("Tanh", "Relu", "Identity")), [parts[0]], half)
    b = d.emit("Sigmoid", [parts[1]], half)
    return d.emit("Mul", [a, b] if d.chance(0.5) else [b, a], half, mag=1.2 * x.mag + 0.5)


def conv_transpose(d, x):
    if x.rank not in (3, 4, 5):
        return None
    n, channels, groups = x.rank - 2, x.shape[1], groups_of(d, x.shape[1])
    kernel, strides = [d.pick((1, 2, 3, 4))] * n, [d.pick((1, 2, 2, 3))] * n
    if d.chance(0.3):
        kernel, strides = [d.pick((1, 2, 3, 5)) for _ in range(n)], [d.pick((1, 2, 3)) for _ in range(n)]
    dilations = [d.pick((1, 1, 1, 2))] * n
    extra = [d.random.randint(0, s - 1) if d.chance(0.3) else 0 for s in strides]
    before, after, extents = [], [], []
    for i, e in enumerate(x.shape[2:]):
        span = (kernel[i] - 1) * dilations[i] + 1
        full = (e - 1) * strides[i] + span + extra[i]
        b, a = (d.random.randint(0, span // 2), d.random.randint(0, span // 2)) if d.chance(0.6) else (0, 0)
        if full - b - a < 1:
            b = a = 0
        before.append(b), after.append(a), extents.append(full - b - a)
    out = d.pick((1, 1, 2)) if groups > 1 else d.pick(CHANNELS)  # a group
    shape = (x.shape[0], out * groups, *extents)
    taps = max(1, channels // groups * math.prod(kernel) // math.prod(strides))
    if not d.fits(shape) or x.elements * out * math.prod(kernel) > MOST_PRODUCTS:
        return None
    inputs = [x, weights(d, (channels, out, *kernel), taps), bias(d, out * groups)]
    return d.emit("ConvTranspose", inputs, shape, mag=1.5 * x.mag + 0.5, strides=strides, dilations=dilations if max(dilations) > 1 else None,
                  pads=before + after, output_padding=extra if any(extra) else None, group=groups if groups > 1 else None)


def flattened(d, x):
    """x as a matrix."""
    if x.rank == 2:
        return x
    if x.rank == 0:
        return d.emit("Reshape", [x, d.integers([1, 1])], (1, 1))
    axis = 1 if x.rank > 1 and d.chance(0.7) else d.random.randint(0, x.rank)
    return d.emit("Flatten", [x], (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), axis=axis if axis != 1 or d.chance(0.5) else None)


def gemm(d, x):
    if x.rank != 2 and d.chance(0.6):
        return None
    x = flattened(d, x)
    turned, turned_b = d.chance(0.15), d.chance(0.5)
    (m, k), n = x.shape[::-1] if turned else x.shape, d.pick(CHANNELS)
    if not d.fits((m, n)) or m * n * k > MOST_PRODUCTS or n * k > 40000:
        return None
    b = weights(d, (n, k) if turned_b else (k, n), k)
    alpha, beta = (d.pick((0.5, 2.0)) if d.chance(0.15) else None for _ in range(2))
    c = None
    if d.chance(0.75):
        shape = d.pick(((n,), (n,), (n,), (1, n), (m, 1), (m, n), (1,), (), (1, 1)))
        c = d.constant(d.draw(shape)) if d.chance(0.8) else d.input(shape)
    return d.emit("Gemm", [x, b, c], (m, n), mag=2.4 * x.mag + 1, transA=1 if turned else None, transB=1 if turned_b else None, alpha=alpha,
                  beta=beta)


def matmul(d, x):
    """By a constant matrix, mostly."""
    if x.rank == 0:
        return None
    k = x.shape[-1]
    kind = d.random.random()
    n = d.pick(CHANNELS)
    if kind < 0.75 or x.rank == 1 or d.gpu:
        if n * k > 40000 or x.elements * n > MOST_PRODUCTS or not d.fits(x.shape[:-1] + (n,)):
            return None
        if d.chance(0.07):
            return d.emit("MatMul", [x, weights(d, (k,), k)], x.shape[:-1], mag=1.2 * x.mag)
        return d.emit("MatMul", [x, weights(d, (k, n), k)], x.shape[:-1] + (n,), mag=1.2 * x.mag)
    if kind < 0.85:  # a constant from the left, or a batch of them from the right
        m = x.shape[-2]
        if d.chance(0.5):
            shape = x.shape[:-2] + (n, k)
            if not d.fits(shape) or math.prod(shape) * m > MOST_PRODUCTS:
                return None
            return d.emit("MatMul", [weights(d, (n, m), m), x], shape, mag=1.2 * x.mag)
        shape = x.shape[:-1] + (n,)
        if not d.fits(shape) or math.prod(shape) * k > MOST_PRODUCTS or math.prod(x.shape[:-2]) * n * k > 40000:
            return None
        batch = tuple(1 if d.chance(0.3) else e for e in x.shape[:-2])[d.random.randint(0, x.rank - 2):]
        return d.emit("MatMul", [x, weights(d, batch + (k, n), k)], shape, mag=1.2 * x.mag)
    order = list(range(x.rank - 2)) + [x.rank - 1, x.rank - 2]  # with itself turned
    shape = x.shape[:-1] + (x.shape[-2],)
    if not d.fits(shape) or math.prod(shape) * k > MOST_PRODUCTS:
        return None
    turned = d.emit("Transpose", [x], tuple(x.shape[i] for i in order), perm=order)
    scaled = d.emit("Mul", [x, d.constant(numpy.float32(1 / k / max(1.0, x.mag)))], x.shape, mag=1.0 / k)
    return d.emit("MatMul", [scaled, turned], shape, mag=x.mag)


def attention(d, x):
    """Softmax of a product of two projections, by a third."""
    if d.gpu or x.rank not in (2, 3):
        return None
    k, n = x.shape[-1], d.pick((1, 3, 8, 16))
    rows = x.shape[-2]
    if k * n > 40000 or x.elements * n > MOST_PRODUCTS:
        return None
    q, key, v = (d.emit("MatMul", [x, weights(d, (k, n), k)], x.shape[:-1] + (n,), mag=1.2 * x.mag) for _ in range(3))
    order = list(range(x.rank - 2)) + [x.rank - 1, x.rank - 2]
    turned = d.emit("Transpose", [key], x.shape[:-2] + (n, rows), perm=order)
    scores = d.emit("MatMul", [q, turned], x.shape[:-1] + (rows,), mag=x.mag * x.mag)
    scores = d.emit("Div", [scores, d.constant(numpy.float32(max(1.0, x.mag * math.sqrt(n))))], scores.shape, mag=2.0)
    return d.emit("MatMul", [d.emit("Softmax", [scores], scores.shape, axis=-1 if d.opset >= 13 else scores.rank - 1, mag=1.0), v], v.shape, mag=v.mag)


def first_rank(d):
    """The shape of a network's first input."""
    kind = d.random.random()
    batch, channels = d.pick(BATCHES_OF(d)), d.pick(CHANNELS)
    if kind < (0.75 if d.gpu else 0.56):
        square = d.pick(EXTENTS)
        return (batch, channels, square, square if d.chance(0.4) else d.pick(EXTENTS))
    if kind < 0.70:
        return (batch * d.pick((1, 1, 4, 7)), channels)
    if kind < 0.84 or d.gpu:
        return (batch, d.pick(EXTENTS), channels) if d.chance(0.5) else (batch, channels, d.pick(EXTENTS))
    if kind < 0.93:
        return (batch, d.pick(CHANNELS[:10]), *(d.pick(EXTENTS[:6]) for _ in range(3)))
    return (channels,) if d.chance(0.7) else ()


def BATCHES_OF(d):
    return (1, 2, 3) if not d.gpu else (1, 2)
