"""Moves that follow one another: pixels as rows and back, rolls, windows, patches, as in transformers for images."""


def reshaped(d, x, shape):
    return d.emit("Reshape", [x, d.integers(shape)], tuple(shape))


def permuted(d, x, order):
    return d.emit("Transpose", [x], tuple(x.shape[i] for i in order), perm=list(order))


def sliced(d, x, axis, begin, end, step=1):
    count = (min(end, x.shape[axis]) - begin + step - 1) // step
    inputs = [x] + [d.integers([v]) for v in (begin, end, axis, step)]
    return d.emit("Slice", inputs, x.shape[:axis] + (count,) + x.shape[axis + 1:])


def joined(d, parts, axis):
    shape = parts[0].shape
    whole = shape[:axis] + (sum(p.shape[axis] for p in parts),) + shape[axis + 1:]
    return d.emit("Concat", parts, whole, mag=max(p.mag for p in parts), axis=axis)


def as_rows(d, x):
    """(N,C,H,W) as (N,H·W,C)"""
    if x.rank != 4:
        return None
    n, c, h, w = x.shape
    if d.chance(0.5):
        return permuted(d, reshaped(d, x, (n, c, h * w)), (0, 2, 1))
    return reshaped(d, permuted(d, x, (0, 2, 3, 1)), (n, h * w, c))


def as_image(d, x):
    if x.rank != 3:
        return None
    n, pixels, c = x.shape
    h = d.pick([i for i in range(1, pixels + 1) if pixels % i == 0])
    if d.chance(0.5):
        return reshaped(d, permuted(d, x, (0, 2, 1)), (n, c, h, pixels // h))
    return permuted(d, reshaped(d, x, (n, h, pixels // h, c)), (0, 3, 1, 2))


def roll(d, x):
    axis = d.random.randrange(x.rank)
    if x.shape[axis] < 2:
        return None
    by = d.random.randint(1, x.shape[axis] - 1)
    return joined(d, [sliced(d, x, axis, by, 2 ** 31 - 1), sliced(d, x, axis, 0, by)], axis)


def windows(d, x):
    """(N,A,B,C) as (windows, pixels of one, C)"""
    if x.rank != 4 or x.shape[1] % 2 or x.shape[2] % 2:
        return None
    n, a, b, c = x.shape
    parts = permuted(d, reshaped(d, x, (n, a // 2, 2, b // 2, 2, c)), (0, 1, 3, 2, 4, 5))
    return reshaped(d, parts, (n * a * b // 4, 4, c))


def patches(d, x):
    """Every second of an axis, and the others, side by side along the last one."""
    axis = d.random.randrange(x.rank)
    if x.shape[axis] % 2 or axis == x.rank - 1:
        return None
    return joined(d, [sliced(d, x, axis, i, 2 ** 31 - 1, 2) for i in (0, 1)], x.rank - 1)


def heads(d, x):
    """Heads of 8 channels each as the channels of an image, and groups of these apart and together again."""
    size = 1
    for extent in x.shape:
        size *= extent
    if size % 64 or x.rank == 0:
        return None
    pixels = size // 64
    image = reshaped(d, permuted(d, reshaped(d, x, (1, 8, pixels, 8)), (0, 1, 3, 2)), (1, 64, pixels, 1))
    cut = d.pick((8, 16, 40))
    parts = [computed(d, sliced(d, image, 1, 0, cut)), computed(d, sliced(d, image, 1, cut, 64))]
    return joined(d, parts, 1) if d.chance(0.5) else parts[1]


def computed(d, x):
    return d.emit(d.pick(("Relu", "Tanh", "Neg", "Identity")), [x], x.shape)


def chain(d, x):
    if x.rank < 2 or d.opset < 13:
        return None
    y = x
    for _ in range(d.random.randint(2, 6)):
        y = d.pick((as_rows, as_image, roll, roll, windows, patches, heads, computed))(d, y) or y
    return None if y is x else y
