"""unisono.export: PyTorch models as files that the command and the C++ interface run without Python."""

import json
import pathlib
import struct

import limited
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402
from models import Block, UNet, randomise  # noqa: E402

COMMAND = pathlib.Path(u.__file__).parent.parent.parent / "tools" / "unisono" / "unisono"


class Sequence(nn.Module):
    """Attention and an MLP, with slices, a split, an embedding and a mask."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.table, self.norm = heads, nn.Embedding(11, width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, tokens, mask):
        x = self.table(tokens)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        gate, value = self.up(x).split(32, -1)
        x = x + self.down(F.silu(gate) * value)
        return x[:, 1:] * 2 - 0.5, x.mean(1)


class Images(nn.Module):
    """Pools, a transposed and a grouped convolution, resizes, batch and instance normalisation."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.depthwise, self.own = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.InstanceNorm2d(8, affine=True)
        self.wide, self.fc = nn.ConvTranspose2d(8, 4, 2, 2), nn.Linear(8, 5)

    def forward(self, image):
        h = F.relu6(self.norm(self.stem(image)))
        h = F.hardswish(h) + F.leaky_relu(self.own(self.depthwise(h)), 0.2)
        low = F.avg_pool2d(F.max_pool2d(h, 3, 2, 1), 2)
        h = F.gelu(self.wide(h)) + F.interpolate(low, scale_factor=8, mode="bilinear")[:, :4]
        return h.clamp(-1, 4), self.fc(F.adaptive_avg_pool2d(low, 1).flatten(1)).softmax(-1)


def images():
    model = Images()
    model.norm.running_mean.normal_(), model.norm.running_var.uniform_(0.5, 2)
    return model


CASES = {
    "a U-Net": (UNet, {"x": torch.randn(2, 3, 8, 8)}),
    "a block of a diffusion model": (Block, {"x": torch.randn(2, 3, 8, 8), "t": torch.randn(2, 8)}),
    "a transformer": (Sequence, {"tokens": torch.randint(0, 11, (2, 7)), "mask": torch.randn(1, 1, 7, 7)}),
    "images": (images, {"image": torch.randn(2, 3, 32, 32)}),
}


def made(name, path, **more):
    torch.manual_seed(0)
    make, inputs = CASES[name]
    model = randomise(make()).eval()
    with torch.no_grad():
        result = model(*inputs.values())
    u.export(model, tuple(inputs.values()), path, **more)
    return model, inputs, result if isinstance(result, tuple) else (result,)


def ran(path, inputs):
    network = u.compile_network(u.load_onnx(str(path)))
    shapes = network.output_shapes({n: list(t.shape) for n, t in inputs.items()})
    outputs = {n: torch.full(s, float("nan")) for n, s in shapes.items()}
    network.run(inputs, outputs)
    return outputs, network


def agree(mine, right):
    assert mine.shape == right.shape and torch.isfinite(mine).all()
    assert (mine.double() - right.double()).norm() <= 2e-5 * right.double().norm()


@pytest.mark.parametrize("name", CASES)
def test_networks_compute_what_the_model_does(name, tmp_path):
    _, inputs, right = made(name, tmp_path / "model.onnx")
    outputs, _ = ran(tmp_path / "model.onnx", inputs)
    assert list(outputs) == (["output"] if len(right) == 1 else [f"output_{i}" for i in range(len(right))])
    for mine, one in zip(outputs.values(), right):
        agree(mine, one)


def test_regions_are_fused_in_what_was_exported(tmp_path):
    made("a block of a diffusion model", tmp_path / "model.onnx")
    assert ran(tmp_path / "model.onnx", CASES["a block of a diffusion model"][1])[1].kernels == 3


