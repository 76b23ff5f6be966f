"""Pooled and upsampled stores: what fires, what must not, results."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import KINDS, LAST, fresh, regions_alone, run  # noqa: E402, F401
from models import randomise  # noqa: E402

def stage(x, w):
    return F.silu(F.conv2d(x, w, padding=1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(7, 9), *(pytest.param(s, marks=pytest.mark.check) for s in ((8, 6), (2, 2)))])
def test_pools_and_nearest_neighbours(size, last, dtype):
    x, w = torch.randn(2, 4, *size), torch.randn(8, 4, 3, 3)
    if last:
        x, w = x.contiguous(memory_format=LAST), w.contiguous(memory_format=LAST)
    report = run(lambda x, w: (lambda h: (h, F.max_pool2d(h, 2)))(stage(x, w)), x, w, regions=1, dtype=dtype)
    assert "max_pool_2x2" in report.rows[0]["epilogue"], str(report)
    report = run(lambda x, w: F.max_pool2d(stage(x, w), 2), x, w, regions=1, dtype=dtype)
    assert report.rows[0]["epilogue"].count("store") == 2  # stored whole, too
    for up in (lambda h: F.interpolate(h, scale_factor=2), lambda h: F.interpolate(h, size=(2 * size[0], 2 * size[1]))):
        torch._dynamo.reset()
        report = run(lambda x, w: up(stage(x, w)), x, w, regions=1, dtype=dtype)
        assert "upsample_2x2" in report.rows[0]["epilogue"], str(report)


@pytest.mark.check
def test_resampled_stores_beside_inductor():
    x, w = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 4, 8, 6), (8, 4, 3, 3)))
    for function, form in (
        (lambda x, w: F.max_pool2d(stage(x, w), 2), "max_pool_2x2"),
        (lambda x, w: F.interpolate(stage(x, w), scale_factor=2), "upsample_2x2"),
    ):
        torch._dynamo.reset()
        for dtype in (torch.float32, torch.bfloat16):
            assert form in run(function, x, w, regions=1, rest="inductor", dtype=dtype).rows[0]["epilogue"]


@pytest.mark.parametrize("up", [lambda h: F.interpolate(h, scale_factor=2), lambda h: F.max_pool2d(h, 2)])
def test_a_second_cast_keeps_the_first_ones_rounding(up):
    """A store rounds once: to f32 what was rounded to bf16 would be what was not."""
    x, w = torch.randn(2, 4, 8, 6), torch.randn(8, 4, 3, 3)
    run(lambda x, w: up(stage(x, w)).to(torch.bfloat16).float(), x, w, regions=1)


NOT_RESAMPLED = {
    "other windows": lambda h: F.max_pool2d(h, 3, 2, 1),
    "overlapping": lambda h: F.max_pool2d(h, 2, 1),
    "padded": lambda h: F.max_pool2d(h, 2, padding=1),
    "rounded up": lambda h: F.max_pool2d(h, 2, ceil_mode=True),
    "indices": lambda h: F.max_pool2d(h, 2, return_indices=True)[1].float(),
    "threefold": lambda h: F.interpolate(h, scale_factor=3),
    "another size": lambda h: F.interpolate(h, size=(13, 18)),
    "linear": lambda h: F.interpolate(h, scale_factor=2, mode="bilinear"),
    "exact centres": lambda h: F.interpolate(h, size=(13, 11), mode="nearest-exact"),
    "other pixels": lambda h: h[:, :, torch.arange(14) % 7][:, :, :, torch.arange(18) // 2],
}


@pytest.mark.parametrize("name", NOT_RESAMPLED)
def test_must_not_resample(name):
    x, w = torch.randn(2, 4, 7, 9), torch.randn(8, 4, 3, 3)
    report = run(lambda x, w: NOT_RESAMPLED[name](stage(x, w)), x, w, regions=1)
    assert "_2x2" not in report.rows[0]["epilogue"], str(report)


def test_a_second_resampled_store_is_pytorchs():
    x, w = torch.randn(2, 4, 8, 6), torch.randn(8, 4, 3, 3)
    report = run(
        lambda x, w: (lambda h: (F.max_pool2d(h, 2), F.interpolate(h, scale_factor=2), F.max_pool2d(h.relu(), 2)))(
            stage(x, w)
        ),
        x,
        w,
        regions=1,
    )
    assert report.rows[0]["epilogue"].count("_2x2") == 1, str(report)


def test_what_reads_a_resampled_value_is_outside():
    report = run(
        lambda x, w: F.relu(F.max_pool2d(stage(x, w), 2)) + 1,
        torch.randn(2, 4, 8, 6),
        torch.randn(8, 4, 3, 3),
        regions=1,
    )
    assert "ends a region" in report.rows[0]["ends"]
