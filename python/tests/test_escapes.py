"""What leaves regions and what comes to them late, what shares memory, and the orders in which results lie."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from compiled import fresh, regions_alone, run_as_given as run  # noqa: E402, F401

from unisono.pytorch import backend  # noqa: E402


def test_results_that_are_turned():
    run(lambda x, w: F.conv2d(x, w).transpose(2, 3).relu(), torch.randn(2, 4, 6, 5), torch.randn(8, 4, 1, 1), regions=1)


def test_values_that_escape_are_stored():
    def both(x, w):
        h = F.conv2d(x, w)
        y = F.silu(h + 1)
        return h, y, torch.cumsum(h, 1)

    report = run(both, torch.randn(2, 4, 6, 6), torch.randn(8, 4, 1, 1), regions=1)
    assert report.rows[0]["stores"] == 2


def test_a_branch_that_comes_back_is_not_taken():
    """relu(h) + cumsum(h): the sum reads what is computed outside from the region."""
    report = run(lambda x, w: (lambda h: F.relu(h) + torch.cumsum(h, 1))(F.conv2d(x, w)), torch.randn(1, 4, 5, 5),
                 torch.randn(8, 4, 1, 1), regions=1)
    assert len(report.rows[0]["fused"]) == 1


def test_an_operand_that_comes_late():
    def late(x, w):
        h = F.conv2d(x, w)
        a = torch.cumsum(h, 2)
        return F.relu(h) * torch.cumsum(x, 1).mean(), a

    run(late, torch.randn(1, 4, 5, 5), torch.randn(4, 4, 1, 1), regions=1)


def test_writes_in_place_stay_where_they_are():
    def update(x, w, state):
        h = F.conv2d(x, w)
        state.add_(h)
        return F.relu_(h) + state

    x, w = torch.randn(1, 4, 5, 5), torch.randn(8, 4, 1, 1)
    ours, theirs = torch.ones(1, 8, 5, 5), torch.ones(1, 8, 5, 5)
    with torch.no_grad():
        mine = torch.compile(update, backend=backend.unisono, options={"rest": "eager"})(x, w, ours)
        assert backend.reports()[-1].regions == 1
        torch.testing.assert_close(mine, update(x, w, theirs))
    torch.testing.assert_close(ours, theirs)


SHARED = {
    "detach": (lambda y: (y, y.detach()), 1),
    "views": (lambda y: (y, y.view(6, 4, 5), y.view(-1, 10).detach()), 1),
    "a view alone": (lambda y: (y.view(6, 4, 5), y.view(12, 10)), 1),
    "a clone": (lambda y: (y, y.clone()), 2),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_shares_memory_goes_on_to_share_it(name):
    """Aliases and views that escape are no stores of their own; a clone is one."""
    escape, stores = SHARED[name]
    function, inputs = (lambda a, b: escape(F.relu(torch.mm(a, b) + 1))), (torch.randn(24, 7), torch.randn(7, 5))
    report = run(function, *inputs, regions=1)
    assert report.rows[0]["stores"] == stores
    with torch.no_grad():
        compiled = torch.compile(function, backend=backend.unisono, options={"rest": "eager"})(*inputs)
    assert len({y.data_ptr() for y in compiled}) == stores == len({y.data_ptr() for y in function(*inputs)})


def test_memory_orders_that_kernels_do_not_write():
    report = run(lambda a, v, r: (r.T + torch.mm(a, v)).T.view(-1), torch.randn(5, 7), torch.randn(7, 9), torch.randn(9, 5), regions=0)
    assert "has strides (1, 5)" in str(report)
    run(lambda x, w, r: F.relu(F.conv2d(x, w)).add(1) + r.transpose(2, 3), torch.randn(2, 4, 6, 6), torch.randn(8, 4, 1, 1),
        torch.randn(2, 8, 6, 6), regions=1)


@pytest.mark.parametrize("last", [False, True])
def test_operands_of_rows_that_lie_apart(last):
    """One channel of a wider image, as FocalNet's gates: [m] is a dense vector to kernels."""
    order = torch.channels_last if last else torch.contiguous_format
    x, gates, w = (torch.randn(s).contiguous(memory_format=order) for s in ((2, 8, 6, 5), (2, 3, 6, 5), (16, 8, 1, 1)))
    report = run(lambda x, gates, w: F.relu(F.conv2d(x, w) * gates[:, 1:2]), x, gates, w, regions=1)
    assert "[m]" in report.rows[0]["epilogue"], str(report)
