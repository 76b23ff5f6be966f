"""Recurrent layers, sequences of tensors, and means of tensors."""

import numpy

FUNCTIONS = {"Affine": (1, 1), "Elu": (1, 0), "HardSigmoid": (1, 1), "LeakyRelu": (1, 0), "Relu": (0, 0), "ScaledTanh": (1, 1),
             "Sigmoid": (0, 0), "Softplus": (0, 0), "Softsign": (0, 0), "Tanh": (0, 0), "ThresholdedRelu": (1, 0)}
CELLS = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}  # gates, functions


def functions(d, count):
    """The attributes of the gates' functions: alphas and betas of those that have them, in their order."""
    names = [d.pick(tuple(FUNCTIONS)) for _ in range(count)]
    numbers = [[round(d.random.uniform(0.2, 0.8), 3) for name in names if FUNCTIONS[name][i]] or None for i in (0, 1)]
    return {"activations": names, "activation_alpha": numbers[0], "activation_beta": numbers[1]}


def layer(d, x):
    if x.rank != 3 or x.shape[0] > 9:
        return None
    x = d.tame(x)
    op = d.pick(tuple(CELLS))
    (gates, count), hidden = CELLS[op], d.pick((1, 3, 8, 17))
    direction = d.pick((None, "reverse", "bidirectional"))
    both = 2 if direction == "bidirectional" else 1
    steps, rows, width = x.shape
    shape = (steps, both, rows, hidden)
    if not d.fits(shape):
        return None

    def constant(*extents):
        return d.constant(d.draw(extents, -0.5, 0.5))

    inputs = [x, constant(both, gates * hidden, width), constant(both, gates * hidden, hidden)]
    inputs.append(constant(both, 2 * gates * hidden) if d.chance(0.7) else None)
    lengths = d.numbers.integers(1, steps + 1, (rows,)).astype(numpy.int32)
    inputs.append(d.constant(lengths) if d.chance(0.3) else None)
    inputs.append(constant(both, rows, hidden) if d.chance(0.5) else None)
    if op == "LSTM":
        inputs += [constant(both, rows, hidden) if d.chance(0.5) else None, constant(both, 3 * hidden) if d.chance(0.3) else None]
    attributes = functions(d, count * both) if d.chance(0.3) else {}
    if op == "GRU":
        attributes["linear_before_reset"] = d.pick((None, 1))
    if op == "LSTM":
        attributes["input_forget"] = d.pick((None, None, 1))
    y = d.emit(op, inputs, [shape, (both, rows, hidden)], "f", mag=2.0, hidden_size=hidden, direction=direction,
               clip=d.pick((None, None, 0.7)), **attributes)
    return d.tame(y[0])


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


MOTIFS = (layer, layer, sequence, mean)
