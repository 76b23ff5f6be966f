"""Orders of memory and of extents: what a graph's copies to contiguous memory become, and how views are followed."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from compiled import last, regions_alone  # noqa: E402, F401
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from unisono.operands import Space  # noqa: E402
from unisono.pytorch import backend, frozen, layouts, report, shapes  # noqa: E402
from unisono.pytorch.fuse import Limits, fuse  # noqa: E402
from unisono.pytorch.regions import aten  # noqa: E402

LAST = torch.channels_last


def traced(function, *inputs):
    """The graph of a function, with values of a fake mode, as a backend gets it."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(t) for t in inputs]
    with mode:
        module = make_fx(function)(*fakes)
    output = next(iter(module.graph.find_nodes(op="output")))
    if not isinstance(output.args[0], (list, tuple)):
        output.args = ((output.args[0],),)
    module.recompile()
    return module, fakes, mode


def images():
    torch.manual_seed(0)
    x, w, v = torch.randn(2, 8, 6, 5), torch.randn(16, 8, 3, 3), torch.randn(4, 16, 1, 1)
    return [t.contiguous(memory_format=LAST) for t in (x, w, v)]


def blocks(x, w, v):
    """As PyTorch has it on a GPU: group_norm reads a contiguous copy."""
    h = F.conv2d(x, w, padding=1).clone(memory_format=torch.contiguous_format)
    grouped = h.reshape(2, 4, 4, 6, 5)
    variance, mean = torch.var_mean(grouped, dim=(2, 3, 4), correction=0, keepdim=True)
    h = F.relu(((grouped - mean) * torch.rsqrt(variance + 1e-5)).reshape(h.shape))
    return torch.tanh(F.conv2d(h, v)), h


def test_copies_behind_convolutions_are_taken_out():
    inputs = images()
    module, fakes, mode = traced(blocks, *inputs)
    assert layouts.relax(module, fakes, mode) == 0  # on a CPU nothing of it is asked for
    assert layouts.relax(module, fakes, mode, ("cpu",)) == 1
    second = list(module.graph.find_nodes(op="call_function", target=aten.convolution.default))[1]
    assert layouts.format_of(second.args[0].meta["val"]) is LAST
    rows = fuse(module, Limits())
    layouts.simplify(module)
    assert [row["taken"] for row in rows] == [True, True], rows
    for mine, theirs in zip(module(*inputs), blocks(*inputs)):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    # what the program sees lies as it did
    assert [layouts.format_of(t) for t in module(*inputs)] == [layouts.format_of(t) for t in blocks(*inputs)]


def test_images_are_turned_where_filters_ask_for_it():
    """An instance norm sees the image as (1, N·C, …), which is contiguous; the next convolution has channels last."""
    def normalised(x, w, v):
        h = F.leaky_relu(F.instance_norm(F.conv2d(x, w, padding=1).clone(memory_format=torch.contiguous_format)))
        return torch.tanh(F.conv2d(h, v))

    inputs = images()
    module, fakes, mode = traced(normalised, *inputs)
    layouts.relax(module, fakes, mode, ("cpu",))
    for node in module.graph.find_nodes(op="call_function", target=aten.convolution.default):
        assert layouts.format_of(node.args[0].meta["val"]) is LAST
    torch.testing.assert_close(module(*inputs)[0], normalised(*inputs))