@pytest.mark.skipif(not COMMAND.exists(), reason="the build folder has no command")
def test_the_command_runs_it_without_python(tmp_path):
    _, inputs, right = made("a block of a diffusion model", tmp_path / "model.onnx")
    given = []
    for n, t in inputs.items():
        np.save(tmp_path / f"{n}.npy", t.numpy())
        given += ["--input", f"{n}={tmp_path / n}.npy"]
    done = limited.run([str(COMMAND), "run", str(tmp_path / "model.onnx"), *given, "--out", str(tmp_path / "out.npz")],
                       {"UNISONO_CACHE_DIR": str(tmp_path), "PATH": ""})
    assert done.returncode == 0, done.stderr
    agree(torch.from_numpy(np.load(tmp_path / "out.npz")["output"]), right[0])


def test_weights_lie_in_a_safetensors_file(tmp_path):
    model, _, _ = made("a U-Net", tmp_path / "model.onnx")
    data = (tmp_path / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    assert len(header) == len(list(model.parameters())) and (tmp_path / "model.onnx").stat().st_size < 20_000
    name = next(n for n in header if n.endswith("head_weight"))
    start, end = header[name]["data_offsets"]
    found = torch.frombuffer(bytearray(data[8 + size + start:8 + size + end]), dtype=torch.float32).view(header[name]["shape"])
    assert torch.equal(found, model.head.weight)


@pytest.mark.check
def test_batches_of_any_size(tmp_path):
    n = torch.export.Dim("n", min=2, max=64)
    model, _, _ = made("a block of a diffusion model", tmp_path / "model.onnx", dynamic_shapes={"x": {0: n}, "t": {0: n}})
    for count in (2, 5):
        x, t = torch.randn(count, 3, 8, 8), torch.randn(count, 8)
        with torch.no_grad():
            agree(ran(tmp_path / "model.onnx", {"x": x, "t": t})[0]["output"], model(x, t))


@pytest.mark.check
@pytest.mark.parametrize("shape, how", [
    ((2, 3, 5, 6), {"size": (7, 15), "mode": "nearest-exact"}), ((1, 3, 4, 3), {"size": (8, 6), "mode": "nearest-exact"}),
    ((1, 2, 9, 8), {"size": (4, 3), "mode": "nearest-exact"}), ((1, 2, 3, 5, 4), {"size": (5, 10, 4), "mode": "nearest"}),
    ((2, 3, 5, 6), {"size": (7, 15), "mode": "nearest"}), ((2, 3, 5, 7), {"scale_factor": 1.5, "mode": "nearest"}),
    ((2, 3, 5, 7), {"scale_factor": 1.4, "mode": "bilinear"}), ((2, 3, 5, 7), {"scale_factor": 1.5, "mode": "bilinear"})])
def test_resized_images(shape, how, tmp_path):
    """By whole factors, by others, and by extents, of which the factor is no number of f32."""
    class Resized(nn.Module):
        def forward(self, x):
            return F.interpolate(x, **how) * 2

    x = torch.randn(shape)
    u.export(Resized().eval(), x, tmp_path / "model.onnx")
    agree(ran(tmp_path / "model.onnx", {"x": x})[0]["output"], Resized()(x))


def test_errors(tmp_path):
    with pytest.raises(u.UserError, match="training mode"):
        u.export(Block(), (torch.randn(2, 3, 8, 8), torch.randn(2, 8)), tmp_path / "model.onnx")
    with pytest.raises(u.UserError, match="expected a file.* .onnx"):
        u.export(Block().eval(), (torch.randn(2, 3, 8, 8), torch.randn(2, 8)), tmp_path / "model.pt")

    block = Block().eval(), (torch.randn(2, 3, 8, 8), torch.randn(2, 8))
    with pytest.raises(u.UserError, match="precision='f16' only applies with pack=True"):
        u.export(*block, tmp_path / "model.onnx", precision="f16")
    with pytest.raises(u.UserError, match="precision='f32'; expected 'bf16' or 'f16'"):
        u.export(*block, tmp_path / "model.onnx", pack=True, precision="f32")

    class Sorted(nn.Module):
        def forward(self, x):
            return torch.erfinv(torch.sort(x)[0])

    with pytest.raises(u.Unsupported, match="no translation of aten.erfinv.default, aten.sort.default"):
        u.export(Sorted().eval(), torch.randn(4), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
