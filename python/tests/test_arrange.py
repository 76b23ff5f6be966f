"""Which tensors of a call are copied for a kernel of a GPU, decided from metadata; the kernels' part is a stand-in."""

import logging

import pytest

torch = pytest.importorskip("torch")

from compiled import regions_alone  # noqa: E402, F401

import unisono as u  # noqa: E402
from unisono import arrange  # noqa: E402


def places(tensors, factors=2):
    return list(arrange.arrangements(tensors, factors, True))


def test_dense_tensors_are_copied_last():
    a, b = torch.randn(4, 8), torch.randn(16, 8).T
    assert places([a, b]) == [(), (1,)]
    assert places([a, b, 1.0]) == [(), (1,)]
    assert list(arrange.arrangements([a, b[:, ::2]], 2, False)) == [()]


def test_each_alone_then_operands_then_all():
    a, b = torch.randn(4, 16)[:, :8], torch.randn(8, 16)[:, ::2]
    x, y, z = torch.randn(4, 16)[:, 8:], torch.randn(4, 8), torch.randn(8, 4).T[:, ::2]
    assert places([a, b, x, y, z]) == [(), (2,), (4,), (0,), (1,), (2, 4), (0, 1, 2, 4)]


def test_extents_of_one_have_no_stride():
    x = torch.randn(1, 6, 5).as_strided((1, 6, 5), (0, 5, 1))
    assert arrange.is_dense(x)
    assert places([x, x]) == [()]


def test_misaligned_tensors_are_copied():
    whole = torch.randn(33)
    x = whole[1:].view(4, 8)
    assert not arrange.is_dense(x)
    assert places([x, whole[:32].view(8, 4)]) == [(), (0,)]
    made = arrange.ordered(x, "contiguous")
    assert made.data_ptr() % 16 == 0 and torch.equal(made, x)
    assert arrange.ordered(made, "contiguous") is made


class OnGpu(torch.Tensor):
    """A tensor that says that it lies on a GPU."""

    @property
    def is_cuda(self):
        return True


def on_gpu(x):
    return x.as_subclass(OnGpu)


def taken(want):
    """Stands for the kernel: takes tensors that `want` says yes to, and refuses others as the library does."""
    tried = []

    def prepare(tensors, orders):
        tried.append(orders)
        if not want(tensors):
            raise u.UserError("make a dense copy")
        return tensors, orders

    return prepare, tried


def test_the_first_that_is_taken(caplog):
    a, b, x, y = (on_gpu(t) for t in (torch.randn(4, 8), torch.randn(8, 6), torch.randn(4, 12)[:, 6:], torch.randn(4, 6)))
    before = u.cache_info()["copies"]
    prepare, tried = taken(lambda tensors: tensors[2].is_contiguous())
    with caplog.at_level(logging.WARNING, "unisono"):
        tensors, orders = arrange.arranged(prepare, [a, b, x, y], 2, "gemm")
    assert orders == ["", "", "contiguous", ""] and len(tried) == 2
    assert torch.equal(tensors[2], x) and tensors[3] is y
    assert "gemm copies (4, 6) with strides (12, 1) before each launch" in caplog.text
    assert u.cache_info()["copies"] == before + 1


def test_strict_calls_copy_nothing(caplog):
    a, b, x = (on_gpu(t) for t in (torch.randn(4, 8), torch.randn(8, 6), torch.randn(4, 12)[:, 6:]))
    before = u.cache_info()["copies"]
    prepare, tried = taken(lambda tensors: tensors[2].is_contiguous())
    with pytest.raises(u.Unsupported, match=r"strict=True, and gemm copies \(4, 6\) with strides \(12, 1\).*make a dense copy"):
        arrange.arranged(prepare, [a, b, x], 2, "gemm", strict=True)
    assert u.cache_info()["copies"] == before and not caplog.text
    assert arrange.arranged(prepare, [a, b, x.contiguous()], 2, "gemm", strict=True)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("pair", [False, True])
def test_products_of_a_strict_graph_are_strict(strict, pair, monkeypatch):
    from unisono import direct, functional
    from unisono.pytorch import backend
    torch._dynamo.reset()
    u.cache_clear()
    found = []

    def spied(prepare, tensors, factors, what, strict=False):
        found.append((what, strict))
        return arrange.arranged(prepare, tensors, factors, what, strict)

    for module in (functional, direct):
        monkeypatch.setattr(module, "arranged", spied)
    x, w, v = torch.randn(8, 16), torch.randn(16, 24), torch.randn(16, 24)

    def function(x, w, v):
        return torch.nn.functional.silu(x @ w) * (x @ v) if pair else torch.nn.functional.silu(x @ w)

    call = torch.compile(function, backend=backend.unisono, options={"rest": "eager", "strict": strict})
    torch.testing.assert_close(call(x, w, v), function(x, w, v))
    assert found == [("swiglu" if pair else "gemm", strict)]


LAST = torch.channels_last


def convolution(x, w, residual, options):
    from unisono import functional
    return functional.prepare_conv2d(x, w, "relu(acc + r[m,n])", (1, 1), (0, 0), (1, 1), 1, "nchw", None, None, options, {"r": residual})


def test_copies_of_a_convolution_are_counted_and_refused(caplog):
    x, w, r = torch.randn(2, 8, 5, 6), torch.randn(8, 8, 1, 1), torch.randn(2, 8, 5, 6)
    last, filters, residual = (on_gpu(t.contiguous(memory_format=LAST)) for t in (x, w, r))
    before = u.cache_info()["copies"]
    with pytest.raises(u.Unsupported, match=r"strict=True, and conv2d copies \(2, 8, 5, 6\) with strides \(240, 30, 6, 1\).*channels last"):
        convolution(last, filters, on_gpu(r), {"strict": 1})
    assert u.cache_info()["copies"] == before and not caplog.text
    assert convolution(last, filters, residual, {"strict": 1}).orders == []
    with caplog.at_level(logging.WARNING, "unisono"):
        assert convolution(last, filters, on_gpu(r), {}).orders == [(2, "channels_last")]
    assert "conv2d copies (2, 8, 5, 6)" in caplog.text and u.cache_info()["copies"] == before + 1


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_of_a_strict_graph_are_strict(strict, transposed, monkeypatch):
    from unisono import direct, functional
    from unisono.pytorch import backend
    torch._dynamo.reset()
    u.cache_clear()
    found = []

    def spied(what, tensors, orders, last, strict):
        found.append((what, strict))

    for module in (functional, direct):
        monkeypatch.setattr(module, "note_orders", spied)
    net = torch.nn.Sequential((torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d)(8, 4, 2), torch.nn.SiLU())
    with torch.no_grad():
        call = torch.compile(net, backend=backend.unisono, options={"rest": "eager", "strict": strict})
        torch.testing.assert_close(call(x := torch.randn(2, 8, 5, 6)), net(x))
    assert found == [("conv_transpose2d" if transposed else "conv2d", strict)]


def test_what_no_copy_helps_keeps_its_error():
    prepare, tried = taken(lambda tensors: False)
    with pytest.raises(u.UserError, match="make a dense copy"):
        arrange.arranged(prepare, [on_gpu(torch.randn(4, 8)), on_gpu(torch.randn(8, 12)[:, ::2])], 2, "gemm")
    assert len(tried) == 2
    prepare, tried = taken(lambda tensors: False)
    with pytest.raises(u.UserError):
        arrange.arranged(prepare, [torch.randn(4, 8), torch.randn(8, 12)[:, ::2]], 2, "gemm")
    assert len(tried) == 1  # on a CPU kernels take all strides
