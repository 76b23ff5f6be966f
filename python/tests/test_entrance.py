"""The code of docs/start-pytorch.md runs, and what it asserts is true."""

import pathlib
import re

import pytest

torch = pytest.importorskip("torch")

from torch._dynamo import list_backends, register_backend  # noqa: E402

from unisono.pytorch import backend  # noqa: E402

if "unisono" not in list_backends():  # an installed package registers it
    register_backend(backend.unisono, "unisono")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "start-pytorch.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_there_is_code():
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("block", BLOCKS, ids=[str(i) for i in range(len(BLOCKS))])
def test_the_code_runs(block):
    exec(compile(block, str(PAGE), "exec"), {})
