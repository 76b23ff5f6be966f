"""Whether a row of others' networks is wrong, or the exporter wrote another network than the module (scripts/networks)."""

import pathlib
import sys

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))

from networks.other_network import why_other  # noqa: E402


def written(folder, operator):
    """A file of one operator, and its inputs, of which one is an integer."""
    from onnx import TensorProto, helper
    x, i, y = (helper.make_tensor_value_info(n, t, s) for n, t, s in (
        ("x", TensorProto.FLOAT, [4, 5]), ("i", TensorProto.INT64, [3]), ("y", TensorProto.FLOAT, [3, 5])))
    nodes = [helper.make_node(operator, ["x"], ["z"]), helper.make_node("Gather", ["z", "i"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x, i], [y]), opset_imports=[helper.make_opsetid("", 17)]), folder / "m.onnx")
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32), "i": np.array([2, 0, 3])}
    np.savez(folder / "inputs.npz", **inputs)
    return folder / "m.onnx", folder / "inputs.npz", inputs["x"][inputs["i"]]


def test_another_network_is_told_from_a_wrong_result(tmp_path):
    model, inputs, x = written(tmp_path, "Relu")
    relu = np.maximum(x, 0)
    assert "wrote another network" in why_other(model, inputs, [x.astype(np.float64)], [relu * (1 + 1e-6)], [1e-5])
    assert not why_other(model, inputs, [relu.astype(np.float64)], [x], [1e-5])  # unisono alone is wrong
    assert not why_other(model, inputs, [x.astype(np.float64)], [-x], [1e-5])  # all three differ
    assert not why_other(model, inputs, [x.astype(np.float64)], [None], [1e-5])


def test_where_the_interpreter_has_no_opinion_a_row_stays_wrong(tmp_path):
    model, inputs, x = written(tmp_path, "NoSuchOperator")
    assert why_other(model, inputs, [x.astype(np.float64)], [x], [1e-5]) == ""