def test_an_image_of_one_channel_lies_channels_last():
    """It is contiguous and channels last at once, and its strides say the former. In a program in channels last it is
    taken as the latter."""

    def stem(x, w, v):
        return torch.tanh(F.conv2d(F.relu(F.conv2d(x, w, padding=1)), v)).mean((2, 3))

    torch.manual_seed(0)
    inputs = [
        torch.randn(2, 1, 6, 5),
        torch.randn(16, 1, 3, 3),
        torch.randn(4, 16, 3, 3).contiguous(memory_format=LAST),
    ]
    module, fakes, mode = traced(stem, *inputs)
    layouts.relax(module, fakes, mode, ("cpu",))
    convolutions = list(module.graph.find_nodes(op="call_function", target=aten.convolution.default))
    assert [layouts.format_of(n.meta["val"]) for n in convolutions] == [LAST, LAST] and convolutions[0].args[
        0
    ].target is aten.as_strided.default
    assert not list(module.graph.find_nodes(op="call_function", target=aten.clone.default))
    rows = fuse(module, Limits(minimum_operators=0))
    assert [row["taken"] for row in rows] == [True, True], rows
    calls = list(module.graph.find_nodes(op="call_function", target=torch.ops.unisono.fused_conv2d.default))
    assert all("|last=1" in n.args[5] for n in calls)
    assert not list(module.graph.find_nodes(op="call_function", target=aten.clone.default))
    torch.testing.assert_close(module(*inputs)[0], stem(*inputs), rtol=1e-4, atol=1e-5)
    # a program in contiguous memory stays so
    inputs[2] = inputs[2].contiguous()
    module, fakes, mode = traced(stem, *inputs)
    assert layouts.relax(module, fakes, mode, ("cpu",)) == 0
    assert not any(
        "|last=1" in str(n.args) for n in (fuse(module, Limits(minimum_operators=0)), module)[1].graph.nodes
    )


