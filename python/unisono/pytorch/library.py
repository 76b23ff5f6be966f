"""PyTorch's operators unisono::conv2d and unisono::gemm, and fused_conv2d and fused_gemm, which have no derivative.

Compiled graphs and calls without gradients use the latter: nothing of Python is on their way. Regions alone call
fused_conv_transpose2d, fused_dual_gemm and fused_dual_conv2d. The kernels are in C++ on libtorch's stable ABI
(`_operators.so`, one library for PyTorch 2.11 and later); where PyTorch lacks a function of it, the same operators have
kernels in Python, which cost more on the host. `layer()` and `python -m unisono doctor` say which it is.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
import re
from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from .. import _native, direct, functional
from .._native import DType, Graph, UserError
from ..epilogues import Epilogue
from ..operands import Space, store_shape
from ..tensors import torch_dtype_of, torch_dtypes
from .texts import graph_of, is_last, layout_of, options_of, registered, split, store_names

FIRST_VERSION = (2, 11)  # of libtorch's stable ABI that the library is built for
_MORE = "Tensor[] operands, float[] scalars, str epilogue, str names"
CONV2D = (
    f"(Tensor x, Tensor w, {_MORE}, int[] stride, int[] padding, int[] dilation, int groups, ScalarType? "
    "out_dtype) -> Tensor[]"
)
GEMM = f"(Tensor a, Tensor b, {_MORE}, ScalarType? out_dtype) -> Tensor[]"
CONV_TRANSPOSE2D = (
    f"(Tensor x, Tensor w, {_MORE}, int[] stride, int[] padding, int[] dilation, int[] output_padding, int groups, "
    "ScalarType? out_dtype) -> Tensor[]"
)
DUAL_GEMM = f"(Tensor a, Tensor b0, Tensor b1, {_MORE}, ScalarType? out_dtype) -> Tensor[]"
DUAL_CONV2D = (
    f"(Tensor x, Tensor w0, Tensor w1, {_MORE}, int[] stride, int[] padding, int[] dilation, int groups, "
    "ScalarType? out_dtype) -> Tensor[]"
)
CONV2D_OUT = (
    f"(Tensor x, Tensor w, {_MORE}, int[] stride, int[] padding, int[] dilation, int groups, Tensor(a!)[] out) -> ()"
)
# into: where a result goes into a slice, which store that is, and its first channel
PREPARE = f"(Tensor[] factors, {_MORE}, int[] moves, ScalarType? out_dtype, Tensor[] out, int[] into) -> str"

LIBRARY = torch.library.Library("unisono", "FRAGMENT")


def text_of_known(epilogue: Any) -> Optional[str]:
    """The text by which the operators know an epilogue, or None for a function that is not made by
    @unisono.epilogue."""
    if isinstance(epilogue, str):
        return None if epilogue.startswith("@") else epilogue
    if isinstance(epilogue, Graph):
        return str(epilogue)
    return epilogue.reference if isinstance(epilogue, Epilogue) and epilogue.number >= 0 else None


def conv_space(x: Tensor, w: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
               names: str = "") -> Space:
    if x.dim() != 4 or w.dim() != 4:
        raise UserError(
            f"conv2d: x has shape {tuple(x.shape)}, w {tuple(w.shape)}; expected (N,C,H,W) and (K,C/groups,R,S)"
        )
    rows = tuple((x.shape[2 + i] + 2 * padding[i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1
                 for i in (0, 1))
    return Space(x.shape[0], rows, w.shape[0], True, is_last(x, w, names))


def gemm_space(a: Tensor, b: Tensor) -> Space:
    if a.dim() != b.dim() or a.dim() not in (2, 3):
        raise UserError(
            f"gemm: a has shape {tuple(a.shape)}, b {tuple(b.shape)}; expected matrices, or batches of them"
        )
    return Space(a.shape[0] if a.dim() == 3 else 1, (a.shape[-2],), b.shape[-1], False, False, a.dim() == 3)


def out_dtype_of(like: Tensor, out: Optional[torch.dtype]) -> DType:
    found = torch_dtypes().get(out or like.dtype)
    if found is None:
        raise UserError(f"tensors of {out or like.dtype} are not supported; expected float32, float16 or bfloat16")
    return found


def _fake(like: Tensor, graph: Graph, space: Space) -> list[Tensor]:
    results = []
    for store in graph.stores:
        shape = store_shape(store.name, store.axes, store.form, space)
        last = store.axes == "mn" and space.channels_first and space.native_channels_last
        results.append(torch.empty(shape, dtype=torch_dtype_of(store.dtype), device=like.device,
                                   memory_format=torch.channels_last if last else torch.contiguous_format))
    return results


def _fake_conv2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
                 stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
                 out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    space = conv_space(x, w, stride, padding, dilation, names)
    return _fake(x, graph_of(epilogue, split(names, scalars, operands), out_dtype_of(x, out_dtype), space), space)


def _fake_gemm(a: Tensor, b: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
               out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    space = gemm_space(a, b)
    return _fake(a, graph_of(epilogue, split(names, scalars, operands), out_dtype_of(a, out_dtype), space), space)


def _two(numbers: Sequence[int]) -> tuple[int, int]:
    return numbers[0], numbers[1]


def _fake_conv_transpose2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str,
                           names: str,
                           stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                           output_padding: Sequence[int], groups: int,
                           out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    last = is_last(x, w, names)
    space = direct.transposed_space(x.shape, w.shape, stride, padding, dilation, output_padding, groups, last)
    return _fake(x, graph_of(epilogue, split(names, scalars, operands), out_dtype_of(x, out_dtype), space), space)


def _fake_dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
                    epilogue: str, names: str,
                    out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    space = direct.dual_space(a.shape, b0.shape)
    return _fake(a, graph_of(epilogue, split(names, scalars, operands), out_dtype_of(a, out_dtype), space), space)


def _fake_dual_conv2d(x: Tensor, w0: Tensor, w1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
                      epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                      groups: int, out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _fake_conv2d(x, w0, operands, scalars, epilogue, names, stride, padding, dilation, groups, out_dtype)


def _as_list(results: Any) -> list[Tensor]:
    return list(results.values()) if isinstance(results, dict) else [results]


def _conv2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
            stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
            out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    """The kernel in Python."""
    return _as_list(functional.conv2d_now(x, w, registered(epilogue), _two(stride), _two(padding), _two(dilation),
                                          groups,
                                          layout_of(names), out_dtype_of(x, out_dtype), None, options_of(names),
                                          split(names, scalars, operands)))


def given_outputs(epilogue: str, out: Sequence[Tensor]) -> Any:
    """Tensors of the caller in the order of the stores, as functional takes them."""
    if len(out) == 1:
        return out[0]
    names = store_names(epilogue)
    if len(names) != len(out):
        raise UserError(f"out= has {len(out)} tensors; expected {len(names)}, for the stores {', '.join(names)}")
    return dict(zip(names, out))


def slice_of(whole: Tensor, first: int, width: int) -> Tensor:
    """The channels first, first + 1, … of `whole` (N,C,H,W), as many as `width`: a view."""
    if whole.dim() != 4 or first < 0 or first + width > whole.shape[1]:
        raise UserError(
            f"`whole` has shape {tuple(whole.shape)}; expected (N,C,H,W) with the channels {first} to "
            f"{first + width - 1}"
        )
    return whole.narrow(1, first, width)


def _conv2d_out(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
                stride: Sequence[int],
                padding: Sequence[int], dilation: Sequence[int], groups: int, out: Sequence[Tensor]) -> None:
    """The results are written into `out`, in the order of the stores."""
    functional.conv2d_now(x, w, registered(epilogue), _two(stride), _two(padding), _two(dilation), groups, "nchw",
                          _dtype_of_outputs(out), given_outputs(epilogue, out), options_of(names),
                          split(names, scalars, operands))


def _dtype_of_outputs(out: Sequence[Tensor]) -> Optional[DType]:
    """What the epilogue says no dtype of is stored in that of the one tensor; of several, in that of the image."""
    return torch_dtypes()[out[0].dtype] if len(out) == 1 else None


def _gemm(a: Tensor, b: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
          out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(functional.gemm_now(a, b, registered(epilogue), out_dtype_of(a, out_dtype), None, options_of(names),
                                        split(names, scalars, operands)))


def _conv_transpose2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str,
                      names: str,
                      stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                      output_padding: Sequence[int], groups: int,
                      out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(direct.conv_transpose2d_now(x, w, registered(epilogue), _two(stride), _two(padding), _two(dilation),
                                                _two(output_padding),
                                                groups, out_dtype_of(x, out_dtype), None, options_of(names),
                                                split(names, scalars, operands), layout_of(names)))


def _dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str,
               names: str,
               out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(direct.dual_gemm_now(a, b0, b1, registered(epilogue), out_dtype_of(a, out_dtype), options_of(names),
                                         split(names, scalars, operands)))


def _dual_conv2d(x: Tensor, w0: Tensor, w1: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str,
                 names: str, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
                 out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(direct.dual_conv2d_now(x, w0, w1, registered(epilogue), _two(stride), _two(padding), _two(dilation),
                                           groups, out_dtype_of(x, out_dtype), options_of(names),
                                           split(names, scalars, operands), layout_of(names)))


def _prepare(factors: Sequence[Tensor], operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
             moves: Sequence[int], out_dtype: Optional[torch.dtype], outputs: Sequence[Tensor],
             into: Sequence[int]) -> str:
    """For the kernels in C++: the address of a prepared call that they take over, or an error's text. The numbers of
    factors and of moves say which contraction it is."""
    try:
        given, dtype = split(names, scalars, operands), torch_dtypes()[out_dtype] if out_dtype else None
        (first, second, *others), form, options, out = factors, registered(epilogue), options_of(names), None
        pairs = [(moves[i], moves[i + 1]) for i in range(0, len(moves) - 1, 2)]
        if into:
            place, channel = into
            width = second.shape[1] * moves[-1] if len(pairs) == 4 else second.shape[0]
            outputs = [slice_of(one, channel, width) if i == place else one for i, one in enumerate(outputs)]
        if outputs:
            out, dtype = given_outputs(epilogue, outputs), dtype if into else _dtype_of_outputs(outputs)
        if len(pairs) == 4:
            call = direct.conv_transpose2d_call(first, second, form, pairs[0], pairs[1], pairs[2], pairs[3], moves[-1],
                                                dtype, out, options, given, layout_of(names))
        elif pairs and others:
            call = direct.dual_conv2d_call(first, second, others[0], form, pairs[0], pairs[1], pairs[2], moves[-1],
                                           dtype, options, given, layout_of(names))
        elif pairs:
            stride, padding, dilation = pairs
            call = functional.conv2d_call(first, second, form, stride, padding, dilation, moves[-1], layout_of(names),
                                          dtype, out, options, given)
        elif others:
            call = direct.dual_gemm_call(first, second, others[0], form, dtype, options, given)
        else:
            call = functional.gemm_call(first, second, form, dtype, None, options, given)
        return str(call.native.share())
    except Exception as failure:  # what goes through PyTorch's C interface loses its type and its text
        return f"unisono.{type(failure).__name__}: {failure}"


def typed(error: RuntimeError) -> Exception:
    """The error that a kernel in C++ has thrown, in its own class."""
    found = re.match(r"unisono\.(\w+): ([\s\S]*)", str(error))
    kind = getattr(_native, found[1], None) if found else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, Exception) else error


def define(name: str, schema: str, kernel: Any, meta: Any) -> Any:
    """A new operator with its kernel in Python."""
    LIBRARY.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"unisono::{name}", meta, lib=LIBRARY)
    return getattr(torch.ops.unisono, name).default


for _name, _schema, _kernel, _meta in (("conv2d", CONV2D, _conv2d, _fake_conv2d), ("gemm", GEMM, _gemm, _fake_gemm)):
    define(_name, _schema, _kernel, _meta)
    define(f"fused_{_name}", _schema, _kernel, _meta)
define("fused_conv_transpose2d", CONV_TRANSPOSE2D, _conv_transpose2d, _fake_conv_transpose2d)
define("fused_dual_gemm", DUAL_GEMM, _dual_gemm, _fake_dual_gemm)
define("fused_dual_conv2d", DUAL_CONV2D, _dual_conv2d, _fake_dual_conv2d)
DUAL_CONVOLUTION = torch.ops.unisono.fused_dual_conv2d.default
CONVOLUTIONS = (torch.ops.unisono.fused_conv2d.default, torch.ops.unisono.fused_conv_transpose2d.default,
                DUAL_CONVOLUTION)
# what regions become
FUSED = (*CONVOLUTIONS, torch.ops.unisono.fused_gemm.default, torch.ops.unisono.fused_dual_gemm.default)
define("conv2d_out", CONV2D_OUT, _conv2d_out, lambda *_: None)
LIBRARY.define("prepare" + PREPARE)
LIBRARY.impl("prepare", _prepare, "CompositeExplicitAutograd")


@functools.cache
def layer() -> tuple[bool, str]:
    """Whether the operators' kernels are those in C++, and a sentence about it. Loads them."""
    path = pathlib.Path(_native.__file__).parent / "_operators.so"
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if os.environ.get("UNISONO_TORCH_OPERATORS") == "python":
        return False, "kernels in Python, as UNISONO_TORCH_OPERATORS=python asks"
    if version < FIRST_VERSION:
        return (
            False,
            f"kernels in Python: PyTorch {torch.__version__} is older than {'.'.join(map(str, FIRST_VERSION))}",
        )
    try:
        register = ctypes.CDLL(str(path)).unisono_register_operators
    except OSError as failure:
        return False, f"kernels in Python: {path} cannot be loaded: {failure}"
    register.restype = ctypes.c_char_p
    if (why := register()) is not None:
        return False, f"kernels in Python: those in C++ do not fit PyTorch {torch.__version__}: {why.decode()}"
    return True, f"kernels in C++ on libtorch's stable ABI (built for {'.'.join(map(str, FIRST_VERSION))} and later)"


