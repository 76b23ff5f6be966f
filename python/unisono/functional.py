"""conv2d and gemm with an epilogue on NumPy arrays and PyTorch tensors. Each shape and dtype is compiled once."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import numpy as np

from ._native import Conv2d, DType, Gemm, Layout, UserError
from .arguments import (autocast, by_operator, check_operator_call, check_outputs, checked, dtype_of, needs_gradient,
                        needs_operator, pair,
                        torch_dtype_of)
from .arrange import arranged, note_copies, without_strict
from .binding import key_of, prepare, run, signature_of, takes_slices
from .calls import ALIGNMENT, Call, call_of, ordered
from .operands import Space
from .tensors import View, is_torch, view


# layout="nchw", where the graph of a call says whether images lie channels last, not its tensors' strides
CONTIGUOUS, CHANNELS_LAST = "nchw, contiguous", "nchw, channels last"


def _is_channels_last(x: View) -> bool:
    n, c, h, w = x.shape
    return c > 1 and h * w > 1 and x.strides[1] == 1 and x.strides[3] >= c


def image_views(x: View, w: View, layout: str = "nchw") -> tuple[View, View, bool]:
    """Image and filter in one order, and whether that is channels last. Layout may say it. Else the image decides, if
    it can; one of one channel lies in either order, and is taken for contiguous."""
    flat = x.shape[1] == 1 or x.shape[2] * x.shape[3] == 1
    last = _is_channels_last(w) if flat else _is_channels_last(x)
    last = layout == CHANNELS_LAST if layout in (CONTIGUOUS, CHANNELS_LAST) else last
    return (x.permuted((0, 2, 3, 1)), w.permuted((0, 2, 3, 1)), True) if last else (x, w, False)


def conv2d(x: Any, w: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1,
           layout: str = "nchw", out_dtype: Any = None, out: Any = None, options: dict[str, Any] | None = None,
           **operands: Any) -> Any:
    """Computes a 2-D convolution and its epilogue in one kernel.

    x: (N,C,H,W). w: (K,C/groups,R,S). As in PyTorch, either may be contiguous or channels last. With layout="nhwc", x
    is (N,H,W,C) and w is (K,R,S,C/groups). dtypes: f32, f16, bf16. stride, padding, dilation: pixels, an int or
    (rows, columns). padding may also be 'valid' or, with stride 1, 'same'.

    epilogue: an expression of `acc`, statements with stores (docs/text-form.md), a function made with
    `@unisono.epilogue`, or a `Graph`. Its operands are keyword arguments: [n] is (K,), [b,n] is (N,K), [m,n] has the
    shape of the result, and a scalar is a number. No operand may have the name of a parameter (such as `stride`).

    Returns a tensor of the same kind as x, or {name: tensor} if the epilogue has several stores. `out_dtype` (default:
    that of x) is the dtype of an expression; a `store` states its own (default: f32). out: tensors to write instead of
    new ones. options: threads, plan, tuned, accurate, spare_sms and watchdog of `unisono.compile`. CUDA tensors: the
    kernel is launched on PyTorch's current stream and takes its workspace from PyTorch's allocator.

    Raises UserError for invalid arguments (with a caret under an error in the text), and Unsupported, with each reason,
    if no kernel can do it.
    """
    x, padding = _padded("conv2d", x, w, stride, padding, dilation, layout)
    moves = _moves("conv2d", stride, padding, dilation, groups, layout)
    x, w = autocast(x, w)
    if needs_operator(x, w, operands):
        check_operator_call("conv2d", out, options, layout)
        from .pytorch.operators import call_conv2d
        return call_conv2d(x, w, epilogue, *moves, torch_dtype_of(out_dtype), operands)
    check_outputs(out)
    if (
        out is None
        and not options
        and layout == "nchw"
        and is_torch(x)
        and (fused := by_operator(w, epilogue, operands))
    ):
        return fused[0].conv2d(x, w, *fused[1:], *moves, torch_dtype_of(out_dtype))
    return conv2d_now(x, w, epilogue, *moves, layout, dtype_of(out_dtype), out, checked(options), operands)


def conv2d_into(x: Any, w: Any, out: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0,
                dilation: Any = 1,
                groups: int = 1, layout: str = "nchw", options: dict[str, Any] | None = None, **operands: Any) -> None:
    """Like `conv2d`, but writes into tensors of the caller, such as a slice of a concatenation, and returns None.

    out: a tensor with the shape of the result, or {name: tensor} with all stores. It may be a view, such as the K
    channels `whole.narrow(1, first, K)` of a larger image in the same memory order as x. On a GPU and channels last,
    `first` must be a multiple of 8 for f16 and bf16, and f32 needs dense tensors. The dtype of `out` is the dtype of an
    expression; a `store` states its own (default: f32). All other arguments and errors: see `conv2d`.

    It may be called in functions that `torch.compile` compiles: it is the operator unisono::conv2d_out, which mutates
    `out`. It has no derivative: outside torch.no_grad(), a tensor that requires a gradient raises UserError.
    """
    x, padding = _padded("conv2d_into", x, w, stride, padding, dilation, layout)
    moves = _moves("conv2d_into", stride, padding, dilation, groups, layout)
    if needs_gradient(x, w, operands):
        raise UserError(
            "conv2d_into: a tensor requires a gradient, and a call that writes into given tensors has no derivative; "
            "call it under torch.no_grad(), or use conv2d"
        )
    check_outputs(out)
    x, w = autocast(x, w)
    if needs_operator(x, w, operands):
        check_operator_call("conv2d_into", None, options, layout)
        from .pytorch.operators import call_conv2d_into
        call_conv2d_into(x, w, epilogue, *moves, out, operands)
        return
    fused = None if options or layout != "nchw" or not is_torch(x) else by_operator(w, epilogue, operands)
    if fused and (outs := fused[0].outputs_of(x, out, fused[3])) is not None:
        fused[0].conv2d_into(x, w, outs, *fused[1:], *moves)
    else:
        dtype = None if isinstance(out, dict) else view("out", out).dtype
        conv2d_now(x, w, epilogue, *moves, layout, dtype, out, checked(options), operands)


def _padded(what: str, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, layout: str) -> tuple[Any, Any]:
    """The image and the padding in pixels, where it is said in a word as in PyTorch. 'same' of an even extent of the
    filter asks for one pixel more at the end, which a copy of the image has."""
    if not isinstance(padding, str):
        return x, padding
    if padding not in ("same", "valid"):
        raise UserError(f"{what}: padding={padding!r}; expected an int, two, 'same' or 'valid'")
    if padding == "valid":
        return x, 0
    if pair("stride", stride) != (1, 1):
        raise UserError(f"{what}: padding='same' with stride={stride!r}; expected a stride of 1, or the padding in "
                        "pixels")
    rows = (2, 3) if layout == "nchw" else (1, 2)
    if len(getattr(x, "shape", ())) != 4 or len(getattr(w, "shape", ())) != 4:
        return x, 0  # what follows says what is wrong
    whole = [d * (w.shape[i] - 1) for i, d in zip(rows, pair("dilation", dilation))]
    if any(p % 2 for p in whole):
        ends = {i: p % 2 for i, p in zip(rows, whole)}
        if is_torch(x):
            import torch
            x = torch.nn.functional.pad(x, [e for i in (3, 2, 1, 0) for e in (0, ends.get(i, 0))])
        else:
            x = np.pad(x, [(0, ends.get(i, 0)) for i in range(4)])
    return x, (whole[0] // 2, whole[1] // 2)


def _moves(what: str, stride: Any, padding: Any, dilation: Any, groups: Any,
           layout: str) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]:
    """Stride, padding, dilation and groups. Raises UserError."""
    if layout not in ("nchw", "nhwc"):
        raise UserError(f"{what}: layout={layout!r}; expected 'nchw' or 'nhwc', the order of the extents")
    if type(groups) is not int and not isinstance(groups, numbers.Integral):
        raise UserError(f"{what}: groups={groups!r}; expected an int")
    if type(stride) is type(padding) is type(dilation) is type(groups) is int:
        return (stride, stride), (padding, padding), (dilation, dilation), groups
    return pair("stride", stride), pair("padding", padding), pair("dilation", dilation), operator.index(groups)


def conv2d_now(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
               dilation: tuple[int, int], groups: int,
               layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any],
               operands: dict[str, Any]) -> Any:
    """conv2d without gradients; stride, padding and dilation are pairs."""
    operands = {n: v for n, v in operands.items() if v is not None}
    call = conv2d_call(x, w, epilogue, stride, padding, dilation, groups, layout, out_dtype, out, options, operands)
    return run(call, [x, w], operands, out)


def conv2d_call(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                dilation: tuple[int, int], groups: int,
                layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any],
                operands: dict[str, Any]) -> Call:
    """What conv2d_now runs for tensors such as these: made once, kept in the cache."""
    key = ("conv2d", key_of(epilogue), stride, padding, dilation, groups, layout, out_dtype, tuple(options.items()),
           signature_of((x, w), operands, out))
    return call_of(key, lambda: prepare_conv2d(x, w, epilogue, stride, padding, dilation, groups, layout, out_dtype,
                                               out, options, operands))


_SECOND = "the second filter"  # no name of an operand


def prepare_conv2d(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                   dilation: tuple[int, int], groups: int,
                   layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any],
                   operands: dict[str, Any], w1: Any = None) -> Call:
    """w1: the second filter of a dual convolution, which lies as w does."""
    moves = stride, padding, dilation
    options, strict = without_strict(options)
    tensors = operands if w1 is None else {_SECOND: w1, **operands}  # in the order in which they are passed
    given = [x, w, *filter(is_torch, tensors.values())]
    orders = [""] * (2 + sum(is_torch(v) or isinstance(v, np.ndarray) for v in tensors.values()))
    if is_torch(x) and x.is_cuda and x.dim() == 4:
        x, w, tensors, orders = dense_in_one_order(x, w, tensors, layout)
    operands = {name: v for name, v in tensors.items() if name != _SECOND}
    given_x, given_w = view("x", x), view("w", w)
    for name, one in (("x", given_x), ("w", given_w)):
        if len(one.shape) != 4:
            raise UserError(f"conv2d: {name} has shape {one.shape}; expected 4 extents, "
                            + ("(N,C,H,W)" if name == "x" else "(K,C/groups,R,S)"))
    first = layout != "nhwc"
    x_view, w_view, last = image_views(given_x, given_w, layout) if first else (given_x, given_w, True)
    filters = w_view if w1 is None else (w_view, _second_filter(given_w, view("w1", tensors[_SECOND]), first and last))
    n, h, wide, c = x_view.shape if last else (x_view.shape[0], *x_view.shape[2:], x_view.shape[1])
    k, r, s, depth = w_view.shape if last else (w_view.shape[0], *w_view.shape[2:], w_view.shape[1])
    if depth * groups != c:
        raise UserError(f"conv2d: x has {c} channels, w {depth} input channels, and groups={groups}; expected as many "
                        f"channels of x as w's times groups, {depth * groups}")
    contraction = Conv2d(n=n, h=h, w=wide, c=c, k=k, r=r, s=s, stride=moves[0], pad=moves[1], dilation=moves[2],
                         groups=groups, layout=Layout.nhwc if last else Layout.nchw,
                         dtype_x=given_x.dtype, dtype_w=given_w.dtype, products=1 if w1 is None else 2)
    shape = contraction.shape_mn
    rows, cols = (tuple(shape[1:3]), shape[3]) if last else (tuple(shape[2:]), shape[1])
    space = Space(n, rows, cols, first, last)
    if first:
        x, x_view, orders = read_in_place(x, x_view, orders, contraction, epilogue, operands, space, out_dtype, options)
    note_orders("conv2d", given, orders, last, strict)
    identity = ("conv2d", first, last, x_view.shape, w_view.shape, moves, groups, w1 is None)
    return prepare(
        contraction, identity, x_view, filters, x, epilogue, operands, space, out_dtype, out, options, orders
    )


def _second_filter(w: View, w1: View, is_turned: bool) -> View:
    """As the kernel takes it. Raises UserError unless it lies as w does."""
    if (w1.shape, w1.strides, w1.dtype, w1.device, w1.index) != (w.shape, w.strides, w.dtype, w.device, w.index):
        described = " and ".join(
            f"{name} is {one.shape} of {one.dtype.name} on {one.device.name} {one.index} with strides {one.strides}"
            for name, one in (("w", w), ("w1", w1))
        )
        raise UserError(f"dual convolution: {described}; expected the same shape, dtype, device and strides")
    return w1.permuted((0, 2, 3, 1)) if is_turned else w1


def is_slice(x: Any) -> bool:
    """Whether an image of a GPU, (N,C,H,W), is channels of a wider one in channels last that kernels may read as it
    lies: pixels of 16-bit values a multiple of 16 bytes apart."""
    if not is_torch(x) or not x.is_cuda or x.dim() != 4 or x.element_size() != 2 or x.data_ptr() % ALIGNMENT != 0:
        return False
    (n, c, h, w), (image, channel, row, pixel) = x.shape, x.stride()
    are_apart = c > 1 and h * w > 1 and channel == 1 and pixel > c and pixel * x.element_size() % ALIGNMENT == 0
    return bool(are_apart and (h == 1 or row == w * pixel) and (n == 1 or image == h * w * pixel))


def read_in_place(x: Any, x_view: View, orders: list[str], contraction: Any, epilogue: Any, operands: dict[str, Any],
                  space: Space, out_dtype: DType | None, options: dict[str, Any]) -> tuple[Any, View, list[str]]:
    """An image that is_slice: as it is if its kernel takes it, else a dense copy, which calls make as well."""
    if not is_slice(x) or takes_slices(contraction, x_view, epilogue, operands, space, out_dtype, options):
        return x, x_view, orders
    import torch
    x = x.contiguous(memory_format=torch.channels_last)
    return x, view("x", x).permuted((0, 2, 3, 1)), ["channels_last", *orders[1:]]


def note_orders(what: str, tensors: list[Any], orders: list[str], last: bool, strict: bool) -> None:
    """Counts those of a convolution's tensors that its calls copy into these orders, as note_copies."""
    why = f"its kernel reads images, filters and operands channels {'last' if last else 'first'}"
    note_copies(what, tensors, [i for i, order in enumerate(orders) if order], why, strict)


