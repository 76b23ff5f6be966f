"""What exporters write between permutes of an image to channels last and back."""

import contractions
import elementwise
import normalisations


def through_rows(d, y):
    """The pixels as rows of a matrix, or of one for each image, and back"""
    shape = d.pick(((y.elements // y.shape[-1], y.shape[-1]), (y.shape[0], y.shape[1] * y.shape[2], y.shape[3])))
    z = d.emit("Reshape", [y, d.integers(shape)], shape, mag=y.mag)
    z = d.tame(d.pick((elementwise.unary, normalisations.layer_norm, contractions.matmul))(d, z) or z)
    if z.rank != len(shape) or z.shape[:-1] != shape[:-1] or z.kind != "f":
        return None
    back = y.shape[:-1] + z.shape[-1:]
    return d.emit("Reshape", [z, d.integers(back)], back, mag=z.mag)


STEPS = (elementwise.unary, elementwise.binary, elementwise.binary, normalisations.layer_norm, contractions.matmul, through_rows)


def permuted(d, x):
    if x.rank != 4:
        return None
    n, c, h, w = x.shape
    y = d.emit("Transpose", [x], (n, h, w, c), mag=x.mag, perm=[0, 2, 3, 1])
    for _ in range(d.random.randint(1, 5)):
        z = d.pick(STEPS)(d, y)
        if z is not None and z.kind == "f" and z.rank == 4 and d.fits(z.shape):
            y = d.tame(z)
    if d.chance(0.2):
        return y
    n, h, w, c = y.shape
    z = d.emit("Transpose", [y], (n, c, h, w), mag=y.mag, perm=[0, 3, 1, 2])
    if d.chance(0.5):
        z = elementwise.binary(d, z) or z
    if z.shape == x.shape and d.chance(0.6):
        z = d.emit("Add", [z, x] if d.chance(0.5) else [x, z], x.shape, mag=z.mag + x.mag)
    return z
