"""Pools, resizes, and blocks of pixels as channels."""

import numpy


def depth_to_space(d, x):
    if x.rank != 4:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0 and d.chance(0.6):
        mode = d.pick(("DCR", "CRD", None))
        return d.emit("DepthToSpace", [x], (n, c // 4, 2 * h, 2 * w), blocksize=2, mode=mode)
    if h % 2 == 0 and w % 2 == 0:
        return d.emit("SpaceToDepth", [x], (n, 4 * c, h // 2, w // 2), blocksize=2)
    return None


def pool(d, x):
    if x.rank not in ((4,) if d.gpu else (3, 4, 4, 5)):
        return None
    if d.chance(0.2):
        return d.emit("GlobalAveragePool" if d.gpu or d.chance(0.6) else "GlobalMaxPool", [x], x.shape[:2] + (1,) * (x.rank - 2))
    average = d.chance(0.5)
    n = x.rank - 2
    kernel, strides, before, after, extents = [], [], [], [], []
    dilations = [1] * n if average and d.opset < 19 or d.chance(0.8) else [2] * n
    ceil = not any(v > 1 for v in dilations) and d.chance(0.25)
    for i, e in enumerate(x.shape[2:]):
        k, s = d.pick((2, 2, 3, 1, 5)), d.pick((1, 2, 2, 3))
        span = (k - 1) * dilations[i] + 1
        b, a = (d.random.randint(0, k - 1), d.random.randint(0, k - 1)) if d.chance(0.4) and dilations[i] == 1 else (0, 0)
        if e + b + a < span:
            k, s, b, a, span = 1, 1, 0, 0, 1
        out = (e + b + a - span + (s - 1 if ceil else 0)) // s + 1
        if ceil and (out - 1) * s >= e + b:  # runtimes disagree on windows that begin behind the image
            b, a, k, s, span = 0, 0, 1, 1, 1
            out = e
        kernel.append(k), strides.append(s), before.append(b), after.append(a), extents.append(out)
    if average and any(k <= max(p, q) for k, p, q in zip(kernel, before, after)):
        before, after, average = before, after, False
    shape = x.shape[:2] + tuple(extents)
    if not d.fits(shape):
        return None
    attributes = dict(kernel_shape=kernel, strides=strides if d.chance(0.8) or max(strides) > 1 else None,
                      pads=before + after if any(before + after) or d.chance(0.3) else None, ceil_mode=1 if ceil else None)
    if max(dilations) > 1:
        attributes["dilations"] = dilations
    if average:
        counts = 1 if not ceil and max(dilations) == 1 and d.chance(0.4) else None
        return d.emit("AveragePool", [x], shape, count_include_pad=counts, **attributes)
    if not d.gpu and d.chance(0.1):
        return d.emit("MaxPool", [x], [shape, shape], "fi", **attributes)[0]
    return d.emit("MaxPool", [x], shape, **attributes)


def upsample(d, x):
    """Resize as opset 9 has it."""
    if d.opset != 9 or x.rank not in (3, 4):
        return None
    mode = d.pick(("nearest", "nearest", None) if x.rank == 3 else ("nearest", "linear", None))
    scales = [1.0, 1.0] + [d.pick((2.0, 2.0, 3.0, 1.5, 1.0)) for _ in x.shape[2:]]
    shape = tuple(int(e * s) for e, s in zip(x.shape, scales))
    return d.emit("Upsample", [x, d.constant(numpy.array(scales, numpy.float32))], shape, mode=mode) if d.fits(shape) else None


def resize(d, x):
    if x.rank != 4 and (x.rank != 3 or d.gpu):
        return None
    mode = d.pick(("nearest", "nearest", "linear"))
    coordinates = d.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    if mode == "nearest" and coordinates == "pytorch_half_pixel":
        coordinates = "asymmetric"
    scales = [1.0, 1.0] + [d.pick((2.0, 2.0, 2.0, 3.0, 1.5, 0.5, 1.0)) for _ in x.shape[2:]]
    if d.chance(0.5):
        scales[2:] = [d.pick((2.0, 2.0, 0.5))] * (x.rank - 2)
    extents = [int(e * s) for e, s in zip(x.shape, scales)]
    whole = all(e * s == int(e * s) for e, s in zip(x.shape, scales))
    if min(extents) < 1 or not d.fits(tuple(extents)):
        return None
    if coordinates == "align_corners" and (not whole or min(extents) < 2):
        coordinates = "asymmetric"
    attributes = dict(mode=mode, coordinate_transformation_mode=coordinates)
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick(("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"))
        if d.chance(0.4):
            attributes.update(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    roi = d.constant(numpy.zeros(0, numpy.float32)) if d.opset < 13 else None
    if d.chance(0.6) or not whole:
        inputs = [x, roi, d.constant(numpy.array(scales, numpy.float32))]
    else:
        none = d.constant(numpy.zeros(0, numpy.float32)) if d.opset < 13 else None
        inputs = [x, roi, none, d.integers(extents)]
    return d.emit("Resize", inputs, tuple(extents), **attributes)
