"""unisono.conv2d_into: outputs of the caller, such as slices of a concatenation, also where torch.compile traces."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import unisono as u  # noqa: E402

ORDERS = [torch.contiguous_format, torch.channels_last]


def draw(*shape, order=torch.contiguous_format):
    return torch.randn(shape).contiguous(memory_format=order)


@pytest.mark.parametrize("backend", [None, "aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("order", ORDERS)
def test_slices_of_a_larger_image(order, backend):
    def both(x, w, whole):
        u.conv2d_into(x, w, whole[:, 8:16], "silu(acc * s[])", padding=1, s=2.0)
        u.conv2d_into(x, w, whole.narrow(1, 0, 8), padding=1)
        return whole * 2

    torch._dynamo.reset()
    x, w, whole = draw(2, 8, 6, 5, order=order), draw(8, 8, 3, 3, order=order), draw(2, 24, 6, 5, order=order)
    h, rest = F.conv2d(x.double(), w.double(), padding=1), whole[:, 16:].clone()
    doubled = (both if backend is None else torch.compile(both, backend=backend, fullgraph=True))(x, w, whole)
    torch.testing.assert_close(whole[:, :16].double(), torch.cat([h, F.silu(2 * h)], 1), rtol=1e-5, atol=1e-4)
    assert torch.equal(whole[:, 16:], rest) and torch.equal(doubled, 2 * whole)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_several_stores_by_name(backend):
    def split(x, w):
        whole = torch.zeros(2, 24, 6, 5).contiguous(memory_format=torch.channels_last)
        u.conv2d_into(x, w, {"b": whole[:, 16:], "a": whole[:, :8]}, "store acc as a; store relu(acc) as b", padding=1)
        return whole

    torch._dynamo.reset()
    x, w = draw(2, 8, 6, 5, order=torch.channels_last), draw(8, 8, 3, 3, order=torch.channels_last)
    h = F.conv2d(x, w, padding=1)
    whole = (split if backend is None else torch.compile(split, backend=backend, fullgraph=True))(x, w)
    torch.testing.assert_close(whole, torch.cat([h, torch.zeros_like(h), h.relu()], 1), rtol=1e-5, atol=1e-4)


def test_the_dtype_is_that_of_the_output_and_arrays_are_taken():
    x, w, y = draw(2, 8, 6, 5), draw(4, 8, 3, 3), torch.empty(2, 4, 4, 3, dtype=torch.float16)
    version = y._version
    u.conv2d_into(x, w, y)
    torch.testing.assert_close(y.float(), F.conv2d(x, w), rtol=1e-3, atol=1e-2)
    assert y._version > version  # autograd is told
    array = np.full((2, 4, 4, 3), np.nan, np.float32)
    u.conv2d_into(x.numpy(), w.numpy(), array)
    torch.testing.assert_close(torch.from_numpy(array), F.conv2d(x, w), rtol=1e-5, atol=1e-4)


def test_a_slice_beside_the_image_and_in_place():
    whole, w = draw(2, 16, 6, 5, order=torch.channels_last), draw(8, 8, 3, 3, order=torch.channels_last)
    right = F.conv2d(whole[:, :8].double(), w.double(), padding=1) + whole[:, 8:].double()
    residual = whole[:, 8:]  # read element by element
    u.conv2d_into(whole[:, :8], w, whole[:, 8:], "acc + r[m,n]", padding=1, r=residual)
    torch.testing.assert_close(whole[:, 8:].double(), right, rtol=1e-5, atol=1e-4)


def overlapping(x, w):
    r = draw(2, 9, 6, 6)
    u.conv2d_into(x, w, r[:, :8], "acc + r[m,n]", padding=1, r=r[:, 1:])


def twice(x, w):
    y = torch.zeros(2, 8, 4, 4)
    u.conv2d_into(x, w, {"a": y, "b": y}, "store acc as a; store acc as b")


def zeros(**how):
    return torch.zeros(2, 8, 4, 4, **how)


WRONG = {
    "shape": (lambda x, w: u.conv2d_into(x, w, torch.zeros(2, 8, 6, 6)), "expected (2, 8, 4, 4)"),
    "an unknown store": (lambda x, w: u.conv2d_into(x, w, {"q": zeros()}), "does not store; expected y"),
    "nothing": (lambda x, w: u.conv2d_into(x, w, None), "argument 'out' is a NoneType"),
    "the image": (lambda x, w: u.conv2d_into(x, w, x, padding=1), "shares memory with the image"),
    "a slice that overlaps a residual": (overlapping, "shares memory"),
    "one tensor twice": (twice, "share memory"),
    "a filter with a gradient": (lambda x, w: u.conv2d_into(x, w.requires_grad_(), zeros()), "has no derivative"),
    "an output with a gradient": (
        lambda x, w: u.conv2d_into(x, w, zeros(requires_grad=True)),
        "'out' is to be written",
    ),
    "one of conv2d, too": (lambda x, w: u.conv2d(x, w, out=zeros(requires_grad=True)), "'out' is to be written"),
    "layout": (lambda x, w: u.conv2d_into(x, w, x, layout="chwn"), "conv2d_into: layout='chwn'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    call, text = WRONG[name]
    x, w = draw(2, 8, 6, 6), draw(8, 8, 3, 3)
    for _ in range(2):  # the second time, a prepared call may be there
        with pytest.raises(u.UserError) as error:
            call(x, w)
        assert text in str(error.value)
        u.conv2d_into(x.detach(), w.detach(), torch.zeros(2, 8, 6, 6), padding=1)


def operator_into(kernels):
    """conv2d_into and conv_transpose2d_into: in C++, or in Python with the same schema."""
    from unisono.pytorch import concatenations, library
    if kernels == "python":
        return concatenations._conv2d_into, concatenations._conv_transpose2d_into
    return tuple(concatenations.INTO[one] for one in library.CONVOLUTIONS if one in concatenations.INTO)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernels", ["operators", "python"])
def test_operators_that_write_into_a_concatenation(kernels, order):
    """One store goes into channels 8 to 15 of a larger image, the others into tensors of their own, in the order of the
    stores; a second call goes into other memory."""
    conv, transposed = operator_into(kernels)
    text = "store acc as a; store relu(acc + b[n]) as b; store -acc as c"
    w, up, b = draw(8, 8, 3, 3, order=order), draw(8, 8, 2, 2, order=order), draw(8)
    for placed in (0, 1, 2, 1):
        x = draw(2, 8, 6, 5, order=order)
        for call, h, moves in ((conv, F.conv2d(x, w, padding=1), ([1, 1], [1, 1], [1, 1])),
                               (transposed, F.conv_transpose2d(x, up, stride=2), ([2, 2], [0, 0], [1, 1], [0, 0]))):
            whole = draw(2, 24, *h.shape[2:], order=order)
            others = [torch.full_like(h, torch.nan) for _ in range(2)]
            rest = whole.clone()
            call(x, w if call is conv else up, [b], [], text, "b", *moves, 1, None, whole, 8, placed, others)
            found = [*others[:placed], whole[:, 8:16], *others[placed:]]
            for one, right in zip(found, (h, (h + b.view(-1, 1, 1)).relu(), -h)):
                torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-4)
            assert torch.equal(whole[:, :8], rest[:, :8]) and torch.equal(whole[:, 16:], rest[:, 16:])


INTO_WRONG = {
    "ahead of the first channel": (-8, 0, 1, "the channels -8 to -1"),
    "behind the last channel": (24, 0, 1, "the channels 24 to 31"),
    "no such store": (8, 2, 1, "store 2 cannot go"),
    "too few tensors": (8, 0, 0, "expected a, b|no tensor for the store"),
}


@pytest.mark.parametrize("name", INTO_WRONG)
def test_errors_of_operators_that_write_into_a_concatenation(name):
    first, placed, others, text = INTO_WRONG[name]
    conv, _ = operator_into("operators")
    x, w, whole = draw(2, 8, 6, 5), draw(8, 8, 3, 3), draw(2, 24, 6, 5)
    for _ in range(2):
        with pytest.raises((u.UserError, RuntimeError), match=text):
            conv(x, w, [], [], "store acc as a; store relu(acc) as b", "", [1, 1], [1, 1], [1, 1], 1, None, whole, first, placed,
                 [torch.empty(2, 8, 6, 5)] * others)
    with pytest.raises((u.UserError, RuntimeError), match="shares? memory"):
        conv(whole[:, :8], w, [], [], "acc", "", [1, 1], [1, 1], [1, 1], 1, None, whole, 0, 0, [])


def test_a_call_in_place_is_seen_by_autograd_and_prepared_once():
    x, w, y = draw(2, 8, 6, 5), draw(4, 8, 3, 3), torch.empty(2, 4, 4, 3)
    u.conv2d_into(x, w, y, "store tanh(acc) as y")
    before, version = u.cache_info(), y._version
    for _ in range(3):
        u.conv2d_into(x, w, {"y": y}, "store tanh(acc) as y")
    assert u.cache_info()["misses"] == before["misses"] and u.cache_info()["hits"] == before["hits"] + 3
    assert y._version == version + 3
    with torch.inference_mode():
        u.conv2d_into(x, w, torch.empty(2, 4, 4, 3), "store tanh(acc) as y")
