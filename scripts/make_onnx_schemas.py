#!/usr/bin/env python3
"""Writes what ONNX says of its operators into src/network/onnx: schemas.txt has what every operator takes, by the opset
that defined it, and function_bodies.txt what those are made of that ONNX defines as functions of others.

usage: make_onnx_schemas.py [--check] [FOLDER]

The Python package `onnx` says it; scripts/requirements-schemas.txt pins its version, and scripts/setup.sh test installs
it. With --check nothing is written: exit status 1 and the lines that differ if a file is not what would be written.
src/network/onnx/operator_schema.hpp and function_bodies.hpp describe the formats.
"""
import difflib
import pathlib
import sys

PINNED = (pathlib.Path(__file__).parent / "requirements-schemas.txt").read_text().strip().removeprefix("onnx==")
try:
    import numpy
    import onnx
    from onnx import defs, numpy_helper
except ImportError:
    onnx = None
if onnx is None or onnx.__version__ != PINNED:
    sys.exit(f"onnx {PINNED} is needed, and here is {onnx.__version__ if onnx else 'none'}: run scripts/setup.sh test, configure "
             "again, and use the Python of the folder that ends in -schemas")

KINDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "FLOATS": "f*", "INTS": "i*",
         "STRINGS": "s*", "TENSORS": "t*", "GRAPHS": "g*", "SPARSE_TENSOR": "S", "SPARSE_TENSORS": "S*",
         "TYPE_PROTO": "T", "TYPE_PROTOS": "T*"}
# The names of tensor types are those of TensorProto.DataType in lower case
ELEMENTS = {f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()}


def mask(types):
    """One bit for each element type; bit 0 for everything that is no dense tensor."""
    bits = 0
    for name in types:
        bits |= 1 << ELEMENTS.get(name, 0)
    return f"{bits:x}"


def parameter(p, constraints):
    option = defs.OpSchema.FormalParameterOption
    kind = {option.Optional: "?", option.Single: ""}.get(p.option)
    if kind is None:
        kind = f"{'*' if p.is_homogeneous else '~'}{p.min_arity}"
    kind_of_type = p.type_str if p.type_str in constraints else "#" + mask(p.types)
    return f"{p.name}{kind}:{kind_of_type}"


def line(schema):
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    words = [schema.name, str(schema.since_version)]
    words += [parameter(p, constraints) for p in schema.inputs]
    words += [">"] + [parameter(p, constraints) for p in schema.outputs]
    words += ["/"] + [f"{name}:{KINDS[a.type.name]}{'!' if a.required else ''}"
                      for name, a in sorted(schema.attributes.items())]
    words += ["/"] + [f"{name}={mask(types)}" for name, types in sorted(constraints.items())]
    return " ".join(words)


def table():
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    head = [f"# Written by scripts/make_onnx_schemas.py from the Python package onnx {onnx.__version__}",
            f"opset {defs.onnx_opset_version()}"]
    return "\n".join(head + [line(s) for s in schemas]) + "\n"


def number(x):
    """A float with as many digits as tell it from others of its type."""
    return str(numpy.float32(x)) if numpy.isfinite(x) else repr(float(x))


def tensor(t):
    values = numpy_helper.to_array(t)
    if values.dtype.kind not in "fi" or values.dtype.itemsize < 4:
        sys.exit(f"a body has a constant of {values.dtype}: write it down")
    texts = [number(x) if values.dtype == numpy.float32 else repr(x) for x in values.flatten().tolist()]
    return f"{t.data_type}[{','.join(map(str, t.dims))}]{','.join(texts)}"


def value(a):
    kind = a.type
    if a.ref_attr_name:
        return f"@{a.ref_attr_name}"
    write = {a.FLOAT: lambda: number(a.f), a.INT: lambda: str(a.i), a.STRING: lambda: a.s.decode(),
             a.TENSOR: lambda: tensor(a.t), a.FLOATS: lambda: ",".join(map(number, a.floats)),
             a.INTS: lambda: ",".join(map(str, a.ints))}.get(kind)
    if write is None:
        sys.exit(f"a body has an attribute {a.name} of {a.AttributeType.Name(kind)}: write it down")
    return "=" + write()


def attribute(a):
    return f"{a.name}:{KINDS[onnx.AttributeProto.AttributeType.Name(a.type)]}{value(a)}"


def body_lines(schema, opset, body):
    given = [attribute(a.default_value) if a.default_value.name else name
             for name, a in sorted(schema.attributes.items())]
    head = [schema.name, str(schema.since_version), str(opset), *body.input, ">", *body.output, "/", *given]
    lines = [" ".join(head)]
    for node in body.node:
        inputs = [name or "-" for name in node.input]
        lines.append(" " + " ".join([node.op_type, *inputs, ">", *node.output, "/", *map(attribute, node.attribute)]))
    return lines


def has_branches(body):
    return any(a.type in (a.GRAPH, a.GRAPHS) for node in body.node for a in node.attribute)


def bodies():
    """Those that are the same for every node. Bodies with branches and loops are left out: they need an importer."""
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == "" and s.has_function]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    lines = [f"# Written by scripts/make_onnx_schemas.py from the Python package onnx {onnx.__version__}"]
    for schema in schemas:
        for opset in sorted(schema.function_opset_versions):
            body = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(opset))
            if not has_branches(body):
                lines += body_lines(schema, opset, body)
    return "\n".join(lines) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    default = pathlib.Path(__file__).parent.parent / "src" / "network" / "onnx"
    folder = pathlib.Path(arguments[0]) if arguments else default
    differences = []
    for name, text in (("schemas.txt", table()), ("function_bodies.txt", bodies())):
        path = folder / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        differences += difflib.unified_diff(path.read_text().splitlines(), text.splitlines(), str(path), "as generated",
                                            lineterm="", n=0)
    print("\n".join(differences[:40]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
