"""Writes small ONNX files: just enough of protobuf's wire format for tests, without the package onnx."""

FLOAT, INT64, FLOAT16, BOOL, INT32, UINT8 = 1, 7, 10, 9, 6, 2


def varint(value):
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, value):
    """A field of a message: an int, or text and bytes (messages, too)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name, kind, shape):
    """`shape`: numbers and symbols."""
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def coded(value):
    """An attribute's: an integer, a list of them, text, or a graph()."""
    if isinstance(value, bytes):
        return field(6, value) + field(20, 5)
    if isinstance(value, list):
        return b"".join(field(8, i) for i in value) + field(20, 7)
    return field(4, value) + field(20, 3) if isinstance(value, str) else field(3, value) + field(20, 2)


def node(op, inputs, outputs, domain="", called="", **given):
    """Attributes are integers, lists of them, text, and graphs. `called`: the node's own name."""
    attributes = b"".join(field(5, field(1, name) + coded(value)) for name, value in given.items())
    names = (field(3, called) if called else b"") + field(4, op) + (field(7, domain) if domain else b"")
    return b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) + names + attributes


def function(name, inputs, outputs, nodes, domain="local", opset=18):
    """For model(functions=…); a node of this domain calls it."""
    body = field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs)
    return body + b"".join(field(7, n) for n in nodes) + field(9, field(2, opset)) + field(10, domain)


def constant(name, kind, shape, elements):
    """`elements`: little-endian bytes."""
    return b"".join(field(1, d) for d in shape) + field(2, kind) + field(8, name) + field(9, elements)


def graph(nodes, inputs, outputs, constants=(), infos=()):
    body = b"".join(field(1, n) for n in nodes) + field(2, "graph") + b"".join(field(5, c) for c in constants)
    body += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return body + b"".join(field(13, i) for i in infos)


def model(nodes, inputs, outputs, opset=18, constants=(), infos=(), functions=()):
    local = field(8, field(1, "local") + field(2, 1)) if functions else b""
    return (field(1, 8) + field(7, graph(nodes, inputs, outputs, constants, infos)) + field(8, field(2, opset)) + local
            + b"".join(field(25, one) for one in functions))
