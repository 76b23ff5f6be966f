#!/usr/bin/env python3
"""Checks that the importer reads every attribute that the operators it imports may have.

usage: attributes.py ROOT

The check of a node against its operator's schema lets an attribute pass that the schema has. One that no importer
looks at would be computed as if it were not there. Imported are the operators with a row in src/network/onnx or in a
table of include/unisono. An attribute is read if its name stands in quotes in a file of src/network/onnx; UNREAD
lists the others, with the reason why they change nothing.
"""
import pathlib
import re
import sys

OLDEST = 11  # opset that is imported
EIGHT_BITS = "for types of 8 bits, which are refused"
TEXTS = "texts and sparse tensors are refused as a constant without a value that is known"
UNREAD = {
    ("Cast", "round_mode"): EIGHT_BITS, ("Cast", "saturate"): EIGHT_BITS,
    ("CastLike", "round_mode"): EIGHT_BITS, ("CastLike", "saturate"): EIGHT_BITS,
    ("Constant", "sparse_value"): TEXTS, ("Constant", "value_string"): TEXTS, ("Constant", "value_strings"): TEXTS,
    ("Dropout", "seed"): "nothing is dropped at inference",
    ("TopK", "sorted"): "unsorted results may have any order, the sorted one too",
}


def attributes(text):
    """{(operator, attribute)} of versions that files of the oldest opset on refer to."""
    versions = {}
    for line in text.splitlines():
        if match := re.match(r"(\w+) (\d+) .*? / (.*?) ?/ ", line):
            names = [a.split(":")[0] for a in match[3].split()]
            versions.setdefault(match[1], []).append((int(match[2]), names))
    for operator, rows in versions.items():
        oldest = max([v for v, _ in rows if v <= OLDEST], default=0)
        yield from {(operator, name) for v, names in rows if v >= oldest for name in names}


def main():
    root = pathlib.Path(sys.argv[1])
    folder = root / "src/network/onnx"
    sources = "".join(f.read_text() for f in folder.glob("*.cpp"))
    tables = "".join(f.read_text() for f in (root / "include/unisono").rglob("*.def"))
    imported = set(re.findall(r'\{"([A-Z]\w+)", \d+, ', sources + tables))
    quoted = set(re.findall(r'"(\w+)"', sources))
    unread = {(o, a) for o, a in attributes((folder / "schemas.txt").read_text()) if o in imported and a not in quoted}
    problems = [f"{o}: nothing reads its attribute {a}" for o, a in sorted(unread - UNREAD.keys())]
    problems += [f"{o}: {a} is listed in UNREAD, but read or gone" for o, a in sorted(UNREAD.keys() - unread)]
    print("\n".join(problems) or f"the attributes of {len(imported)} operators are read, but for {len(unread)}")
    sys.exit(1 if problems or len(imported) < 50 else 0)


main()