def dense_in_one_order(x: Any, w: Any, operands: dict[str, Any],
                       layout: str = "nchw") -> tuple[Any, Any, dict[str, Any], list[str]]:
    """What lies otherwise than x is copied, as a GPU's kernels ask for, but for an image that is_slice. The last
    result: of each tensor, the order into which calls copy it, or ''."""
    import torch
    if not is_torch(w) or w.dim() != 4:
        return x, w, operands, [""] * (2 + len(operands))  # what follows says so
    last = image_views(view("x", x), view("w", w), layout)[2]
    orders: list[str] = []

    def arranged(tensor: Any) -> Any:
        name = "channels_last" if last and tensor.dim() == 4 else "contiguous"
        order = torch.channels_last if name == "channels_last" else torch.contiguous_format
        made = ordered(tensor, name)
        orders.append("" if made is tensor else name)
        return made

    if layout not in ("nhwc", CONTIGUOUS) and is_slice(x):
        orders.append("")
    else:
        x = arranged(x)
    w = arranged(w)
    return x, w, {n: arranged(v) if is_torch(v) else v for n, v in operands.items()}, orders


def _matrix(name: str, x: Any) -> View:
    given = view(name, x)
    if len(given.shape) not in (2, 3):
        raise UserError(f"gemm: {name} has shape {given.shape}; expected a matrix, or (batch, rows, columns)")
    return given


