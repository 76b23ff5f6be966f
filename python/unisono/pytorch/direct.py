"""Operators that only regions call: dual products and transposed convolutions. Each compiles its kernel once for each form of its
arguments, and brings them anew with each call."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import torch
from torch import Tensor

from .. import _native
from .._native import ConvTranspose2d, Gemm, Layout, UserError
from ..operands import Space, operand_view, store_shape
from ..tensors import View, torch_dtype_of, view
from .library import is_last, options_of, split


@functools.lru_cache(512)
def graph_of(text: str) -> Any:
    return _native.parse(text)


@functools.lru_cache(4096)
def _compiled(text: str, contraction: Any, numbers: tuple, operands: tuple, device: Any, index: int, more: tuple) -> Any:
    """contraction(**numbers); operands: ((name, dtype), …); more: options of the kernel."""
    options = {"storage": dict(operands), "device": device, "device_index": index, **dict(more)}
    if device == _native.Device.cuda:
        options["device_scalars"] = [o.name for o in graph_of(text).operands if o.axes == ""]
    return _native.compile(contraction(**dict(numbers)), graph_of(text), **options)


def made(text: str, space: Space, device: torch.device) -> list[Tensor]:
    """New tensors for all stores, in their order."""
    found = []
    for s in graph_of(text).stores:
        last = s.axes == "mn" and space.channels_first and space.native_channels_last
        found.append(torch.empty(store_shape(s.name, s.axes, s.form, s.channels, space), dtype=torch_dtype_of(s.dtype), device=device,
                                 memory_format=torch.channels_last if last else torch.contiguous_format))
    return found


def call(text: str, contraction: Any, numbers: dict, first: View, second: Any, tensors: dict[str, Tensor], options: dict, space: Space,
         results: Sequence[Tensor]) -> None:
    """Runs the kernel; second: a View, or two of a dual product; options: of the kernel. On a GPU on PyTorch's current stream, without waiting."""
    axes, given = {o.name: o.axes for o in graph_of(text).operands}, {n: view(n, t) for n, t in tensors.items()}
    executable = _compiled(text, contraction, tuple(numbers.items()), tuple((n, v.dtype) for n, v in given.items()), first.device, first.index,
                           tuple(options.items()))
    bound = {n: operand_view(n, v, axes[n], space).native() for n, v in given.items()}
    outputs = {}
    for s, tensor in zip(graph_of(text).stores, results):
        there = view(s.name, tensor)
        outputs[s.name] = (space.to_native(there) if s.axes == "mn" else there).native()
    rights = tuple(v.native() for v in second) if isinstance(second, tuple) else second.native()
    if first.device == _native.Device.cpu:
        executable.run(first.native(), rights, bound, outputs=outputs)
        return
    with torch.cuda.device(first.index):
        executable.enqueue(first.native(), rights, bound, outputs=outputs, stream=torch.cuda.current_stream().cuda_stream)


def _turned(x: View) -> tuple[View, bool]:
    """The matrix as it lies in memory, and whether it is a transpose there."""
    is_turned = x.strides[0] == 1 and x.strides[1] != 1 and x.shape[1] > 1
    return (x.permuted((1, 0)) if is_turned else x), is_turned


def _dual_space(a: Tensor, b0: Tensor) -> Space:
    return Space(1, (a.shape[0],), b0.shape[1], False, False, False)


@torch.library.custom_op("unisono::dual_gemm", mutates_args=())
def dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], epilogue: str, names: str) -> list[Tensor]:
    """a: (m,k), b0 and b1: (k,n) that lie alike; the epilogue reads acc0 and acc1, and operands by `names` in their order."""
    if any(t.dim() != 2 for t in (a, b0, b1)) or b0.shape != b1.shape or a.shape[1] != b0.shape[0]:
        raise UserError(f"dual_gemm: a has shape {tuple(a.shape)}, b0 {tuple(b0.shape)}, b1 {tuple(b1.shape)}; expected (m,k) and twice (k,n)")
    if len({t.dtype for t in (a, b0, b1)}) > 1 or len({t.device for t in (a, b0, b1)}) > 1 or b0.stride() != b1.stride():
        raise UserError(f"dual_gemm: b0 is {b0.dtype} on {b0.device} with strides {b0.stride()}, b1 {b1.dtype} on {b1.device} with "
                        f"{b1.stride()}, a {a.dtype} on {a.device}; expected all alike")
    (left, turned_a), (right, turned_b), (right1, _) = map(_turned, (view("a", a), view("b0", b0), view("b1", b1)))
    numbers = {"m": a.shape[0], "n": b0.shape[1], "k": a.shape[1], "transpose_a": turned_a, "transpose_b": turned_b, "dtype_a": left.dtype,
               "dtype_b": left.dtype, "products": 2}
    results = made(epilogue, _dual_space(a, b0), a.device)
    call(epilogue, Gemm, numbers, left, (right, right1), split(names, [], operands), options_of(names), _dual_space(a, b0), results)
    return results


@dual_gemm.register_fake
def _(a, b0, b1, operands, epilogue, names):
    return made(epilogue, _dual_space(a, b0), a.device)


def transposed_space(x: Tensor, w: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], more: Sequence[int],
                     groups: int) -> Space:
    rows = tuple((x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w.shape[2 + i] - 1) + more[i] + 1 for i in (0, 1))
    return Space(x.shape[0], rows, w.shape[1] * groups, True, is_last(x, w))


def run_transposed(x: Tensor, w: Tensor, operands: Sequence[Tensor], epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int],
                   dilation: Sequence[int], more: Sequence[int], groups: int, results: Sequence[Tensor]) -> None:
    space = transposed_space(x, w, stride, padding, dilation, more, groups)
    order = torch.channels_last if space.native_channels_last else torch.contiguous_format
    x, w, given = x.contiguous(memory_format=order), w.contiguous(memory_format=order), split(names, [], operands)
    given = {n: t.contiguous(memory_format=order) if t.dim() == 4 else t.contiguous() for n, t in given.items()}
    first, second = view("x", x), view("w", w)
    if space.native_channels_last:
        first, second = first.permuted((0, 2, 3, 1)), second.permuted((0, 2, 3, 1))
    numbers = {"n": x.shape[0], "h": x.shape[2], "w": x.shape[3], "c": x.shape[1], "k": space.cols, "r": w.shape[2], "s": w.shape[3],
               "stride": tuple(stride), "pad": tuple(padding), "dilation": tuple(dilation), "groups": groups, "output_pad": tuple(more),
               "layout": Layout.nhwc if space.native_channels_last else Layout.nchw, "dtype_x": first.dtype, "dtype_w": second.dtype}
    call(epilogue, ConvTranspose2d, numbers, first, second, given, options_of(names), space, results)


@torch.library.custom_op("unisono::conv_transpose2d", mutates_args=())
def conv_transpose2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int],
                     dilation: Sequence[int], output_padding: Sequence[int], groups: int) -> list[Tensor]:
    """x: (N,C,H,W), w: (C,K/groups,R,S), as in PyTorch, with an epilogue; contiguous or channels last, as x lies."""
    space = transposed_space(x, w, stride, padding, dilation, output_padding, groups)
    results = made(epilogue, space, x.device)
    run_transposed(x, w, operands, epilogue, names, stride, padding, dilation, output_padding, groups, results)
    return results


@conv_transpose2d.register_fake
def _(x, w, operands, epilogue, names, stride, padding, dilation, output_padding, groups):
    return made(epilogue, transposed_space(x, w, stride, padding, dilation, output_padding, groups), x.device)
