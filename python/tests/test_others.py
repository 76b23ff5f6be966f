"""Networks that others wrote: results against float64, how many contractions are in regions, and what stays alone after one."""

import copy
import re

import pytest

torch = pytest.importorskip("torch")
for package in ("torchvision", "timm", "transformers", "diffusers", "segmentation_models_pytorch", "dynamic_network_architectures"):
    pytest.importorskip(package)
import others  # noqa: E402

from unisono.pytorch import backend  # noqa: E402

pytestmark = pytest.mark.check

# {network: (contractions, calls)}; pairs of products are one call
EXPECTED = {
    "deeplabv3_resnet50": (61, 61), "fcn_resnet50": (55, 55), "lraspp_mobilenet_v3_large": (66, 66), "retinanet_head": (30, 30),
    "fcos_head": (21, 21), "resnet50_gn": (54, 54), "convnext_atto": (41, 41), "bert_mlp": (2, 2), "llama_mlp": (3, 2), "phi3_mlp": (2, 2),
    "gpt_oss_mlp": (4, 4), "resnet_block": (4, 4), "feed_forward_geglu": (2, 2), "feed_forward_swiglu": (2, 2), "unet_2d": (51, 51),
    "unet_2d_condition": (282, 282), "autoencoder_kl_encoder": (17, 17), "autoencoder_kl_decoder": (21, 21), "nnunet_2d": (18, 18),
    "nnunet_2d_residual": (26, 26), "unet_resnet18": (31, 31),
}
# Operations that read nothing but a contraction's result and stand alone, and why. Copies into another order of memory, which the
# program asks for or eager mode would make, are counted as conversions.
ALONE = {
    # norms over images of a linear layer's rows, which are one matrix to it
    "unet_2d": [
        ("group_norm", "than the convolution's channels"),
        ("var_mean", "the rows or columns"),
    ],
    "autoencoder_kl_encoder": [("group_norm", "than the convolution's channels")],
    "autoencoder_kl_decoder": [("group_norm", "than the convolution's channels")],
    "convnext_atto": [
        ("layer_norm", "is computed outside")
    ],  # behind a global average pool that adds 1×1 views
}
RESAMPLED = [("_unsafe_index", "resamples")]  # bilinearly, or tokens
# With a batch of 1, PyTorch's tracing takes an image for channels last that its eager mode leaves contiguous
TRACED_OTHERWISE = ("autoencoder_kl_encoder", "autoencoder_kl_decoder")
LONG = ("unet_2d_condition", "deeplabv3_resnet50", "fcn_resnet50", "nnunet_2d_residual")


def channels_last(module, inputs):
    return (module.to(memory_format=torch.channels_last),
            tuple(t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for t in inputs))


def compare(name, dtype=torch.float32, last=False, rest="eager"):
    """Compiles and runs; relative L2 against float64 is at most 1.5 times eager mode's. Returns the report."""
    torch._dynamo.reset()
    module, inputs = others.made(name)
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        right = exact(*(t.double() if t.is_floating_point() else t for t in inputs))
        module, inputs = module.to(dtype), tuple(t.to(dtype) if t.is_floating_point() else t for t in inputs)
        module, inputs = channels_last(module, inputs) if last else (module, inputs)
        theirs = module(*inputs)
        mine = torch.compile(module, backend=backend.unisono, options={"rest": rest, "minimum_operators": 0}, fullgraph=True)(*inputs)
    report = backend.reports()[-1]
    assert len(mine) == len(theirs) == len(right)
    for i, (one, other, best) in enumerate(zip(mine, theirs, right)):
        assert one.shape == other.shape and one.dtype == other.dtype and torch.isfinite(one).all(), f"output {i}"
        assert one.stride() == other.stride() or name in TRACED_OTHERWISE, f"output {i}: {one.stride()}"
        ours, eager = (((t.double() - best).norm() / best.norm()).item() for t in (one, other))
        assert ours <= 1.5 * eager + 2.0**-24, f"{name}, output {i}: {ours} beside {eager} of eager mode"
    return report


def check(name, report):
    contractions, calls = EXPECTED[name]
    assert (len(report.rows), report.regions) == (contractions, calls), str(report)
    assert report.share_of_flop >= 0.95 and all(row["flop"] > 0 for row in report.rows), str(report)
    found = (one.partition(": ") for one in report.counts["standalone after a contraction"])
    alone = {node: why for node, _, why in found if "clone" not in node}
    assert all(
        any(re.search(op, node) and re.search(reason, why) for op, reason in (*RESAMPLED, *ALONE.get(name, ())))
        for node, why in alone.items()
    ), str(report)


def marked(names):
    return [pytest.param(n, marks=pytest.mark.long) if n in LONG else n for n in names]


@pytest.mark.parametrize("name", marked(EXPECTED))
def test_networks_of_others(name):
    check(name, compare(name))


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in EXPECTED if n not in ("llama_mlp", "bert_mlp", "phi3_mlp", "gpt_oss_mlp")])
def test_channels_last(name):
    check(name, compare(name, last=True))


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet_block", "llama_mlp", "phi3_mlp", "gpt_oss_mlp", "feed_forward_geglu", "unet_2d", "nnunet_2d",
                                  "autoencoder_kl_decoder", "unet_resnet18"])
def test_beside_inductor(name):
    check(name, compare(name, last=True, rest="inductor"))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert_mlp", "llama_mlp", "phi3_mlp", "gpt_oss_mlp", "feed_forward_geglu", "resnet_block", "nnunet_2d",
                                  "autoencoder_kl_decoder", "retinanet_head", "convnext_atto"])
def test_short_dtypes(name, dtype):
    check(name, compare(name, dtype))


def test_nothing_of_the_networks_is_silent():
    """Every parameter matters: with another seed the result is another one, layer by layer."""
    module, inputs = others.made("resnet_block")
    with torch.no_grad():
        before = module(*inputs)[0]
        for p in module.parameters():
            kept = p.clone()
            p.mul_(1.5)
            assert not torch.allclose(module(*inputs)[0], before, rtol=1e-3)
            p.copy_(kept)
