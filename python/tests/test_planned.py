"""Regions on a GPU, by the cost model for an H200: the benchmark's networks at their own sizes. Nothing is compiled or run."""

import re

import pytest

torch = pytest.importorskip("torch")
import planned  # noqa: E402
import torch.nn as nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from unisono.pytorch.fuse import Limits, fuse  # noqa: E402

if torch.cuda.is_available():
    pytest.skip("plans of fake tensors are made for an H200, where there is no GPU", allow_module_level=True)

# Norms that are faster in passes of their own: PyTorch's, or, where the kernel has the statistics, what normalises by them
SLOWER = dict.fromkeys(("var_mean", "add", "sub", "mean"), "a predicted gain")
# {network: (calls, copies between orders of memory, concatenations that are written into, operators that are alone and why)}
NETWORKS = {
    "heatmap_unet": (23, 0, 4, {}),
    "bert_mlp": (8, 0, 0, {}),
    "llama_mlp": (4, 0, 0, {}),
    "resnet50_gn": (54, 0, 0, SLOWER),
    "vae_decoder": (40, 0, 0, SLOWER),
    "nnunet_2d": (33, 1, 6, SLOWER),  # the first convolution, of one channel, is alone
    "convnext_tiny": (59, 0, 0, {**SLOWER, "mean": "part of the rows"}),
    "ddpm_256": (
        154,
        0,
        4,
        {**SLOWER, "var_mean": "a predicted gain|part of the rows", "_unsafe_index": "resamples something else"},
    ),
    "sd15_unet_2": (282, 0, 3, SLOWER),
}
MARKS = {
    **dict.fromkeys(("ddpm_256", "sd15_unet_2", "convnext_tiny"), [pytest.mark.long]),
    **dict.fromkeys(("resnet50_gn", "vae_decoder", "nnunet_2d"), [pytest.mark.check]),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, [])) for n in NETWORKS])
def test_networks_of_the_benchmark(name):
    calls, copies, joined, alone = NETWORKS[name]
    report, graph = planned.planned(planned.benchmark(name))
    assert report.share_of_flop >= 0.95, str(report)
    assert (report.regions, report.counts["conversions"], len(report.counts["concatenations without copies"])) == (calls, copies, joined), str(report)
    if name == "nnunet_2d":  # whose skips the next convolutions read as well, from the concatenation
        assert all("2 of 2" in one for one in report.counts["concatenations without copies"]), str(report)
    for entry in report.counts["standalone after a contraction"]:
        operation, _, why = entry.partition(": ")
        if "clone" in operation:
            continue  # counted as conversions
        kind = next((k for k in alone if operation.startswith(k)), None)
        assert kind and re.search(alone[kind], why), f"{entry}\n{report}"
    for row in report.rows:
        assert not row["taken"] or "part_of" in row or row["predicted_us_of_pytorch"] >= row["predicted_us"], str(report)
    graph.graph.lint()


def test_the_baseline_network_is_planned_as_the_executor_plans_it():
    """Measured plans ship for each of its kernels but the first, whose channels the executor lays out anew, and the
    head, whose channels it pads. Convolutions of single pixels are computed ahead of upsamplings, and store these."""
    report, _ = planned.planned(planned.benchmark("heatmap_unet"))
    first, *between, head = report.rows
    assert all(row["plan_from"].startswith("shipped with the library") for row in between), str(report)
    assert all(row["plan_from"] == "the cost model" for row in (first, head)), str(report)
    upsampled = [row["shape"] for row in between if "upsample_2x2" in row["epilogue"]]
    assert upsampled == [[8, 512, 16, 16], [8, 256, 32, 32], [8, 128, 64, 64], [8, 64, 128, 128]], str(report)
    assert all("upsampled only" in row["plan"] for row in between if row["shape"] in upsampled and "upsample" in row["epilogue"])


@pytest.mark.check
def test_a_gain_that_is_asked_for():
    """Regions that gain less stay PyTorch's, and the report says by how much."""
    make = planned.benchmark("heatmap_unet")
    some, all_of_it = (planned.planned(make, minimum_gain=gain)[0] for gain in (0.15, 0.0))
    assert 0 < some.regions < all_of_it.regions
    assert all("predicted gain" in row["ends"] for row in some.left), str(some)
    for row in some.rows:
        assert not row["taken"] or row["predicted_us_of_pytorch"] >= 1.149 * row["predicted_us"], str(some)


def stem(*behind):
    return lambda: (nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), *behind), [torch.randn(12, 1, 512, 512)])


class Floor(nn.Module):
    def forward(self, x):
        return x.floor()


def test_no_region_ends_at_statistics():
    """An image that one launch would store and read again is left to PyTorch whole: statistics alone by our kernel are slow."""
    report, _ = planned.planned(stem(nn.InstanceNorm2d(32), nn.LeakyReLU(), nn.Conv2d(32, 32, 3)))
    row = report.rows[0]
    assert row["stores"] == 1 and "variance(" not in row["epilogue"], str(report)
    (entry,) = [e for e in report.counts["standalone after a contraction"] if "var_mean" in e]
    assert "a predicted gain of -" in entry, str(report)


def test_a_pass_that_pytorch_makes_all_the_same_is_no_gain():
    """Of a bias: where Inductor's pass behind the convolution adds it, nothing is saved; ahead of another convolution a pass is."""
    merged, saved = (planned.planned(stem(behind))[0].rows[0] for behind in (Floor(), nn.Conv2d(32, 32, 3)))
    assert merged["taken"] and merged["predicted_us_of_pytorch"] == merged["predicted_us"], merged
    assert saved["taken"] and saved["predicted_us_of_pytorch"] > 1.3 * saved["predicted_us"], saved