def oriented(x: View) -> tuple[View, bool]:
    """The matrix as it lies in memory, and whether it is turned: a transpose is not copied."""
    rows, cols = x.strides[-2:]
    order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    turned = rows == 1 and cols != 1 and x.shape[-1] > 1
    return (x.permuted(order) if turned else x), turned


def gemm(a: Any, b: Any, epilogue: Any = "acc", *, out_dtype: Any = None, out: Any = None,
         options: dict[str, Any] | None = None, **operands: Any) -> Any:
    """Computes a matrix product, or a batch of them, and its epilogue in one kernel.

    a: (m,k) or (batch,m,k). b: (k,n) or (batch,k,n). dtypes: f32, f16, bf16. Transposed views, such as the `weight.T`
    of a linear layer, are not copied. Returns (m,n) or (batch,m,n).

    Operands: [n] is (n,), [b] is (batch,1,1), [m,n] has the shape of the result, and [m] is (m,1), or (m,) if the text
    or an annotation states its axes. All other arguments and errors: see `conv2d`.
    """
    a, b = autocast(a, b)
    if needs_operator(a, b, operands):
        check_operator_call("gemm", out, options)
        from .pytorch.operators import call_gemm
        return call_gemm(a, b, epilogue, torch_dtype_of(out_dtype), operands)
    check_outputs(out)
    if out is None and not options and is_torch(a) and (fused := by_operator(b, epilogue, operands)):
        return fused[0].gemm(a, b, *fused[1:], torch_dtype_of(out_dtype))
    return gemm_now(a, b, epilogue, dtype_of(out_dtype), out, checked(options), operands)