def is_native() -> bool:
    """Whether the operators' kernels are those in C++."""
    return _is_native


_is_native = layer()[0]
_fused_conv2d, _fused_gemm = torch.ops.unisono.fused_conv2d.default, torch.ops.unisono.fused_gemm.default
_conv2d_out_op, _fused_dual = torch.ops.unisono.conv2d_out.default, torch.ops.unisono.fused_dual_gemm.default


def _named(results: list[Tensor], text: str) -> Any:
    return results[0] if len(results) == 1 else dict(zip(store_names(text), results))


def conv2d(x: Tensor, w: Tensor, tensors: list[Tensor], scalars: list[float], text: str, names: str,
           stride: Sequence[int],
           padding: Sequence[int], dilation: Sequence[int], groups: int, out_dtype: Optional[torch.dtype]) -> Any:
    """unisono.conv2d without gradients, by the operator."""
    try:
        results = _fused_conv2d(x, w, tensors, scalars, text, names, stride, padding, dilation, groups, out_dtype)
    except RuntimeError as error:
        raise typed(error) from None
    return _named(results, text)


def outputs_of(x: Tensor, out: Any, text: str) -> Optional[list[Tensor]]:
    """Given outputs in the order of the stores, where the operator may write them; None where functional says what is
    wrong, or does it itself."""
    outs = [out]
    if isinstance(out, dict):
        stores = [] if text.startswith("@") else store_names(text)
        if sorted(stores) != sorted(out):
            return None
        outs = [out[name] for name in stores]
    return outs if all(type(one) is Tensor and one.device == x.device for one in outs) else None