def pair(gate_of):
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.both = torch.nn.Linear(512, 2 * 1024)

        def forward(self, x):
            a, b = gate_of(self.both(x))
            return torch.nn.functional.silu(a) * b

    return lambda: (Gate(), [torch.randn(4096, 512)])


@pytest.mark.parametrize("cut", [lambda h: h.chunk(2, -1), lambda h: (h[:, ::2], h[:, 1::2])], ids=["halves", "alternating"])
def test_pairs_are_one_launch(cut):
    report, _ = planned.planned(pair(cut))
    assert report.regions == 1 and "acc1" in report.rows[0]["epilogue"], str(report)


def test_alternating_columns_of_an_operand_k_n_are_left():
    """As gpt-oss has its experts: such columns are no operand of a dual product on a GPU."""
    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(512, 2048))

        def forward(self, x):
            h = x @ self.w
            return torch.nn.functional.silu(h[:, ::2]) * h[:, 1::2]

    report, _ = planned.planned(lambda: (Experts(), [torch.randn(4096, 512)]))
    assert "acc1" not in str(report.rows)


class Tokens(torch.nn.Module):
    """A linear layer on the pixels of an image, as attention has it: PyTorch sees a batch of products that share the weight."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 32)

    def forward(self, x):
        pixels = x.flatten(2).transpose(1, 2)
        weight = self.layer.weight.T.expand(pixels.shape[0], -1, -1)
        return torch.nn.functional.silu(torch.bmm(pixels, weight) + self.layer.bias)


def test_a_shared_matrix_on_a_gpu():
    """Pixels of an image in channels last are rows of one matrix. Those of channels that lie apart are not, and are PyTorch's, as no
    kernel takes an expanded matrix."""
    report, _ = planned.planned(lambda: (Tokens(), [torch.randn(4, 64, 16, 16)]), minimum_gain=-1.0)
    assert report.regions == 1 and report.rows[0]["operator"] == "aten.mm.default", str(report)
    report, _ = planned.planned(lambda: (Tokens(), [torch.randn(4, 64, 256)]), minimum_gain=-1.0)
    assert report.regions == 0 and "all products share" in report.rows[0]["ends"], str(report)


@pytest.mark.parametrize("name, left, right, why", [
    ("rows apart", lambda t: t.new_empty(64, 72)[:, :64], lambda t: t.new_empty(64, 32), ""),
    ("rows that are not aligned", lambda t: t.new_empty(64, 67)[:, :64], lambda t: t.new_empty(64, 32), "strides"),
    ("a right matrix with rows apart", lambda t: t.new_empty(64, 64), lambda t: t.new_empty(64, 40)[:, :32], "strides"),
    ("a transpose", lambda t: t.new_empty(64, 64).T, lambda t: t.new_empty(32, 64).T, ""),
    ("matrices apart", lambda t: t.new_empty(3, 72, 64)[:, :64], lambda t: t.new_empty(3, 64, 32), ""),
    ("matrices that are not aligned", lambda t: t.new_empty(3, 64 * 64 + 4).as_strided((3, 64, 64), (64 * 64 + 4, 64, 1)),
     lambda t: t.new_empty(3, 64, 32), "apart"),
])
def test_matrices_that_kernels_do_not_take(name, left, right, why):
    """What they refuse when they run is refused when the graph is compiled."""
    with FakeTensorMode() as mode:
        factors = [make(torch.empty(0, device="cuda", dtype=torch.bfloat16)) for make in (left, right)]
        graph = make_fx(lambda a, b: (torch.relu(a @ b if a.dim() == 2 else torch.bmm(a, b)),))(*factors)
    assert mode is not None
    row, = fuse(graph, Limits(minimum_gain=-1.0))
    assert row["taken"] == (not why) and why in row["ends"], row


@pytest.mark.parametrize("channels", [12, 20])
def test_channels_that_are_not_aligned(channels):
    """Regions of odd widths have kernels; slices of a concatenation must begin at 16 bytes."""
    class Joined(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Conv2d(16, channels, 3, padding=1) for _ in range(2))

        def forward(self, x):
            return torch.cat([self.a(x).relu(), self.b(x).relu()], 1) * 2

    report, _ = planned.planned(lambda: (Joined(), [torch.randn(8, 16, 64, 64)]), minimum_gain=-1.0)
    assert report.regions == 2 and not report.counts["concatenations without copies"], str(report)


def test_f32_parts_are_copied():
    class Joined(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))

        def forward(self, x):
            return torch.cat([self.a(x).relu().float(), self.b(x).relu().float()], 1) * 2

    report, _ = planned.planned(lambda: (Joined(), [torch.randn(8, 16, 64, 64)]), minimum_gain=-1.0)
    assert report.regions == 2 and not report.counts["concatenations without copies"], str(report)


def test_a_stem_of_one_channel_has_the_kernel_for_few_channels():
    """nnU-Net's: planned channels last, where it is predicted to take a quarter of the time that it takes
    channels first."""

    def stem(channels):
        return lambda: (
            nn.Sequential(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)),
            [torch.randn(12, channels, 512, 512)],
        )

    times = []
    for channels in (1, 2):
        report, graph = planned.planned(stem(channels))
        call = next(n for n in graph.graph.nodes if n.target is torch.ops.unisono.fused_conv2d.default)
        assert "|last=1" in call.args[5] and report.counts["conversions"] == 0, str(
            report
        )
        times.append(report.rows[0]["predicted_us"])
    assert times[0] <= 1.05 * times[1], times