def gemm_now(a: Any, b: Any, epilogue: Any, out_dtype: DType | None, out: Any, options: dict[str, Any],
             operands: dict[str, Any]) -> Any:
    """gemm without gradients."""
    operands = {n: v for n, v in operands.items() if v is not None}
    return run(gemm_call(a, b, epilogue, out_dtype, out, options, operands), [a, b], operands, out)


def gemm_call(a: Any, b: Any, epilogue: Any, out_dtype: DType | None, out: Any, options: dict[str, Any],
              operands: dict[str, Any]) -> Call:
    """What gemm_now runs for tensors such as these: made once, kept in the cache."""
    key = ("gemm", key_of(epilogue), out_dtype, tuple(options.items()), signature_of((a, b), operands, out))
    return call_of(key, lambda: _prepare_gemm(a, b, epilogue, out_dtype, out, options, operands))


def _prepare_gemm(a: Any, b: Any, epilogue: Any, out_dtype: DType | None, out: Any, options: dict[str, Any],
                  operands: dict[str, Any]) -> Call:
    named = {n: v for n, v in operands.items() if is_torch(v) or isinstance(v, np.ndarray)}
    options, strict = without_strict(options)

    def bound(tensors: list[Any], orders: list[str]) -> Call:
        given = {**operands, **dict(zip(named, tensors[2:]))}
        return _bound_gemm(tensors[0], tensors[1], epilogue, out_dtype, out, options, given, orders)

    return arranged(bound, [a, b, *named.values()], 2, "gemm", strict)


