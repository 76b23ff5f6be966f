#!/usr/bin/env python3
"""Writes src/network/onnx/schemas.txt: what every operator of ONNX takes, by the opset that defined it.

usage: make_onnx_schemas.py [--check] [FILE]

The Python package `onnx` says it; scripts/requirements-schemas.txt pins its version, and scripts/setup.sh test installs
it. With --check nothing is written: exit status 1 and the lines that differ if FILE is not what would be written.
src/network/onnx/operator_schema.hpp describes the format.
"""
import difflib
import pathlib
import sys

PINNED = (pathlib.Path(__file__).parent / "requirements-schemas.txt").read_text().strip().removeprefix("onnx==")
try:
    import onnx
    from onnx import defs
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


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    default = pathlib.Path(__file__).parent.parent / "src" / "network" / "onnx" / "schemas.txt"
    path = pathlib.Path(arguments[0]) if arguments else default
    text = table()
    if "--check" not in sys.argv[1:]:
        path.write_text(text)
        return 0
    difference = list(difflib.unified_diff(path.read_text().splitlines(), text.splitlines(), str(path), "as generated",
                                           lineterm="", n=0))
    print("\n".join(difference[:40]))
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
