"""unisono::conv2d and unisono::gemm, operators of PyTorch's dispatcher, and their backward operators.

They are registered from Python (torch.library) over the extension; the epilogue is a text, or a reference to a
Python function of this process. Backward passes are PyTorch's own operators: the contraction and the epilogue are computed anew from the saved
inputs, and differentiated by autograd, within one operator that tracing does not open.
"""

from __future__ import annotations

import contextlib
import numbers
from typing import Any, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import functional
from .._native import DType, Graph, UserError, parse
from ..epilogues import REGISTERED, Epilogue, graph_of_text
from ..operands import Space, axes_of_shape, store_shape
from ..tensors import torch_dtypes
from .interpret import Interpreter

torch.utils._pytree.register_constant(Graph)  # to torch.compile: a graph does not change


@torch._dynamo.assume_constant_result
def one_line(text: str) -> str:
    """An epilogue's text without comments, its lines parted by semicolons: Inductor writes calls into comments of one line."""
    found, depth, inside = [], 0, True
    for c in text:
        inside = c != "#" and (inside or c == "\n")
        depth += (c in "([") - (c in ")]") if inside else 0
        if inside:
            found.append(c if c not in "\r\n" else " " if depth > 0 or c == "\r" else "; ")
    return "".join(found).strip("; ")


def text_of(epilogue: Any) -> str:
    """The epilogue as the operators take it."""
    if isinstance(epilogue, str):
        if epilogue.startswith("@"):
            raise UserError(f"the epilogue {epilogue!r} begins with '@'; expected an expression such as 'silu(acc + bias[n])'")
        return one_line(epilogue)
    if isinstance(epilogue, Graph):
        return _text_of_graph(epilogue)
    if not isinstance(epilogue, Epilogue) or epilogue.number < 0:
        raise UserError("where gradients or torch.compile need it, an epilogue is a text, a unisono.Graph, or a function made "
                        "by @unisono.epilogue")
    return epilogue.reference


@torch._dynamo.assume_constant_result
def _text_of_graph(graph: Graph) -> str:
    return one_line(str(graph))


def _epilogue(text: str) -> Any:
    if not text.startswith("@"):
        return text
    number = text[1:].partition(":")[0]
    if not number.isdigit() or int(number) >= len(REGISTERED) or REGISTERED[int(number)].reference != text:
        raise UserError(f"the epilogue {text!r} is no function of this process; expected a text, or one made by @unisono.epilogue")
    return REGISTERED[int(number)]


def _split(names: str, scalars: Sequence[float], operands: Sequence[Any]) -> dict:
    """{name: tensor or number}; a number's name ends in '='."""
    tensors, numbers, result = iter(operands), iter(scalars), {}
    for name in filter(None, names.split(",")):
        if name.endswith("="):
            result[name[:-1]] = next(numbers)
        else:
            result[name] = next(tensors)
    return result


def join(operands: dict) -> tuple[str, list[float], list[Tensor]]:
    """The reverse of _split."""
    given = {n: v for n, v in operands.items() if v is not None}
    for name, v in given.items():
        if not isinstance(v, numbers.Real):
            _check_tensor(name, v)
    names = ",".join(n + "=" if isinstance(v, numbers.Real) else n for n, v in given.items())
    return (names, [float(v) for v in given.values() if isinstance(v, numbers.Real)],
            [v for v in given.values() if not isinstance(v, numbers.Real)])


