"""Operators of opsets from 23 on: attention and what stands around it."""

import numpy

from contractions import weights


def swish(d, x):
    return d.emit("Swish", [x], x.shape, alpha=d.pick((None, 0.5, 1.702)), mag=x.mag) if d.opset >= 24 else None


def swiglu(d, x):
    """Of two values, or of the halves of one."""
    if d.opset < 28:
        return None
    if x.rank > 0 and x.shape[-1] % 2 == 0 and d.chance(0.5):
        half = x.shape[:-1] + (x.shape[-1] // 2,)
        gate, other = d.emit("Split", [x], [half, half], "f", axis=-1, num_outputs=2, mag=x.mag)
    else:
        same = [v for v in d.values if v.shape == x.shape and v.kind == "f" and v.name != x.name]
        gate, other = x, d.pick(same) if same and d.chance(0.6) else d.input(x.shape)
    return d.tame(d.emit("SwiGLU", [gate, other], gate.shape, alpha=d.pick((None, None, 1.702)), mag=gate.mag * other.mag))


def rms_normalization(d, x):
    if d.opset < 23 or x.rank == 0:
        return None
    axis = x.rank - 1 if d.gpu or d.chance(0.6) else d.random.randint(0, x.rank - 1)
    shape = x.shape[axis:] if d.chance(0.8) else tuple(e if d.chance(0.5) else 1 for e in x.shape[axis:])
    return d.emit("RMSNormalization", [x, d.constant(d.draw(shape, 0.5, 1.5))], x.shape, mag=4.0, epsilon=d.pick((None, 1e-3, 0.1)),
                  axis=None if axis == x.rank - 1 and d.chance(0.3) else d.axis(x, axis))


def rotary_embedding(d, x):
    """Of (batch, heads, places, columns), or of (batch, places, heads·columns)."""
    if d.opset < 23 or x.rank not in (3, 4) or x.shape[-1] % 2:
        return None
    heads = d.pick([h for h in (1, 2, 4) if x.shape[-1] % (2 * h) == 0]) if x.rank == 3 else None
    width, places = x.shape[-1] // (heads or 1), x.shape[-2]
    turned = d.pick([t for t in (2, 4, 8) if t <= width]) if d.chance(0.3) else 0
    columns = (turned or width) // 2
    ids = None
    shape = (x.shape[0], places, columns)
    if d.chance(0.5):
        shape = (places + d.pick((0, 3)), columns)
        ids = d.integers(d.numbers.integers(0, shape[0], (x.shape[0], places)))
    angles = d.draw(shape, -3.0, 3.0)
    inputs = [x, d.constant(numpy.cos(angles)), d.constant(numpy.sin(angles)), ids]
    return d.emit("RotaryEmbedding", inputs, x.shape, mag=1.5 * x.mag, num_heads=heads, interleaved=d.pick((None, 0, 1)),
                  rotary_embedding_dim=turned or None)


def projected(d, x, heads, width, flat):
    """x times a matrix, as (batch, places, heads·width) or (batch, heads, places, width)."""
    batch, places, k = x.shape
    y = d.emit("MatMul", [x, weights(d, (k, heads * width), k)], (batch, places, heads * width), mag=1.2 * x.mag)
    if flat:
        return y
    y = d.emit("Reshape", [y, d.integers((batch, places, heads, width))], (batch, places, heads, width))
    return d.emit("Transpose", [y], (batch, heads, places, width), perm=[0, 2, 1, 3])


def mask_of(d, shape):
    """Numbers on top of scores, or which of them count; the first key always does."""
    batch, heads, queries, keys = shape
    shape = d.pick(((queries, keys), (batch, 1, queries, keys), (1, heads, queries, keys), shape))
    if d.chance(0.5):
        return d.constant(d.draw(shape))
    seen = d.numbers.uniform(size=shape) < 0.7
    seen[..., 0] = True
    return d.constant(seen)


def attention_operator(d, x):
    if d.opset < 23 or x.rank != 3 or x.shape[1] > 17 or x.shape[2] > 33:
        return None
    x = d.tame(x)
    batch, places, _ = x.shape
    groups, shared, width, flat = d.pick((1, 2)), d.pick((1, 1, 2)), d.pick((2, 4, 8)), d.chance(0.5)
    heads, past = groups * shared, d.pick((1, 3)) if d.chance(0.2) else 0
    q, k, v = (projected(d, x, n, width, flat) for n in (heads, groups, groups))
    mask = mask_of(d, (batch, heads, places, places + past)) if d.chance(0.4) else None
    before = [d.constant(d.draw((batch, groups, past, width))) for _ in range(2)] if past else [None, None]
    attributes = dict(is_causal=d.pick((None, 1)) if mask is None else None, scale=d.pick((None, 0.3)),
                      softcap=d.pick((None, None, 2.0)))
    if flat:
        attributes.update(q_num_heads=heads, kv_num_heads=groups)
    shape = (batch, places, heads * width) if flat else (batch, heads, places, width)
    if not past:
        return d.emit("Attention", [q, k, v, mask], shape, mag=v.mag, **attributes)
    present = (batch, groups, past + places, width)
    return d.emit("Attention", [q, k, v, mask, *before], [shape, present, present], "f", mag=v.mag, **attributes)[0]


# motif: how often for the CPU, and for the GPU
MOTIFS = {swish: (4, 4), swiglu: (4, 4), rms_normalization: (4, 4), rotary_embedding: (12, 0), attention_operator: (25, 0)}
EPILOGUES = (swish, swiglu, rms_normalization)
