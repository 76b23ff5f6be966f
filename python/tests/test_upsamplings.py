"""Convolutions of single pixels behind an upsampling: they are computed ahead of it, where that is the same."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from compiled import KINDS, LAST, fresh, regions_alone, run  # noqa: E402, F401
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from unisono.pytorch.fuse import Limits, fuse  # noqa: E402

pytestmark = pytest.mark.check

JOINED = "concatenations without copies"


def tensors(*shapes):
    return [torch.randn(s).contiguous(memory_format=LAST) for s in shapes]


def narrow(x, w, v, b):
    return F.conv2d(F.interpolate(F.silu(F.conv2d(x, w, padding=1)), scale_factor=2), v, b)


SHAPES = ((2, 8, 8, 6), (16, 8, 3, 3), (8, 16, 1, 1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_the_small_image_is_convolved(rest, dtype):
    """The first kernel stores its image as it is, the second at twice the size, into the concatenation."""
    def level(x, w, v, b, u, skip):
        return F.conv2d(torch.cat([F.relu(F.conv2d(skip, u)), narrow(x, w, v, b)], 1), u.repeat(1, 2, 1, 1))

    u, skip = tensors((8, 8, 1, 1), (2, 8, 16, 12))
    report = run(level, *tensors(*SHAPES), torch.randn(8), u, skip, regions=4, dtype=dtype, rest=rest)
    first, second = (next(r for r in report.rows if r["shape"] == [2, k, 8, 6]) for k in (16, 8))
    assert "_2x2" not in first["epilogue"] and "store upsample_2x2" in second["epilogue"], str(report)
    assert report.counts[JOINED] == ["cat: 2 of 2 parts"], str(report)


def other(function):
    return lambda x, w, v, b: function(F.interpolate(F.silu(F.conv2d(x, w, padding=1)), scale_factor=2), v, b)


KEPT = {
    "its result is activated": other(lambda h, v, b: F.relu(F.conv2d(h, v, b))),
    "the upsampled image is read": other(lambda h, v, b: (F.conv2d(h, v, b), h)),
    "padding": other(lambda h, v, b: F.conv2d(h, v, b, padding=1)),
    "a stride": other(lambda h, v, b: F.conv2d(h, v, b, stride=2)),
    "threefold": lambda x, w, v, b: F.conv2d(F.interpolate(F.conv2d(x, w, padding=1), scale_factor=3), v, b),
    "linear": lambda x, w, v, b: F.conv2d(
        F.interpolate(F.conv2d(x, w, padding=1), scale_factor=2, mode="bilinear"), v, b
    ),
    "several pixels": lambda x, w, v, b: F.conv2d(F.interpolate(F.conv2d(x, w, padding=1), scale_factor=2), w[:, :1].repeat(1, 16, 1, 1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_behind_the_upsampling(name):
    report = run(KEPT[name], *tensors(*SHAPES), torch.randn(8), regions=2)
    assert "_2x2" not in report.rows[1]["epilogue"], str(report)


@pytest.mark.parametrize("kind", ["resampling", "convolutions"])
def test_it_is_switched_off(kind):
    regions = 0 if kind == "convolutions" else 2
    report = run(narrow, *tensors(*SHAPES), torch.randn(8), regions=regions, without=(kind,))
    assert report.rows[1]["shape"] == [2, 8, 16, 12], str(report)


def test_contiguous_images():
    x, w, v = (t.contiguous() for t in tensors(*SHAPES))
    report = run(narrow, x, w, v, torch.randn(8), regions=2)
    assert "store upsample_2x2" in report.rows[1]["epilogue"], str(report)


def zeros_like(x, shape):
    return torch.zeros(shape, dtype=x.dtype)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_concatenations_along_any_axis(dim):
    """aten.cat has no second argument for the first axis."""
    def level(x, w, v, b):
        return torch.cat([narrow(x, w, v, b), zeros_like(x, (2, 8, 16, 12))], dim)

    report = run(level, *tensors(*SHAPES), torch.randn(8), regions=2)
    assert "store upsample_2x2" in report.rows[1]["epilogue"], str(report)


def test_a_write_between_stays_between():
    """What is upsampled is not read later than a write into it."""
    def written(x, other, v):
        large = torch.ops.aten.upsample_nearest2d.vec(x, None, [2.0, 2.0])
        torch.ops.aten.copy_(x, other)
        return torch.ops.aten.convolution(large, v, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)

    x, other, v = tensors((2, 8, 4, 4), (2, 8, 4, 4), (8, 8, 1, 1))
    right = written(x.clone(), other, v)
    module = make_fx(written, tracing_mode="fake")(x, other, v)
    fuse(module, Limits(minimum_operators=0))
    torch.testing.assert_close(module(x.clone(), other, v), right)
