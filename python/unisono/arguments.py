"""Arguments of conv2d() and gemm(), and who runs a call: PyTorch's operator, or the kernel at once."""

from __future__ import annotations

import numbers
import operator
import sys
from typing import Any

from ._native import DType, UserError
from .tensors import is_torch, is_torch_dtype, torch_dtypes

OPTIONS = ("threads", "plan", "tuned", "accurate", "spare_sms", "watchdog")


def pair(what: str, value: Any) -> tuple[int, int]:
    if type(value) is int:
        return value, value
    if isinstance(value, numbers.Integral):
        return operator.index(value), operator.index(value)
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, numbers.Integral) for v in value):
        return operator.index(value[0]), operator.index(value[1])
    raise UserError(f"{what}={value!r}: expected an int, or two: rows and columns")


def autocast(first: Any, second: Any) -> tuple[Any, Any]:
    """The tensors of a contraction as autocast would have them: it is of those operations that run in the short
    dtype."""
    if not is_torch(first) or not (torch := sys.modules["torch"])._C._is_any_autocast_enabled() or not is_torch(second):
        return first, second
    kind = first.device.type
    if not torch.is_autocast_enabled(kind):
        return first, second
    short = torch.get_autocast_dtype(kind)
    taken = (torch.float32, torch.float16, torch.bfloat16)
    return tuple(t.to(short) if t.dtype in taken else t for t in (first, second))


def needs_operator(first: Any, second: Any, operands: dict[str, Any]) -> bool:
    """Whether PyTorch must see the call as an operator: gradients are asked for, or it traces."""
    if not is_torch(first):
        for name, one in (("the second tensor", second), *operands.items()):
            if is_torch(one) and one.requires_grad and sys.modules["torch"].is_grad_enabled():
                raise UserError(
                    f"'{name}' requires a gradient, and the first tensor is a {type(first).__name__}; expected a "
                    "PyTorch tensor there, or detach() this one"
                )
        return False
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling():
        return True
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level >= 0 and any(is_torch(t) and forward_ad.unpack_dual(t).tangent is not None
                                              for t in (first, second, *operands.values())):
        raise UserError(
            "an argument has a forward-mode gradient (a tangent), and forward mode is not supported; use backward(), "
            "or detach() the argument"
        )
    native = torch._C
    if (
        native._len_torch_dispatch_stack()
        or native._functorch.peek_interpreter_stack() is not None
        or native._is_tracing()
    ):
        return True  # make_fx, vmap and the like, torch.jit.trace
    if type(first) is not torch.Tensor and type(first) is not torch.nn.Parameter:
        return True  # a subclass: fake and functional tensors, whose memory is not theirs
    return needs_gradient(first, second, operands)


def needs_gradient(first: Any, second: Any, operands: dict[str, Any]) -> bool:
    """Whether autograd would record the call."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(is_torch(t) and t.requires_grad for t in (first, second, *operands.values()))


def refuse_operator(what: str, first: Any, second: Any, operands: dict[str, Any], hint: str = "") -> None:
    """Raises UserError if PyTorch must see a call that is not one of its operators."""
    if needs_operator(first, second, operands):
        raise UserError(
            f"{what}: a tensor requires a gradient, or the call is traced, and it has no derivative and is not an "
            f"operator of PyTorch; call it under torch.no_grad() and outside of torch.compile{hint}"
        )


_library: Any = None


def _load_library() -> Any:
    """The operators, when the first tensor of PyTorch comes."""
    global _library
    from .pytorch import library
    _library = library
    return library


def by_operator(second: Any, epilogue: Any, operands: dict[str, Any]) -> tuple[Any, ...] | None:
    """(module, tensors, numbers, text, names) where the call may go to PyTorch's operators in C++, which cost less; or
    None."""
    library = _library or _load_library()
    text = library.text_of_known(epilogue)
    if not library.is_native() or text is None or not is_torch(second):
        return None
    names, tensors, scalars = [], [], []
    for name, value in operands.items():
        if is_torch(value):
            names.append(name)
            tensors.append(value)
        elif type(value) is float or isinstance(value, numbers.Real):
            names.append(name + "=")
            scalars.append(_number(name, value))
        elif value is not None:
            return None
    return library, tensors, scalars, text, ",".join(names)


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"scalar '{name}' is too large for a float") from None


def check_operator_call(what: str, out: Any, options: Any, layout: str = "nchw") -> None:
    if out is not None or options or layout != "nchw":
        raise UserError(
            f"{what}: out=, options= and layout= are not supported under autograd or tracing; call it under "
            "torch.no_grad() and outside of torch.compile, or leave them out"
        )


def check_outputs(out: Any) -> None:
    """Raises UserError for tensors to write of which autograd asks for gradients: it would not know of the write."""
    if out is None:
        return
    for name, one in out.items() if isinstance(out, dict) else (("out", out),):
        if is_torch(one) and one.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise UserError(
                f"'{name}' is to be written and requires a gradient, and nothing is differentiated through it; "
                "expected a tensor that requires none, or a call under torch.no_grad()"
            )


def checked(options: dict[str, Any] | None) -> dict[str, Any]:
    """Options of a call: those of `unisono.compile` that leave the kernel's meaning and its tensors alone."""
    options = options or {}
    for name in options:
        if name not in OPTIONS:
            raise UserError(
                f"unknown option '{name}'; a call takes {', '.join(OPTIONS)} (unisono.compile has others)"
            )
        try:
            hash(options[name])
        except TypeError:
            raise UserError(
                f"option '{name}' is a {type(options[name]).__name__}; expected a number, a text or a bool"
            ) from None
    return options


def dtype_of(dtype: Any) -> DType | None:
    """out_dtype as the library has it. Raises UserError for anything that is not a dtype."""
    if dtype is None or isinstance(dtype, DType):
        return dtype
    if is_torch_dtype(dtype) and dtype in torch_dtypes():
        return torch_dtypes()[dtype]
    raise UserError(f"out_dtype={dtype!r}; expected a unisono.DType or a dtype of PyTorch, such as torch.float16")


def torch_dtype_of(dtype: Any) -> Any:
    """out_dtype as PyTorch has it. Raises UserError for anything that is not a dtype, or that PyTorch does not have."""
    if dtype is None or is_torch_dtype(dtype) and dtype in torch_dtypes():
        return dtype
    known = dtype_of(dtype)
    found = next((t for t, d in torch_dtypes().items() if d == known), None)
    if found is None:
        raise UserError(f"out_dtype={dtype!r}; expected a unisono.DType that PyTorch has, or a dtype of PyTorch")
    return found
