"""Whether random networks have every operator that the importer takes.

usage: emitted.py DOCS/NETWORKS.md [COUNT]

Draws COUNT networks (4,000 if none is given) and fails if an operator of the page's first table of operators is neither in
one of them nor in NOT_EMITTED, and if one of NOT_EMITTED is.
"""

import collections
import pathlib
import re
import sys

from draft import NEWER_OPSETS, OPSETS
from generator import generate

NOT_EMITTED = {}  # operator: why
ON_A_GPU = ("RMSNormalization", "SwiGLU", "Swish")  # of the newer opsets


def promised(page):
    """The operators of the table that begins with | Family |."""
    rows = page.split("| Family | Operators |\n")[1].split("\n\n")[0].splitlines()[1:]
    return {name for row in rows for name in re.findall(r"`([A-Z]\w*)`", row.split("|")[2])}


def drawn(count, gpu=False):
    """Operators of networks, the opsets that these have, and how many of them standardise by the batch."""
    operators, opsets, training = collections.Counter(), collections.Counter(), 0
    for seed in range(count):
        model, _ = generate(seed, gpu)
        operators.update({n.op_type for n in model.graph.node})
        opsets[model.opset_import[0].version] += 1
        training += any(a.name == "training_mode" and a.i for n in model.graph.node for a in n.attribute)
    return operators, opsets, training


def complaints(names, count):
    operators, opsets, training = drawn(count)
    for name in sorted(names - set(operators) - set(NOT_EMITTED)):
        yield f"{name} is in none of {count} networks, and not in NOT_EMITTED"
    for name in sorted(set(NOT_EMITTED) & set(operators) | set(NOT_EMITTED) - names):
        yield f"{name} is in NOT_EMITTED, but it is emitted, or is no operator of the table"
    for opset in sorted({9, *OPSETS, *NEWER_OPSETS} - set(opsets)):
        yield f"none of {count} networks has opset {opset}"
    if not training:
        yield "no BatchNormalization has training_mode"
    for name in sorted(set(ON_A_GPU) - set(drawn(count // 2, gpu=True)[0])):
        yield f"{name} is in no network for a GPU"


def main():
    names = promised(pathlib.Path(sys.argv[1]).read_text())
    if len(names) < 140:
        sys.exit(f"{sys.argv[1]}: {len(names)} operators are in the table; expected at least 140")
    found = list(complaints(names, int(sys.argv[2]) if len(sys.argv) > 2 else 4000))
    print("\n".join(found) or f"all of {len(names)} operators are drawn")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