def conv2d_into(x: Tensor, w: Tensor, outs: list[Tensor], tensors: list[Tensor], scalars: list[float], text: str,
                names: str, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                groups: int) -> None:
    """unisono.conv2d_into, by the operator."""
    try:
        _conv2d_out_op(x, w, tensors, scalars, text, names, stride, padding, dilation, groups, outs)
    except RuntimeError as error:
        raise typed(error) from None
    for one in outs:  # what autograd has saved of them is no longer what it was
        if not one.is_inference():
            increment_version(one)


def gemm(a: Tensor, b: Tensor, tensors: list[Tensor], scalars: list[float], text: str, names: str,
         out_dtype: Optional[torch.dtype]) -> Any:
    """unisono.gemm without gradients, by the operator."""
    try:
        results = _fused_gemm(a, b, tensors, scalars, text, names, out_dtype)
    except RuntimeError as error:
        raise typed(error) from None
    return _named(results, text)


def dual_gemm(a: Tensor, b0: Tensor, b1: Tensor, tensors: list[Tensor], scalars: list[float], text: str, names: str,
              out_dtype: Optional[torch.dtype]) -> Any:
    """unisono.swiglu without gradients, by the operator."""
    try:
        results = _fused_dual(a, b0, b1, tensors, scalars, text, names, out_dtype)
    except RuntimeError as error:
        raise typed(error) from None
    return _named(results, text)