@pytest.mark.parametrize("rest", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
@pytest.mark.parametrize("strides", [(30, 30, 5, 1), (30, 1, 5, 1)])
def test_calls_of_images_of_one_channel(strides, rest):
    """By either strides; results lie as PyTorch's do, pooled and concatenated ones, too."""

    def heads(x, w, v):
        h = F.silu(F.conv2d(x, w, padding=1))
        return h, F.max_pool2d(h, 2), torch.cat([h, F.relu(F.conv2d(x, v, padding=1))], 1)

    torch._dynamo.reset()
    torch.manual_seed(0)
    inputs = [torch.randn(60).as_strided((2, 1, 6, 5), strides), torch.randn(16, 1, 3, 3), torch.randn(8, 1, 3, 3)]
    with torch.no_grad():
        mine = torch.compile(heads, backend=backend.unisono, options={"rest": rest, "minimum_operators": 0})(*inputs)
    assert backend.reports()[-1].regions == 2 and backend.reports()[-1].counts["conversions"] == 0, str(
        backend.reports()[-1]
    )
    for one, other in zip(mine, heads(*inputs)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert one.stride() == other.stride()


def test_pairs_of_copies():
    module, _, _ = traced(lambda x: torch.relu(x.clone(memory_format=torch.contiguous_format).clone(memory_format=LAST)), images()[0])
    assert layouts.simplify(module) == 1 and not list(module.graph.find_nodes(op="call_function", target=aten.clone.default))
    module, _, _ = traced(lambda x: torch.relu(x.clone(memory_format=torch.contiguous_format).clone(memory_format=torch.contiguous_format)), images()[0])
    assert layouts.simplify(module) == 0


def test_views_are_followed():
    space = Space(3, (6, 5), 8, True, True)
    whole = shapes.of_space(space)
    grouped = shapes.viewed(whole, (3, 2, 4, 30))
    assert shapes.extents_of(grouped) == (3, 2, 4, 30) and shapes.viewed(grouped, (3, 8, 6, 5)) == whole
    assert shapes.viewed(whole, (3, 8, 5, 6)) is not None and shapes.viewed(whole, (3, 8, 5, 6)) != whole
    assert shapes.viewed(whole, (3, 12, 20)) is None  # a part of the channels that is no factor of them
    assert shapes.axes_of(shapes.viewed(whole, (3, 16, 15)), space) == "mn" and shapes.axes_of(shapes.viewed(whole, (3, 16, 15))[:2], space) is None
    for kept, axes in (((0, 1, 2, 3), "mn"), ((0, 1), "bg2"), ((0, 1, 2), "bn"), ((0,), "b"), ((1, 2), "n"), ((), ""), ((0, 3), "m")):
        left = tuple(dim if i in kept else () for i, dim in enumerate(grouped))
        assert shapes.axes_of(left, space) == axes
    for kept in ((2,), (3,), (1, 3)):  # channels of all groups; pixels of all images
        assert shapes.axes_of(tuple(dim if i in kept else () for i, dim in enumerate(grouped)), space) is None
    groups, pixels = grouped[1], grouped[3]  # of each pixel a number for each group: stored with the groups side by side
    assert shapes.is_stored_in_order((whole[0], pixels, groups)) and not shapes.is_stored_in_order((whole[0], groups, pixels))
    turned = tuple(whole[i] for i in (0, 2, 3, 1))
    assert not shapes.is_in_order(turned, space) and shapes.axes_of(turned, space) == "mn"
    assert shapes.turned(turned, space) == ((3, 8, 6, 5), (0, 2, 3, 1))


def test_unknown_extents_are_compared_as_expressions():
    import sympy
    from torch.utils._sympy.functions import FloorDiv
    n, h = sympy.symbols("n h", integer=True, positive=True)
    space = Space(n, (h, h), 8, True, True)
    whole = shapes.of_space(space)
    assert shapes.viewed(shapes.viewed(whole, (n, 2, 4, h * h)), (n, 8, h, FloorDiv(h**2, h))) == whole
    assert shapes.viewed(whole, (n * 8, h * h)) is not None and shapes.viewed(whole, (n, 8 * h, h + 1)) is None
    assert shapes.quotient(n * h, n) == h and shapes.quotient(n * h, 8) is None and shapes.quotient(12, 8) is None


def test_inductor_keeps_the_order_of_memory_for_regions():
    """An upsampled image is contiguous as Inductor writes it out; the copy to channels last behind it must reach the operator."""
    import unisono
    from unisono import functional

    inputs, seen, now = images(), [], functional.conv2d_call

    def model(x, w, v):
        h = F.silu(F.conv2d(x, w, padding=1))
        return F.relu(F.conv2d(F.interpolate(h, scale_factor=2, mode="nearest"), v))

    def watched(x, w, *more):
        seen.append(x.is_contiguous(memory_format=LAST))
        return now(x, w, *more)

    torch._dynamo.reset()
    unisono.cache_clear()  # calls that were prepared are not prepared again
    functional.conv2d_call, relax = watched, backend.relax
    backend.relax = lambda module, values, mode: layouts.relax(module, values, mode, ("cpu",))
    try:
        with torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
            mine = torch.compile(model, backend=backend.unisono)(*inputs)
    finally:
        functional.conv2d_call, backend.relax = now, relax
    torch.testing.assert_close(mine, model(*inputs), rtol=1e-4, atol=1e-5)
    assert seen == [True, True]


def test_texts_become_one_line():
    from unisono import _native
    from unisono.pytorch.operators import one_line

    text = "operand b[n] : f32  # a bias; of columns\n\nv = max(acc,\n        b)  # (no reason\n; store v as y : bf16\n"
    assert "\n" not in one_line(text) and str(_native.parse(one_line(text))) == str(_native.parse(text))


def test_results_lie_as_the_graph_says_whatever_the_strides_of_an_image():
    """Of an image one pixel wide that was padded, PyTorch's meta functions say other strides than its kernels give."""
    torch._dynamo.reset()
    module, x = nn.Conv2d(6, 12, 1, padding_mode="replicate").bfloat16(), torch.randn(1, 6, 7, 1).bfloat16()
    module, x = last(module, x)
    with torch.no_grad():
        mine = torch.compile(module, backend=backend.unisono, options={"rest": "eager", "minimum_operators": 0})(x)
        theirs = module(x)
    assert backend.reports()[-1].regions == 1 and mine.stride()[1:3] == theirs.stride()[1:3] == (1, 12), mine.stride()
    torch.testing.assert_close(mine, theirs, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("turned", [(), ("filters",), ("filters", "residual")])
def test_tensors_that_calls_copy_are_counted(turned):
    """Those of a convolution that lie in another order than its image."""
    x, filters, residual = torch.randn(2, 8, 6, 5), torch.randn(8, 8, 3, 3), torch.randn(2, 8, 6, 5)
    tensors = {"x": x, "filters": filters, "residual": residual}
    tensors = {n: t if n in turned else t.contiguous(memory_format=LAST) for n, t in tensors.items()}
    module, _, _ = traced(lambda x, w, r: F.relu(F.conv2d(x, w, padding=1) + r), *tensors.values())
    rows = fuse(module, Limits(minimum_operators=0))
    assert [len(row["fused"]) for row in rows] == [2], rows
    assert frozen.copied_tensors(module, ("cpu",)) == len(turned)
    assert report.count(module)["tensors copied before each launch"] == 0  # kernels of a CPU take all strides
