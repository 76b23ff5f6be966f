"""conv3d with an epilogue on NumPy arrays and PyTorch tensors, prepared as the calls of functional.py."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from ._native import Conv3d, DType, UserError
from .arguments import autocast, check_outputs, checked, dtype_of, refuse_operator
from .arrange import note_copies, without_strict
from .binding import key_of, prepare, run, signature_of
from .calls import Call, call_of, ordered
from .operands import Space
from .tensors import is_torch, view

Triple = tuple[int, int, int]


def conv3d(x: Any, w: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1, out_dtype: Any = None, out: Any = None, options: dict[str, Any] | None = None,
           **operands: Any) -> Any:
    """Computes a 3-D convolution and its epilogue in one kernel.

    x: (N,C,D,H,W). w: (K,C/groups,T,R,S). As in PyTorch, either may be contiguous or channels last. stride, dilation:
    an int or (planes, rows, columns). padding: the same, or (before, after) of each, such as ((2, 0), (1, 1), (1, 1))
    of a causal convolution, 'valid' or, with stride 1, 'same'. All other arguments and errors: see `conv2d`.

    It has no derivative and is not an operator of PyTorch: outside torch.no_grad(), a tensor that requires a gradient
    raises UserError, and so does a call inside a traced function.
    """
    x, w = autocast(x, w)
    refuse_operator("conv3d", x, w, operands)
    check_outputs(out)
    strides, dilations = _triple("stride", stride), _triple("dilation", dilation)
    if not isinstance(groups, numbers.Integral):
        raise UserError(f"conv3d: groups={groups!r}; expected an int")
    margins = _margins(padding, strides, dilations, w)
    moves = strides, *margins, dilations, operator.index(groups)
    given = {n: v for n, v in operands.items() if v is not None}
    kernels, out_type = checked(options), dtype_of(out_dtype)
    key = ("conv3d", key_of(epilogue), moves, out_type, tuple(kernels.items()), signature_of((x, w), given, out))
    call = call_of(key, lambda: _prepare(x, w, epilogue, moves, out_type, out, kernels, given))
    return run(call, [x, w], given, out)


def _triple(what: str, value: Any) -> Triple:
    if isinstance(value, numbers.Integral):
        return (operator.index(value),) * 3
    if isinstance(value, (tuple, list)) and len(value) == 3 and all(isinstance(v, numbers.Integral) for v in value):
        return operator.index(value[0]), operator.index(value[1]), operator.index(value[2])
    raise UserError(f"{what}={value!r}: expected an int, or three: planes, rows and columns")


def _margins(padding: Any, stride: Triple, dilation: Triple, w: Any) -> tuple[Triple, Triple]:
    """Zeros before the first and after the last plane, row and column."""
    word = padding if isinstance(padding, str) else ""
    if word == "valid":
        padding = 0
    elif word == "same" and stride == (1, 1, 1):
        shape = view("w", w).shape
        reach = [d * (taps - 1) for d, taps in zip(dilation, shape[2:])] if len(shape) == 5 else [0, 0, 0]
        padding = [(r // 2, r - r // 2) for r in reach]
    is_pairs = isinstance(padding, (tuple, list)) and len(padding) == 3 and all(
        isinstance(p, (tuple, list)) and len(p) == 2 for p in padding)
    if is_pairs:
        return _triple("padding", [p[0] for p in padding]), _triple("padding", [p[1] for p in padding])
    if isinstance(padding, str):
        raise UserError(f"conv3d: padding={padding!r} with stride={stride}; expected numbers, 'valid' or, with a "
                        "stride of 1, 'same'")
    both = _triple("padding", padding)
    return both, both


def _dense(x: Any, w: Any, operands: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], list[str]]:
    """Kernels of a GPU read channels last; what lies otherwise is copied. The last result: of each tensor, the order
    into which calls copy it, or ''."""
    orders: list[str] = []

    def arranged(tensor: Any) -> Any:
        order = "channels_last_3d" if tensor.dim() == 5 else "contiguous"
        made = ordered(tensor, order)
        orders.append("" if made is tensor else order)
        return made

    x, w = arranged(x), arranged(w)
    return x, w, {n: arranged(v) if is_torch(v) else v for n, v in operands.items()}, orders


def _prepare(x: Any, w: Any, epilogue: Any, moves: tuple[Any, ...], out_dtype: DType | None, out: Any,
             options: dict[str, Any], operands: dict[str, Any]) -> Call:
    options, strict = without_strict(options)
    given = [x, w, *(v for v in operands.values() if not isinstance(v, numbers.Real))]
    orders = [""] * len(given)
    if is_torch(x) and x.is_cuda and is_torch(w):
        x, w, operands, orders = _dense(x, w, operands)
    x_view, w_view = view("x", x), view("w", w)
    for name, one in (("x", x_view), ("w", w_view)):
        if len(one.shape) != 5:
            raise UserError(f"conv3d: {name} has shape {one.shape}; expected 5 extents, "
                            + ("(N,C,D,H,W)" if name == "x" else "(K,C/groups,T,R,S)"))
    stride, before, after, dilation, groups = moves
    (n, c, d, h, wide), (k, depth, t, r, s) = x_view.shape, w_view.shape
    if depth * groups != c:
        raise UserError(f"conv3d: x has {c} channels, w {depth} input channels, and groups={groups}; expected as many "
                        f"channels of x as w's times groups, {depth * groups}")
    contraction = Conv3d(n=n, d=d, h=h, w=wide, c=c, k=k, t=t, r=r, s=s, stride=stride, before=before, after=after,
                         dilation=dilation, groups=groups, dtype_x=x_view.dtype, dtype_w=w_view.dtype)
    note_copies("conv3d", given, [i for i, order in enumerate(orders) if order],
                "its kernel reads volumes, filters and operands channels last", strict)
    space = Space(n, tuple(contraction.shape_mn[1:4]), k, True, True)
    last = (0, 2, 3, 4, 1)
    identity = ("conv3d", x_view.shape, w_view.shape, moves)
    return prepare(contraction, identity, x_view.permuted(last), w_view.permuted(last), x, epilogue, operands, space,
                   out_dtype, out, options, orders)
