"""A network in the making: its values, nodes, constants and inputs, and what random choices are drawn from."""

import math
import random
from dataclasses import dataclass

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCHES = (1, 1, 2, 2, 3)
CHANNELS = (1, 2, 3, 5, 7, 8, 8, 16, 16, 17, 24, 31, 32, 33)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
MOST_ELEMENTS = 12000
MOST_PRODUCTS = 1500000  # of one contraction
IR_VERSIONS = ((25, 13), (24, 12), (23, 11), (21, 10), (19, 9), (0, 8))  # from which opset on
OPSETS = (11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 20, 20, 21, 21, 22)
NEWER_OPSETS = (23, 24, 25, 26, 27, 28, 28)

NUMPY = {"f": numpy.float32, "i": numpy.int64, "j": numpy.int32, "b": numpy.bool_, "d": numpy.float64, "h": numpy.float16,
         "u": numpy.uint32}
ONNX = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "j": TensorProto.INT32, "b": TensorProto.BOOL, "d": TensorProto.DOUBLE,
        "h": TensorProto.FLOAT16, "u": TensorProto.UINT32}


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple
    kind: str = "f"  # a key of NUMPY
    mag: float = 1.0  # about how large its elements get
    low: float = -math.inf  # a lower bound; above 0 for what may be divided by or be a logarithm's operand
    constant: bool = False

    @property
    def rank(self):
        return len(self.shape)

    @property
    def elements(self):
        return math.prod(self.shape)