def _check_tensor(name: str, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise UserError(f"argument '{name}' is a {type(x).__name__}, beside a PyTorch tensor for which gradients or tracing are "
                        "asked; expected a PyTorch tensor: torch.from_numpy() makes one")


def _graph(text: str, operands: dict, dtype: DType, space: Space) -> Graph:
    epilogue = _epilogue(text)
    if isinstance(epilogue, str):
        return graph_of_text(epilogue, dtype)
    axes = {}
    for p in epilogue.parameters:
        annotated, given = epilogue.axes(p.name), operands.get(p.name)
        if annotated is None:
            annotated = axes_of_shape(p.name, tuple(given.shape), space) if isinstance(given, Tensor) else ""
        axes[p.name] = annotated
    return epilogue.trace(axes, dtype)


def _kind(dtype: DType) -> torch.dtype:
    return next(t for t, d in torch_dtypes().items() if d == dtype)


def _is_last(x: Tensor, w: Tensor) -> bool:
    """As functional decides."""
    _, c, h, wide = x.shape
    flat = c == 1 or h * wide == 1
    one, (_, c, h, wide) = (w, w.shape) if flat else (x, x.shape)
    return c > 1 and h * wide > 1 and one.stride(1) == 1 and one.stride(3) >= c


def _conv_space(x: Tensor, w: Tensor, stride, padding, dilation) -> Space:
    if x.dim() != 4 or w.dim() != 4:
        raise UserError(f"conv2d: x has shape {tuple(x.shape)}, w {tuple(w.shape)}; expected (N,C,H,W) and (K,C/groups,R,S)")
    rows = tuple((x.shape[2 + i] + 2 * padding[i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in (0, 1))
    return Space(x.shape[0], rows, w.shape[0], True, _is_last(x, w))


def _gemm_space(a: Tensor, b: Tensor) -> Space:
    if a.dim() != b.dim() or a.dim() not in (2, 3):
        raise UserError(f"gemm: a has shape {tuple(a.shape)}, b {tuple(b.shape)}; expected matrices, or batches of them")
    return Space(a.shape[0] if a.dim() == 3 else 1, (a.shape[-2],), b.shape[-1], False, False, a.dim() == 3)


def _fake(like: Tensor, graph: Graph, space: Space) -> list[Tensor]:
    results = []
    for store in graph.stores:
        shape = store_shape(store.name, store.axes, store.form, store.channels, space)
        last = store.axes == "mn" and space.channels_first and space.native_channels_last
        results.append(torch.empty(shape, dtype=_kind(store.dtype), device=like.device,
                                   memory_format=torch.channels_last if last else torch.contiguous_format))
    return results


def _out_dtype(like: Tensor, out: Optional[torch.dtype]) -> DType:
    return torch_dtypes()[out or like.dtype]


def _as_list(results: Any) -> list[Tensor]:
    return list(results.values()) if isinstance(results, dict) else [results]


@torch.library.custom_op("unisono::conv2d", mutates_args=())
def conv2d(x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
           stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int,
           out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(functional.conv2d_now(x, w, _epilogue(epilogue), tuple(stride), tuple(padding), tuple(dilation), groups,
                                          "nchw", _out_dtype(x, out_dtype), None, {}, _split(names, scalars, operands)))


@torch.library.custom_op("unisono::gemm", mutates_args=())
def gemm(a: Tensor, b: Tensor, operands: Sequence[Tensor], scalars: Sequence[float], epilogue: str, names: str,
         out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _as_list(functional.gemm_now(a, b, _epilogue(epilogue), _out_dtype(a, out_dtype), None, {},
                                        _split(names, scalars, operands)))


@conv2d.register_fake
def _(x, w, operands, scalars, epilogue, names, stride, padding, dilation, groups, out_dtype):
    space = _conv_space(x, w, stride, padding, dilation)
    return _fake(x, _graph(epilogue, _split(names, scalars, operands), _out_dtype(x, out_dtype), space), space)


@gemm.register_fake
def _(a, b, operands, scalars, epilogue, names, out_dtype):
    space = _gemm_space(a, b)
    return _fake(a, _graph(epilogue, _split(names, scalars, operands), _out_dtype(a, out_dtype), space), space)


def _canonical(x: Tensor, space: Space) -> Tensor:
    """A tensor in the caller's order with the rank of values [m,n], as (images, rows, columns)."""
    if space.channels_first:
        x = x.permute(0, 2, 3, 1)
    elif not space.is_batched:
        x = x.unsqueeze(0)
    return x.reshape(x.shape[0], -1, x.shape[-1])


def _operand(x: Tensor, axes: str, space: Space) -> Tensor:
    if axes == "mn":
        return _canonical(x, space)
    shape = {"": (1, 1, 1), "n": (1, 1, -1), "b": (-1, 1, 1), "bn": (space.images, 1, -1), "m": (space.images, -1, 1)}[axes]
    return x.reshape(shape)


def _stored(value: Tensor, store: Any, space: Space, like: Tensor) -> Tensor:
    """A value as its store writes it, by differentiable operations."""
    row, has_groups, count = store.axes.partition("g")
    if store.form or "m" not in row and "b" not in row and row not in ("n", ""):
        raise UserError(f"the backward pass of store '{store.name}' ({store.form}) is not there; detach it")
    images, rows, cols = space.images, space.row_count // space.images, space.cols
    value = value.expand(images if "b" in row or "m" in row else 1, rows if "m" in row else 1,
                         cols if "n" in row or has_groups else 1)
    if has_groups:
        value = value[..., :: cols // int(count)]
    if store.axes == "mn" and space.channels_first:
        value = value.reshape(images, *space.rows, cols).permute(0, 3, 1, 2)
    return value.reshape(like.shape).to(like.dtype)


@contextlib.contextmanager
def _autograd_within_an_operator(device: str):
    """Lets autograd record: kernels of operators run behind its dispatch keys. Autocast stays out."""
    keys, excluded = torch._C.DispatchKey, torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradCPU, keys.AutogradCUDA, keys.AutogradOther, keys.ADInplaceOrView):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad(), \
            torch.autocast(device, enabled=False):
        yield


def _gradients(grads: Sequence[Tensor], inputs: list[Tensor], acc_of: Any, epilogue: str, names: str, scalars, out: DType,
               space: Space) -> list[Tensor]:
    """Gradients of all inputs: zeros for those that are no floating-point numbers. f32 at least."""
    with _autograd_within_an_operator(inputs[0].device.type):
        leaves = [i.detach().requires_grad_(i.is_floating_point()) for i in inputs]
        given = _split(names, scalars, leaves[2:])
        graph = _graph(epilogue, given, out, space)
        wide = torch.float64 if inputs[0].dtype == torch.float64 else torch.float32
        acc = _canonical(acc_of(leaves[0].to(wide), leaves[1].to(wide)), space)
        values = {}
        for info in graph.operands:
            value = given.get(info.name, info.default_value)
            if isinstance(value, Tensor):
                value = _operand(value.to(wide) if value.is_floating_point() else value, info.axes, space)
            else:
                value = torch.full((1, 1, 1), value, dtype=wide, device=acc.device)
            values[info.name] = value
        stored = Interpreter(graph, acc, values).run()
        results = [_stored(v, s, space, g) for v, s, g in zip(stored, graph.stores, grads)]
        floats = [leaf for leaf in leaves if leaf.requires_grad]
        pairs = [(r, g) for r, g in zip(results, grads) if r.requires_grad]
        found = iter(torch.autograd.grad([r for r, _ in pairs], floats, [g for _, g in pairs], allow_unused=True))
    return [torch.zeros(i.shape, dtype=i.dtype, device=i.device) if not leaf.requires_grad or (g := next(found)) is None else g.clone(memory_format=torch.contiguous_format)
            for i, leaf in zip(inputs, leaves)]


@torch.library.custom_op("unisono::conv2d_backward", mutates_args=())
def conv2d_backward(grads: Sequence[Tensor], x: Tensor, w: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
                    epilogue: str, names: str, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                    groups: int, out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    space = _conv_space(x, w, stride, padding, dilation)
    return _gradients(grads, [x, w, *operands], lambda a, b: F.conv2d(a, b, None, stride, padding, dilation, groups), epilogue,
                      names, scalars, _out_dtype(x, out_dtype), space)


@torch.library.custom_op("unisono::gemm_backward", mutates_args=())
def gemm_backward(grads: Sequence[Tensor], a: Tensor, b: Tensor, operands: Sequence[Tensor], scalars: Sequence[float],
                  epilogue: str, names: str, out_dtype: Optional[torch.dtype]) -> list[Tensor]:
    return _gradients(grads, [a, b, *operands], torch.matmul, epilogue, names, scalars, _out_dtype(a, out_dtype),
                      _gemm_space(a, b))


@conv2d_backward.register_fake
def _(grads, x, w, operands, scalars, *rest, **more):
    return [torch.empty(i.shape, dtype=i.dtype, device=i.device) for i in (x, w, *operands)]


@gemm_backward.register_fake
def _(grads, a, b, operands, scalars, *rest, **more):
    return [torch.empty(i.shape, dtype=i.dtype, device=i.device) for i in (a, b, *operands)]


def _save(ctx: Any, inputs: tuple, output: Any) -> None:
    first, second, operands, ctx.scalars, *ctx.rest = inputs
    ctx.save_for_backward(first, second, *operands)
    ctx.likes = [(o.shape, o.dtype, o.device) for o in output]


def _backward(operator: Any) -> Any:
    def formula(ctx: Any, grads: Sequence[Optional[Tensor]]) -> tuple:
        first, second, *operands = ctx.saved_tensors
        full = [torch.zeros(s, dtype=t, device=d) if g is None else g for g, (s, t, d) in zip(grads, ctx.likes)]
        found = operator(full, first, second, operands, ctx.scalars, *ctx.rest)
        # an empty list of numbers looks to PyTorch like one of tensors
        return (found[0], found[1], found[2:], None if ctx.scalars else [], *[None] * len(ctx.rest))
    return formula


conv2d.register_autograd(_backward(conv2d_backward), setup_context=_save)
gemm.register_autograd(_backward(gemm_backward), setup_context=_save)


def call_conv2d(x, w, epilogue, stride, padding, dilation, groups, out_dtype, operands):
    """What unisono.conv2d returns, by the operator: gradients and torch.compile see it."""
    names, scalars, tensors = join(operands)
    _check_tensor("w", w)
    text = text_of(epilogue)
    results = conv2d(x, w, tensors, scalars, text, names, list(stride), list(padding), list(dilation), groups, out_dtype)
    return _named(results, text, _out_dtype(x, out_dtype))


def call_gemm(a, b, epilogue, out_dtype, operands):
    names, scalars, tensors = join(operands)
    _check_tensor("b", b)
    text = text_of(epilogue)
    return _named(gemm(a, b, tensors, scalars, text, names, out_dtype), text, _out_dtype(a, out_dtype))


def _named(results: list[Tensor], text: str, dtype: DType) -> Any:
    return results[0] if len(results) == 1 else dict(zip(_store_names(text), results))


@torch._dynamo.assume_constant_result
def _store_names(text: str) -> list[str]:
    epilogue = _epilogue(text)
    if not isinstance(epilogue, str):
        raise UserError("under torch.compile and with gradients, a function has one result; write several as a text or graph")
    return [s.name for s in parse(epilogue).stores]
