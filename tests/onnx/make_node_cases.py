#!/usr/bin/env python3
"""Writes the node tests that the installed package onnx brings for new opsets, in the layout of its older packages.

usage: make_node_cases.py FOLDER [FIRST_OPSET]

Packages up to onnx 1.17 ship models and data as files, up to opset 22; later ones only the code that makes them. Every
test from FIRST_OPSET (23) on becomes FOLDER/node/NAME/model.onnx and test_data_set_0/{input,output}_<i>.pb. Tests with
sequences, optional values, strings or types that NumPy lacks have no files of tensors and are counted only.
"""
import importlib
import pathlib
import pkgutil
import shutil
import sys
import warnings

import numpy as np
import onnx
import onnx.backend.test.case.node as node
from onnx import numpy_helper

NUMPY_KINDS = "fiub"


def opset(model):
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests divide by zero on purpose
        for module in pkgutil.iter_modules(node.__path__):
            importlib.import_module(f"{node.__name__}.{module.name}")
    return node._NodeTestCases


def write(case, folder):
    """True if all inputs and outputs are tensors of NumPy's own types."""
    inputs, outputs = case.data_sets[0]
    if any(not isinstance(x, (np.ndarray, np.generic)) or np.asarray(x).dtype.kind not in NUMPY_KINDS
           for x in (*inputs, *outputs)):
        return False
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model, folder / "model.onnx")
    for prefix, values, infos in (("input", inputs, case.model.graph.input),
                                  ("output", outputs, case.model.graph.output)):
        for i, (value, info) in enumerate(zip(values, infos)):
            tensor = numpy_helper.from_array(np.asarray(value), info.name)
            (data / f"{prefix}_{i}.pb").write_bytes(tensor.SerializeToString())
    return True


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root, first = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 23
    shutil.rmtree(root, ignore_errors=True)
    written = left = 0
    for case in cases():
        if case.model is None or opset(case.model) < first:
            continue
        if write(case, root / "node" / case.name):
            written += 1
        else:
            left += 1
    print(f"onnx {onnx.__version__}: {written} node tests from opset {first} on; {left} without files of tensors")
    if written == 0:
        sys.exit("make_node_cases.py: there are none; scripts/setup.sh test installs the package that has them")


if __name__ == "__main__":
    main()
