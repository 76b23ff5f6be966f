"""Contractions of float32 on a GPU: taken where PyTorch's settings let it compute them as tf32, and nowhere else."""

import pytest

torch = pytest.importorskip("torch")
import planned  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from unisono.pytorch import backend, precision  # noqa: E402
from unisono.pytorch.fuse import Limits, fuse  # noqa: E402

cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def settings():
    """PyTorch's defaults, there and afterwards."""
    torch._dynamo.reset()
    yield
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.enabled = False, True, True


def test_settings_of_pytorch():
    assert precision.kinds_of_tf32() == ("convolutions",)
    matmul.allow_tf32 = True
    assert precision.kinds_of_tf32() == ("convolutions", "products")
    cudnn.allow_tf32 = False
    assert precision.kinds_of_tf32() == ("products",)
    cudnn.enabled = False  # a convolution is a product then
    assert precision.kinds_of_tf32() == ("convolutions", "products")
    torch.set_float32_matmul_precision("highest")
    assert precision.kinds_of_tf32() == ()
    matmul.fp32_precision = "tf32"
    assert precision.kinds_of_tf32() == ("convolutions", "products")


def test_settings_of_an_older_pytorch(monkeypatch):
    monkeypatch.delattr(torch._C, "_get_fp32_precision_getter")
    assert precision.kinds_of_tf32() == ("convolutions",)
    cudnn.allow_tf32, matmul.allow_tf32 = False, True
    assert precision.kinds_of_tf32() == ("products",)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(512, 1024, bias=False), nn.Linear(512, 1024, bias=False)

    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


CASES = {
    "convolutions": [lambda: (nn.Sequential(nn.Conv2d(64, 64, 3), nn.SiLU()), [torch.randn(2, 64, 32, 32)]),
                     lambda: (nn.Sequential(nn.ConvTranspose2d(64, 64, 2, 2), nn.SiLU()), [torch.randn(2, 64, 32, 32)])],
    "products": [lambda: (nn.Sequential(nn.Linear(512, 512), nn.GELU()), [torch.randn(1024, 512)]),
                 lambda: (Gated(), [torch.randn(1024, 512)])],
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="fake tensors are planned for an H200, where there is no GPU")
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("allowed", [(), ("convolutions",), ("products",)])
def test_kernels_of_tf32(kind, dtype, allowed):
    for make in CASES[kind]:
        rows = fuse(planned.graph_of(make, dtype), Limits(minimum_operators=0, minimum_gain=-1.0, tf32=allowed))
        expected = dtype != torch.float32 or kind in allowed
        assert [row["taken"] for row in rows] == [expected] * len(rows), rows
        assert expected or all(precision.SETTINGS[kind] in row["ends"] for row in rows), rows


@pytest.mark.check
@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_changed_setting_is_another_graph(rest):
    """Dynamo itself guards the setting of products alone."""
    asked = []
    call = torch.compile(lambda x, w: F.relu(F.conv2d(x, w)), backend=backend.unisono, options={"rest": rest, "report": asked.append})
    x, w = torch.randn(2, 4, 5, 5), torch.randn(4, 4, 3, 3)
    for allow, compiled in ((True, 1), (True, 1), (False, 2), (True, 2), (False, 2)):
        cudnn.allow_tf32 = allow
        call(x, w)
        assert len(asked) == compiled
    matmul.allow_tf32 = True
    call(x, w)
    assert len(asked) == 3


def test_the_backward_graph_has_the_settings_of_the_forward_graph(monkeypatch):
    """It is compiled later, and nothing guards it by itself."""
    found = []
    monkeypatch.setattr(backend, "fuse", lambda graph, limits, kernels: found.append(limits.tf32) or [])
    call = torch.compile(lambda x, w: F.relu(x @ w), backend=backend.unisono, options={"rest": "eager"})
    made = call(torch.randn(4, 8), torch.randn(8, 8, requires_grad=True))
    cudnn.allow_tf32 = False
    made.sum().backward()
    assert found == [("convolutions",), ("convolutions",)]


def test_caches_of_graphs_tell_settings_apart():
    options = {**backend.OPTIONS, "tf32": ("convolutions",)}
    assert backend._tag(options) != backend._tag({**options, "tf32": ()})
