"""Sequences of tensors, and means of tensors."""


def sequence(d, x):
    """Split, changed and joined again; no sequence is a value for others."""
    if d.symbols or x.rank == 0 or x.shape[0] > 8:
        return None

    def emit(op, inputs, **attributes):
        value = d.emit(op, inputs, x.shape, **attributes)
        d.values.remove(value)
        return value

    s = emit("SplitToSequence", [x], axis=0, keepdims=0)
    part = x.shape[1:]
    first = d.emit("SequenceAt", [s, d.integers(0)], part, mag=x.mag)
    length = x.shape[0]
    if d.chance(0.5):
        s, length = emit("SequenceInsert", [s, first, d.integers(d.random.randint(-length, length))]), length + 1
    if length > 1 and d.chance(0.5):
        s, length = emit("SequenceErase", [s, d.integers(d.random.randint(-length, length - 1))]), length - 1
    if d.chance(0.3):
        other = emit("SequenceInsert", [emit("SequenceEmpty", []), first])
        s, length = (other, 1) if d.chance(0.5) else (emit("SequenceConstruct", [first, first]), 2)
    count = d.emit("SequenceLength", [s], (), "i")
    y = d.emit("ConcatFromSequence", [s], (length,) + part, axis=0, new_axis=1, mag=x.mag)
    return d.emit("Mul", [y, d.emit("Cast", [count], (), to=1, mag=float(length))], y.shape, mag=x.mag * length)


def mean(d, x):
    same = [v for v in d.values if v.shape == x.shape and v.kind == "f"]
    parts = [x] + [d.pick(same) for _ in range(d.pick((0, 1, 2)))]
    return d.emit("Mean", parts, x.shape, mag=max(v.mag for v in parts))


MOTIFS = (sequence, mean)