class Draft:
    """`seed` alone decides everything that is drawn; `gpu` leaves out what no GPU kernel serves."""

    def __init__(self, seed, gpu=False):
        self.random = random.Random(f"{'gpu' if gpu else 'cpu'} {seed}")
        self.numbers = numpy.random.Generator(numpy.random.PCG64(seed))
        self.gpu = gpu
        self.opset = 20 if gpu and self.chance(0.5) else self.pick(OPSETS)
        age = random.Random(f"age {seed}")  # a stream of its own: what is drawn for the other opsets stays as it was
        if age.random() < 0.2:
            self.opset = age.choice(NEWER_OPSETS)
        elif not gpu and age.random() < 0.03:
            self.opset = 9
        self.nodes, self.constants, self.inputs = [], [], {}
        self.values = []  # computed or given, in order
        self.used = set()
        self.symbols = self.random.random() < (0.1 if gpu else 0.25)
        self.count = 0

    # choices
    def pick(self, options):
        return self.random.choice(options)

    def chance(self, probability):
        return self.random.random() < probability

    def fits(self, shape):
        return 0 < math.prod(shape) <= MOST_ELEMENTS and len(shape) <= (4 if self.gpu else 5)

    def name(self, prefix="t"):
        self.count += 1
        return f"{prefix}{self.count}"

    # values
    def draw(self, shape, low=-1.0, high=1.0):
        return self.numbers.uniform(low, high, shape).astype(numpy.float32)

    def constant(self, array, mag=None, low=-math.inf):
        """An initializer, or now and then a Constant node."""
        array = numpy.asarray(array)
        name = self.name("c")
        tensor = numpy_helper.from_array(array, name)
        kind = next(k for k, t in NUMPY.items() if t == array.dtype)
        if self.chance(0.1):
            self.nodes.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
        else:
            self.constants.append(tensor)
        if mag is None:
            mag = float(numpy.abs(array).max()) if array.size and kind == "f" else 1.0
        return Value(name, array.shape, kind, mag, low, True)

    def integers(self, numbers, kind="i"):
        return self.constant(numpy.array(numbers, NUMPY[kind]))

    def input(self, shape, low=-1.0, high=1.0):
        name = self.name("x")
        self.inputs[name] = self.draw(shape, low, high)
        value = Value(name, tuple(shape), "f", max(abs(low), abs(high)), low)
        self.values.append(value)
        return value

    def emit(self, op, inputs, shapes, kinds="f", mag=None, low=-math.inf, **attributes):
        """A node; `shapes` is the shape of its one output, or a list of shapes."""
        several = isinstance(shapes, list)
        names = [self.name() for _ in (shapes if several else [0])]
        given = [i.name if isinstance(i, Value) else "" for i in inputs]
        while given and not given[-1]:
            given.pop()
        self.used.update(given)
        self.nodes.append(helper.make_node(op, given, names, name=f"{op.lower()}_{names[0]}",
                                           **{k: v for k, v in attributes.items() if v is not None}))
        first = next((i for i in inputs if isinstance(i, Value)), None)
        mag = mag if mag is not None else (first.mag if first else 1.0)
        values = [Value(n, tuple(int(e) for e in s), k, mag, low)
                  for n, s, k in zip(names, shapes if several else [shapes], kinds * len(names))]
        self.values += values
        return values if several else values[0]

    def model(self, extra_outputs=()):
        """Every value that nothing reads is an output."""
        leaves = [v for v in self.values if v.name not in self.used and v.name not in self.inputs]
        outputs = leaves + [v for v in extra_outputs if v not in leaves and v.name not in self.inputs]
        infos = []
        for name, array in self.inputs.items():
            shape = list(array.shape)
            if self.symbols:
                shape = [f"{name}_{i}" if i > 1 and self.chance(0.5) else e for i, e in enumerate(shape)]
                if len(shape) > 1 and self.chance(0.7):
                    shape[0] = f"n{array.shape[0]}"
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        results = [helper.make_tensor_value_info(v.name, ONNX[v.kind], None if self.symbols else list(v.shape)) for v in outputs]
        used = {i for n in self.nodes for i in n.input}
        infos = [i for i in infos if i.name in used]
        graph = helper.make_graph(self.nodes, "network", infos, results, [c for c in self.constants if c.name in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="random networks")
        model.ir_version = next(version for first, version in IR_VERSIONS if self.opset >= first)
        return model, {n: a for n, a in self.inputs.items() if n in used}

    # what others are made of
    def tame(self, x):
        """x with elements that are not large."""
        if x.mag <= 12:
            return x
        if self.chance(0.5):
            return self.emit("Tanh", [x], x.shape, mag=1.0)
        return self.emit("Mul", [x, self.constant(numpy.float32(2.0 / x.mag))], x.shape, mag=2.0)

    def positive(self, x):
        """Elements between 0.2 and a few."""
        if x.low >= 0.1:
            return x
        y = self.emit("Sigmoid", [x], x.shape, mag=1.0, low=0.0) if self.chance(0.5) else self.emit("Abs", [x], x.shape, low=0.0)
        return self.emit("Add", [y, self.constant(numpy.float32(0.25))], y.shape, mag=y.mag + 0.25, low=0.25)

    def axis(self, value, axis):
        """The axis as a number from either end."""
        return axis - value.rank if self.chance(0.3) else axis


def with_data(model, inputs, expected=None):
    """One file: inputs have values, and what another runtime made of them stands beside."""
    both = onnx.ModelProto()
    both.CopyFrom(model)
    for name, array in inputs.items():
        both.graph.initializer.append(numpy_helper.from_array(numpy.asarray(array), name))
    for name, array in (expected or {}).items():
        both.graph.initializer.append(numpy_helper.from_array(numpy.asarray(array), "expected/" + name))
    return both


def without_data(both):
    """(model, inputs, expected) of such a file."""
    model = onnx.ModelProto()
    model.CopyFrom(both)
    names = {i.name for i in model.graph.input}
    inputs, expected, kept = {}, {}, []
    for t in both.graph.initializer:
        if t.name in names:
            inputs[t.name] = numpy_helper.to_array(t)
        elif t.name.startswith("expected/"):
            expected[t.name[len("expected/"):]] = numpy_helper.to_array(t)
        else:
            kept.append(t)
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model, inputs, expected
