"""Transposed and dual convolutions, which only regions of compiled graphs call, and dual products, prepared as the
calls of functional.py; conv2d_dgrad and swiglu, for users."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ._native import ConvTranspose2d, DType, Gemm, Layout, UserError
from .arguments import (autocast, by_operator, check_operator_call, check_outputs, checked, dtype_of,
                        needs_operator, pair, refuse_operator, torch_dtype_of)
from .arrange import arranged, without_strict
from .binding import key_of, prepare, run, signature_of
from .calls import Call, call_of
from .functional import dense_in_one_order, image_views, note_orders, oriented, prepare_conv2d, read_in_place
from .operands import Space
from .tensors import is_torch, view


def transposed_space(x: Sequence[int], w: Sequence[int], stride: Sequence[int], padding: Sequence[int],
                     dilation: Sequence[int],
                     output_padding: Sequence[int], groups: int, is_last: bool) -> Space:
    """x: (N,C,H,W) and w: (C,K/groups,R,S), shapes as in PyTorch."""
    if len(x) != 4 or len(w) != 4 or w[0] != x[1]:
        raise UserError(
            f"conv_transpose2d: x has shape {tuple(x)}, w {tuple(w)}; expected (N,C,H,W) and (C,K/groups,R,S)"
        )
    rows = tuple((x[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w[2 + i] - 1) + output_padding[i] + 1
                 for i in (0, 1))
    return Space(x[0], rows, w[1] * groups, True, is_last)


def conv_transpose2d_now(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                         dilation: tuple[int, int],
                         output_padding: tuple[int, int], groups: int, out_dtype: DType | None, out: Any,
                         options: dict[str, Any],
                         operands: dict[str, Any], layout: str = "nchw") -> Any:
    """x: (N,C,H,W), w: (C,K/groups,R,S), as in PyTorch; contiguous or channels last, as x lies, unless layout says it.
    All else as functional.conv2d_now."""
    call = conv_transpose2d_call(x, w, epilogue, stride, padding, dilation, output_padding, groups, out_dtype, out,
                                 options, operands, layout)
    return run(call, [x, w], operands, out)


def conv_transpose2d_call(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                          dilation: tuple[int, int],
                          output_padding: tuple[int, int], groups: int, out_dtype: DType | None, out: Any,
                          options: dict[str, Any],
                          operands: dict[str, Any], layout: str = "nchw") -> Call:
    """What conv_transpose2d_now runs for tensors such as these: made once, kept in the cache."""
    moves = stride, padding, dilation, output_padding
    kernels, strict = without_strict(options)

    def make() -> Call:
        space = transposed_space(x.shape, w.shape, *moves, groups, False)
        image, filters, given, orders = dense_in_one_order(x, w, operands, layout)
        x_view, w_view, last = image_views(view("x", image), view("w", filters), layout)
        space = Space(space.images, space.rows, space.cols, True, last)
        n, c, h, wide = image.shape
        contraction = ConvTranspose2d(n=n, h=h, w=wide, c=c, k=space.cols, r=w.shape[2], s=w.shape[3], stride=stride,
                                      pad=padding,
                                      dilation=dilation, groups=groups, output_pad=output_padding,
                                      layout=Layout.nhwc if last else Layout.nchw,
                                      dtype_x=x_view.dtype, dtype_w=w_view.dtype)
        image, x_view, orders = read_in_place(image, x_view, orders, contraction, epilogue, given, space, out_dtype,
                                              kernels)
        note_orders("conv_transpose2d", [x, w, *filter(is_torch, operands.values())], orders, last, strict)
        identity = ("conv_transpose2d", last, x_view.shape, w_view.shape, moves, groups)
        return prepare(contraction, identity, x_view, w_view, x, epilogue, given, space, out_dtype, out, kernels,
                       orders)

    key = ("conv_transpose2d", key_of(epilogue), moves, groups, layout, out_dtype, tuple(options.items()),
           signature_of((x, w), operands, out))
    return call_of(key, make)


def conv2d_dgrad(dy: Any, w: Any, size: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, out_dtype: Any = None, out: Any = None,
                 options: dict[str, Any] | None = None, **operands: Any) -> Any:
    """Computes the gradient of a convolution with respect to its image (dgrad), and an epilogue, in one kernel.

    dy: (N,K,P,Q), the gradient of the convolution's output. w: (K,C/groups,R,S), the convolution's filter, contiguous
    or channels last like dy. size: (H, W) of the convolution's image. stride, padding, dilation, groups: those of the
    convolution. `acc` is the gradient of the image, (N,C,H,W). All other arguments and errors: see `conv2d`.

    It has no derivative and is not an operator of PyTorch: outside torch.no_grad(), a tensor that requires a gradient
    raises UserError, and so does a call inside a traced function.
    """
    dy, w = autocast(dy, w)
    refuse_operator("conv2d_dgrad", dy, w, operands, ", whose backward passes have it")
    check_outputs(out)
    moves = pair("stride", stride), pair("padding", padding), pair("dilation", dilation)
    more = _left_of_image(view("dy", dy).shape, view("w", w).shape, pair("size", size), *moves)
    given = {n: v for n, v in operands.items() if v is not None}
    return conv_transpose2d_now(dy, w, epilogue, *moves, more, groups, dtype_of(out_dtype), out, checked(options),
                                given)


def _left_of_image(dy: Sequence[int], w: Sequence[int], size: tuple[int, int], stride: tuple[int, int],
                   padding: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """Pixels of an image that the last place of the filter leaves, rows and columns: the output padding."""
    if len(dy) != 4 or len(w) != 4 or dy[1] != w[0]:
        raise UserError(f"conv2d_dgrad: dy has shape {tuple(dy)}, w {tuple(w)}; expected (N,K,P,Q) and "
                        "(K,C/groups,R,S)")
    more = tuple(size[i] + 2 * padding[i] - dilation[i] * (w[2 + i] - 1) - 1 - (dy[2 + i] - 1) * stride[i]
                 for i in (0, 1))
    if not all(0 <= more[i] < stride[i] for i in (0, 1)):
        raise UserError(f"conv2d_dgrad: size={size} and dy of shape {tuple(dy)}; a convolution of an image of that "
                        "size has another output")
    return more[0], more[1]


def dual_conv2d_now(x: Any, w0: Any, w1: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                    dilation: tuple[int, int], groups: int, out_dtype: DType | None, options: dict[str, Any],
                    operands: dict[str, Any], layout: str = "nchw") -> Any:
    """w0 and w1: (K,C/groups,R,S) that lie alike; the epilogue reads acc0 and acc1. All else as
    functional.conv2d_now."""
    call = dual_conv2d_call(
        x, w0, w1, epilogue, stride, padding, dilation, groups, out_dtype, options, operands, layout
    )
    return run(call, [x, w0, w1], operands, None)


def dual_conv2d_call(x: Any, w0: Any, w1: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int],
                     dilation: tuple[int, int], groups: int, out_dtype: DType | None, options: dict[str, Any],
                     operands: dict[str, Any], layout: str = "nchw") -> Call:
    """What dual_conv2d_now runs for tensors such as these: made once, kept in the cache."""
    moves = stride, padding, dilation, groups
    key = ("dual_conv2d", key_of(epilogue), moves, layout, out_dtype, tuple(options.items()),
           signature_of((x, w0, w1), operands, None))
    return call_of(
        key,
        lambda: prepare_conv2d(
            x, w0, epilogue, stride, padding, dilation, groups, layout, out_dtype, None, options, operands, w1
        ),
    )


def dual_space(a: Sequence[int], b0: Sequence[int]) -> Space:
    """a: (m,k) and b0: (k,n), shapes."""
    return Space(1, (a[0],), b0[1], False, False, False)


def dual_gemm_now(a: Any, b0: Any, b1: Any, epilogue: Any, out_dtype: DType | None, options: dict[str, Any],
                  operands: dict[str, Any]) -> Any:
    """a: (m,k), b0 and b1: (k,n) that lie alike; the epilogue reads acc0 and acc1. All else as functional.gemm_now."""
    return run(dual_gemm_call(a, b0, b1, epilogue, out_dtype, options, operands), [a, b0, b1], operands, None)


def dual_gemm_call(a: Any, b0: Any, b1: Any, epilogue: Any, out_dtype: DType | None, options: dict[str, Any],
                   operands: dict[str, Any]) -> Call:
    """What dual_gemm_now runs for tensors such as these: made once, kept in the cache."""
    named = {n: v for n, v in operands.items() if is_torch(v) or isinstance(v, np.ndarray)}
    kernels, strict = without_strict(options)

    def bound(tensors: list[Any], orders: list[str]) -> Call:
        a, b0, b1 = tensors[:3]
        _check_dual(a, b0, b1)
        (left, turned_a), (right, turned_b), (right1, _) = map(oriented, (view("a", a), view("b0", b0), view("b1", b1)))
        (m, k), n = a.shape, b0.shape[1]
        contraction = Gemm(m=m, n=n, k=k, transpose_a=turned_a, transpose_b=turned_b, dtype_a=left.dtype,
                           dtype_b=right.dtype, products=2)
        return prepare(contraction, ("dual_gemm", m, n, k, turned_a, turned_b), left, (right, right1), a, epilogue,
                       {**operands, **dict(zip(named, tensors[3:]))}, dual_space(a.shape, b0.shape), out_dtype, None,
                       kernels, orders)

    def make() -> Call:
        return arranged(bound, [a, b0, b1, *named.values()], 3, "swiglu", strict)

    key = ("dual_gemm", key_of(epilogue), out_dtype, tuple(options.items()), signature_of((a, b0, b1), operands, None))
    return call_of(key, make)


def _check_dual(given_a: Any, given_b0: Any, given_b1: Any) -> None:
    a, b0, b1 = view("a", given_a), view("b0", given_b0), view("b1", given_b1)
    if any(len(t.shape) != 2 for t in (a, b0, b1)) or b0.shape != b1.shape or a.shape[1] != b0.shape[0]:
        raise UserError(
            f"dual_gemm: a has shape {a.shape}, b0 {b0.shape}, b1 {b1.shape}; expected (m,k) and twice (k,n)"
        )
    if len({(t.dtype, t.device, t.index) for t in (a, b0, b1)}) > 1 or b0.strides != b1.strides:
        described = (f"{n} is {t.dtype.name} on {t.device.name} {t.index} with strides {t.strides}"
                     for n, t in (("a", a), ("b0", b0), ("b1", b1)))
        raise UserError(
            f"dual_gemm: {', '.join(described)}; expected one dtype and device, and the same shape and "
            "strides of b0 and b1"
        )


def swiglu(a: Any, gate: Any, up: Any, epilogue: Any = "silu(acc0) * acc1", *, out_dtype: Any = None,
           options: dict[str, Any] | None = None, **operands: Any) -> Any:
    """Computes silu(a·gate) ⊙ (a·up), the gated linear unit SwiGLU (Shazeer 2020), in one kernel that reads `a` once.

    a: (m,k). gate, up: (k,n), with equal strides, such as the `weight.T` of two linear layers, or two halves or the
    alternating rows of one weight. dtypes: f32, f16, bf16. Returns (m,n).

    epilogue: any other function of `acc0` = a·gate and `acc1` = a·up, such as "gelu(acc0 + b[n]) * acc1". All other
    arguments, gradients and errors: see `gemm`.
    """
    a, gate = autocast(a, gate)
    a, up = autocast(a, up)
    if needs_operator(a, gate, {"up": up, **operands}):
        check_operator_call("swiglu", None, options)
        from .pytorch.gated import call_swiglu
        return call_swiglu(a, gate, up, epilogue, torch_dtype_of(out_dtype), operands)
    if not options and is_torch(a) and is_torch(up) and (fused := by_operator(gate, epilogue, operands)):
        return fused[0].dual_gemm(a, gate, up, *fused[1:], torch_dtype_of(out_dtype))
    given = {n: v for n, v in operands.items() if v is not None}
    return dual_gemm_now(a, gate, up, epilogue, dtype_of(out_dtype), checked(options), given)
