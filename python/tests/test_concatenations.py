"""Concatenations that kernels write in place: what fires, what must not, results."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import LAST, fresh, last, regions_alone, run  # noqa: E402, F401
from models import Strided, randomise  # noqa: E402

from unisono.pytorch import backend  # noqa: E402

pytestmark = pytest.mark.check

class Skip(nn.Module):
    """A level of a U-Net: the skip and what comes from below are joined."""

    def __init__(self, width=8, reads=False):
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.narrow, self.up = nn.Conv2d(2 * width, width, 1), nn.Conv2d(2 * width, 5, 3, padding=1)
        self.norm, self.reads = nn.GroupNorm(2, width), reads

    def forward(self, x):
        skip = F.mish(self.norm(self.down(x)))
        h = F.silu(self.deep(F.max_pool2d(skip, 2)))
        h = self.narrow(F.interpolate(h, scale_factor=2))
        joined = F.relu(self.up(torch.cat([skip, h], 1)))
        return (joined, skip) if self.reads else joined


PLACED = "concatenations without copies"


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_skip_is_written_into_its_concatenation(rest):
    report = run(*last(randomise(Skip()), torch.randn(2, 3, 8, 6)), regions=4, rest=rest)
    assert report.counts[PLACED] == ["cat: 2 of 2 parts"] and "max_pool_2x2" in report.rows[0]["epilogue"], str(report)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_dtypes_of_concatenations(dtype):
    assert run(*last(randomise(Skip()), torch.randn(2, 3, 8, 6)), regions=4, dtype=dtype).counts[PLACED]


def test_a_part_that_the_program_sees_stays_dense():
    module, x = last(randomise(Skip(reads=True)), torch.randn(2, 3, 8, 6))
    assert run(module, x, regions=4).counts[PLACED] == ["cat: 1 of 2 parts"]


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_a_part_that_a_convolution_reads_lies_in_its_slice(rest):
    report = run(*last(randomise(Strided()), torch.randn(2, 3, 8, 6)), regions=4, rest=rest)
    assert report.counts[PLACED] == ["cat: 2 of 2 parts"], str(report)


def test_a_part_that_a_kernel_reads_as_an_operand_stays_dense():
    report = run(*last(randomise(Strided(residual=True)), torch.randn(2, 3, 8, 6)), regions=4)
    assert report.counts[PLACED] == ["cat: 1 of 2 parts"], str(report)


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_dense_blocks_are_written_beside_what_they_read(rest):
    """Each layer reads the parts ahead of it: those that are one convolution's image lie in the widest concatenation."""
    def block(x, w, v, u):
        a = F.relu(F.conv2d(x, w, padding=1))
        b = F.relu(F.conv2d(a, v, padding=1))
        return F.relu(F.conv2d(torch.cat([a, b], 1), u, padding=1))

    tensors = [torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 8, 6, 5), (8, 8, 3, 3), (8, 8, 3, 3), (8, 16, 3, 3))]
    assert run(block, *tensors, regions=3, rest=rest).counts[PLACED] == ["cat: 2 of 2 parts"]


@torch.library.custom_op("unisono_tests::flattened", mutates_args=())
def flattened(x: torch.Tensor) -> torch.Tensor:
    """Of those operators that read memory as it lies, and ask for dense tensors."""
    return torch.as_strided(x, (x.numel(),), (1,)).clone()


@flattened.register_fake
def _(x):
    return x.new_empty(x.numel())


@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_a_part_that_an_operator_of_others_reads_stays_dense(rest):
    def block(x, w):
        a, b = F.relu(F.conv2d(x, w)), F.silu(F.conv2d(x, w * 2))
        return 2 * torch.cat([a, b], 1), torch.ops.unisono_tests.flattened(a)

    x, w = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 8, 6, 5), (8, 8, 3, 3)))
    assert not run(block, x, w, regions=2, rest=rest).counts[PLACED]


@pytest.mark.parametrize("dtype, channels, first, order", [
    (torch.bfloat16, 16, 8, LAST), (torch.float32, 12, 4, LAST), (torch.bfloat16, 12, 8, LAST), (torch.float16, 16, 4, LAST),
    (torch.bfloat16, 16, 8, torch.contiguous_format)])
def test_copies_into_a_concatenation(dtype, channels, first, order):
    """By words of 16 bytes where they lie so, and element by element elsewhere."""
    x, whole = (torch.randn(2, c, 5, 3).to(dtype).contiguous(memory_format=order) for c in (channels, 32))
    x[0, 0, 0, 0] = torch.nan
    right = whole.clone()
    right[:, first:first + channels] = x
    torch.ops.unisono.copy_into(x, whole, first)
    assert torch.equal(whole.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))


NOT_PLACED = {
    "contiguous memory": lambda: (Skip(), torch.randn(2, 3, 8, 6)),
    "12 channels": lambda: last(Skip(12), torch.randn(2, 3, 8, 6)),
}


@pytest.mark.parametrize("name", NOT_PLACED)
def test_must_not_be_placed(name):
    module, x = NOT_PLACED[name]()
    assert not run(randomise(module), x, regions=4).counts[PLACED]


def test_parts_of_two_concatenations_and_twice_the_same():
    x, w = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 8, 6, 5), (8, 8, 1, 1)))
    for join in (lambda a, b: (torch.cat([a, a], 1), b), lambda a, b: (torch.cat([a, b], 1), torch.cat([b, a], 1)),
                 lambda a, b: torch.cat([a, b], 2)):
        torch._dynamo.reset()
        run(lambda x, w: join(F.relu(F.conv2d(x, w)), F.silu(F.conv2d(x, w))), x, w, regions=2)


def test_concatenations_are_switched_off():
    module, x = last(randomise(Skip()), torch.randn(2, 3, 8, 6))
    assert PLACED not in run(module, x, regions=4, without=("concatenations",)).counts


def test_training_with_concatenations():
    from models import UNet, compare_gradients
    module, x = last(randomise(UNet()), torch.randn(2, 3, 16, 12))
    compare_gradients(module, torch.compile(module, backend=backend.unisono, options={"rest": "eager"}), x)


def test_a_norm_behind_a_concatenation_is_pytorchs_and_the_report_says_why():
    """Its groups may lie in both parts, and its statistics are there when the last of the parts is."""
    def block(x, w, v):
        return F.conv2d(F.silu(F.group_norm(torch.cat([F.relu(F.conv2d(x, w)), F.silu(F.conv2d(x, w * 2))], 1), 3)), v)

    x, w, v = (torch.randn(s).contiguous(memory_format=LAST) for s in ((2, 8, 6, 5), (24, 8, 1, 1), (8, 48, 3, 3)))
    report = run(block, x, w, v, regions=3)
    assert all("joins tensors of extents 24, 24" in row["ends"] and "normalisation" in row["ends"]
               for row in report.rows[:2])
