"""The Python of README.md and docs/start-pytorch.md runs, and what it asserts is true."""

import pathlib
import re

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo import list_backends, register_backend  # noqa: E402

from unisono.pytorch import backend  # noqa: E402

if "unisono" not in list_backends():  # an installed package registers it
    register_backend(backend.unisono, "unisono")

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENTRANCE = (ROOT / "docs" / "start-pytorch.md").read_text()


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)


def test_there_is_code():
    assert len(blocks(ENTRANCE)) >= 2


@pytest.mark.parametrize("block", blocks(ENTRANCE), ids=[str(i) for i in range(len(blocks(ENTRANCE)))])
def test_the_code_runs(block):
    exec(compile(block, "start-pytorch.md", "exec"), {})


def test_the_export_of_the_text_runs(tmp_path, monkeypatch):
    (line,) = re.findall(r"`(unisono\.export\([^`]*\))`", ENTRANCE)
    names = {}
    exec(compile(blocks(ENTRANCE)[0] + "\nimport unisono\n", "start-pytorch.md", "exec"), names)
    monkeypatch.chdir(tmp_path)
    exec(compile(line, "start-pytorch.md", "exec"), names)
    assert (tmp_path / "model.safetensors").stat().st_size > 32 * 16 * 9 * 4
    network = names["unisono"].compile_network(names["unisono"].load_onnx("model.onnx"))
    ((output, shape),) = network.output_shapes({"input": [2, 16, 24, 24]}).items()
    outputs = {output: torch.zeros(shape)}
    network.run({"input": names["x"]}, outputs)
    torch.testing.assert_close(outputs[output], names["model"](names["x"]).detach(), atol=1e-4, rtol=1e-4)


def test_the_code_of_the_readme_runs():
    (block,) = blocks((ROOT / "README.md").read_text())
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()).eval()
    names = {"model": model, "images": torch.randn(2, 3, 20, 20)}
    torch.manual_seed(0)
    exec(compile(block, "README.md", "exec"), names)
    convolved = torch.nn.functional.conv2d(names["x"], names["w"], names["bias"], padding=1)
    expected = torch.nn.functional.silu(torch.nn.functional.group_norm(convolved, 8))
    torch.testing.assert_close(names["y"], expected, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(names["result"], model(names["images"]), atol=1e-4, rtol=1e-4)