def _bound_gemm(a: Any, b: Any, epilogue: Any, out_dtype: DType | None, out: Any, options: dict[str, Any],
                operands: dict[str, Any], orders: list[str]) -> Call:
    first, second = _matrix("a", a), _matrix("b", b)
    if len(first.shape) != len(second.shape):
        raise UserError(f"gemm: a has shape {first.shape}, b {second.shape}; expected both with a batch, or neither")
    batch = first.shape[0] if len(first.shape) == 3 else 1
    (m, k), (k_b, n) = first.shape[-2:], second.shape[-2:]
    if k != k_b or (len(second.shape) == 3 and second.shape[0] != batch):
        raise UserError(
            f"gemm: a has shape {first.shape}, b {second.shape}; expected (m,k) and (k,n) with the same k and batch"
        )
    (first, turned_a), (second, turned_b) = oriented(first), oriented(second)
    contraction = Gemm(batch=batch, m=m, n=n, k=k, transpose_a=turned_a, transpose_b=turned_b, dtype_a=first.dtype,
                       dtype_b=second.dtype)
    space = Space(batch, (m,), n, False, False, is_batched=len(first.shape) == 3)
    identity = ("gemm", space.is_batched, batch, m, n, k, turned_a, turned_b)
    return prepare(contraction, identity, first, second, a, epilogue, operands, space, out_dtype, out, options, orders)
