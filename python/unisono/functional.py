"""conv2d and gemm with an epilogue, on NumPy arrays and PyTorch tensors: compiled once for each shape and dtype."""

from __future__ import annotations

import numbers
import operator
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _native, launches
from ._native import Conv2d, Device, DType, Gemm, Graph, Layout, UserError
from .epilogues import Epilogue, graph_of_text
from .operands import Space, axes_of_shape, operand_view, store_shape
from .tensors import View, empty, is_torch, is_torch_dtype, torch_dtypes, view

MOST_PLANS = 4096
OPTIONS = ("threads", "plan", "tuned", "accurate", "spare_sms", "watchdog")


@dataclass
class Plan:
    """A compiled kernel and how its outputs are made."""

    executable: Any
    graph: Graph
    stores: list  # [(name, caller's shape, dtype, whether it is an image)]
    axes: dict  # {operand: axes}
    space: Space
    launcher: launches.Launcher = field(default_factory=launches.Launcher)


_plans: OrderedDict = OrderedDict()
_lock = threading.Lock()
_counts = {"hits": 0, "misses": 0}


def cache_info() -> dict:
    """{'plans': kept now, 'hits': calls served by one, 'misses': compilations} of conv2d() and gemm() in this process."""
    with _lock:
        return {"plans": len(_plans), **_counts}


def cache_clear() -> None:
    """Forgets all compiled kernels. Those that a CUDA graph has captured must stay: call it when no such graph lives."""
    with _lock:
        _plans.clear()
        _counts.update(hits=0, misses=0)


def _graph(epilogue: Any, operands: dict[str, View | float], dtype: DType, space: Space) -> Graph:
    if isinstance(epilogue, Graph):
        return epilogue
    if isinstance(epilogue, str):
        return graph_of_text(epilogue, dtype)
    if not isinstance(epilogue, Epilogue):
        if callable(epilogue):
            epilogue = Epilogue(epilogue)
        else:
            raise UserError(f"epilogue is a {type(epilogue).__name__}; expected a text, a function or a unisono.Graph")
    axes = {}
    for p in epilogue.parameters:
        annotated = epilogue.axes(p.name)
        given = operands.get(p.name)
        if given is None and p.default is p.empty:
            raise UserError(f"epilogue {epilogue.__name__}() has a parameter '{p.name}', for which nothing is given; "
                            f"pass {p.name}=… to the call")
        if annotated is not None:
            axes[p.name] = annotated
        else:
            axes[p.name] = axes_of_shape(p.name, given.shape, space) if isinstance(given, View) else ""
    return epilogue.trace(axes, dtype)


def _key_of(epilogue: Any) -> Any:
    return str(epilogue) if isinstance(epilogue, Graph) else epilogue.function if isinstance(epilogue, Epilogue) else epilogue


def _compile(contraction: Any, graph: Graph, operands: dict, space: Space, place: View, options: dict) -> Plan:
    infos = {o.name: o for o in graph.operands}
    for name in operands:
        if name not in infos:
            raise UserError(f"the epilogue has no operand '{name}'; it has {', '.join(sorted(infos)) or 'none'}")
    storage, on_device = {}, []
    for name, info in infos.items():
        given = operands.get(name)
        if given is None and info.default_value is None:
            raise UserError(f"the epilogue reads operand {name}[{','.join(info.axes)}], for which nothing is given; "
                            f"pass {name}=… to the call")
        if isinstance(given, View):
            if info.storage is None and not info.is_head_filter:
                storage[name] = given.dtype
            if info.axes == "" and not info.is_head_filter:
                on_device.append(name)
    if place.device == Device.cuda:
        options = {**options, "device_scalars": on_device}
    executable = _native.compile(contraction, graph, device=place.device, device_index=place.index, storage=storage, **options)
    stores = [(s.name, store_shape(s.name, s.axes, s.form, s.channels, space), s.dtype, s.axes == "mn") for s in graph.stores]
    return Plan(executable, graph, stores, {n: None if i.is_head_filter or i.channels else i.axes for n, i in infos.items()}, space)


def _plan(key: tuple, make) -> Plan:
    with _lock:
        plan = _plans.get(key)
        if plan is not None:
            _plans.move_to_end(key)
            _counts["hits"] += 1
            return plan
    plan = make()
    with _lock:
        _counts["misses"] += 1
        plan = _plans.setdefault(key, plan)
        while len(_plans) > MOST_PLANS:
            launches.retire(_plans.popitem(last=False)[1])
    return plan


def _shape_key(view: View | float) -> Any:
    return (view.shape, view.strides, view.dtype.value) if isinstance(view, View) else None


def _run(contraction: Any, identity: tuple, a: View, b: View, like: Any, epilogue: Any, given: dict, space: Space, out_dtype: DType | None,
         out: Any, options: dict) -> Any:
    operands: dict[str, View | float] = {}
    for name, value in given.items():
        if value is None:
            continue
        operands[name] = float(value) if isinstance(value, numbers.Real) else view(name, value)
    for name, one in operands.items():
        if isinstance(one, View) and (one.device, one.index) != (a.device, a.index):
            raise UserError(f"operand '{name}' lies on {one.device.name} {one.index}, the first tensor on "
                            f"{a.device.name} {a.index}; expected all in one place")
    dtype = out_dtype or a.dtype
    key = (_key_of(epilogue), identity, a.dtype.value, b.dtype.value, a.strides, b.strides, dtype.value,
           a.device.value, a.index, tuple(sorted(options.items())),
           tuple((name, _shape_key(one)) for name, one in sorted(operands.items())))
    plan = _plan(key, lambda: _compile(contraction, _graph(epilogue, operands, dtype, space), operands, space, a, options))
    bound = {}
    for name, one in operands.items():
        axes = plan.axes[name]
        bound[name] = one if not isinstance(one, View) or axes is None else operand_view(name, one, axes, space)
    results = _outputs(plan, like, space, out)
    plan.launcher.run(plan.executable, a, b, bound, {n: _native_output(n, r, plan, space) for n, r in results.items()}, like)
    if out is not None:
        _count_writes(results)
    return next(iter(results.values())) if len(results) == 1 else results


def _count_writes(results: dict) -> None:
    """Tells autograd that these tensors were written: what it has saved of them is no longer what it was."""
    for tensor in results.values():
        if is_torch(tensor) and not tensor.is_inference():
            from torch.autograd.graph import increment_version
            increment_version(tensor)


def _outputs(plan: Plan, like: Any, space: Space, out: Any) -> dict:
    if out is None:
        last = space.channels_first and space.native_channels_last
        return {name: empty(like, shape, dtype, last and is_image) for name, shape, dtype, is_image in plan.stores}
    results = out if isinstance(out, dict) else {plan.stores[0][0]: out}
    names = ", ".join(s[0] for s in plan.stores)
    for name in results:
        if name not in [s[0] for s in plan.stores]:
            raise UserError(f"out= has a tensor '{name}', which the epilogue does not store; expected {names}")
    for name, shape, dtype, _ in plan.stores:
        if name not in results:
            raise UserError(f"out= has no tensor for the store '{name}'; expected {names}")
        given = view(name, results[name])
        if isinstance(results[name], np.ndarray) and not results[name].flags.writeable:
            raise UserError(f"out '{name}' is an array that is read-only; expected one that can be written")
        if given.shape != shape or given.dtype != dtype:
            raise UserError(f"out '{name}' has shape {given.shape} and dtype {given.dtype.name}; expected {shape} and {dtype.name}")
    return results


def _native_output(name: str, tensor: Any, plan: Plan, space: Space) -> View:
    is_image = next(s[3] for s in plan.stores if s[0] == name)
    given = view(name, tensor)
    return space.to_native(given) if is_image else given


def _pair(what: str, value: Any) -> tuple[int, int]:
    if isinstance(value, numbers.Integral):
        return operator.index(value), operator.index(value)
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, numbers.Integral) for v in value):
        return operator.index(value[0]), operator.index(value[1])
    raise UserError(f"{what}={value!r}: expected an int, or two: rows and columns")


def _is_channels_last(x: View) -> bool:
    n, c, h, w = x.shape
    return c > 1 and h * w > 1 and x.strides[1] == 1 and x.strides[3] >= c


def _image_views(x: View, w: View) -> tuple[View, View, bool]:
    """Image and filter in one order, and whether that is channels last. The image decides, if it can."""
    flat = x.shape[1] == 1 or x.shape[2] * x.shape[3] == 1
    last = _is_channels_last(w) if flat else _is_channels_last(x)
    return (x.permuted((0, 2, 3, 1)), w.permuted((0, 2, 3, 1)), True) if last else (x, w, False)


def conv2d(x: Any, w: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: str = "nchw", out_dtype: Any = None, out: Any = None, options: dict | None = None,
           **operands: Any) -> Any:
    """A 2-D convolution and everything after it, in one kernel.

    x: (N,C,H,W), w: (K,C/groups,R,S), as in PyTorch; contiguous or channels last in memory. layout="nhwc": (N,H,W,C) and
    (K,R,S,C/groups). f32, f16 or bf16. stride, padding, dilation in pixels: an int, or (rows, columns).

    epilogue: an expression over `acc`, or statements with stores (docs/text-form.md); a function made by
    `@unisono.epilogue`; a `Graph`. Its operands are passed by keyword: [n] as (K,), [b,n] as (N,K), [m,n] of the result's
    shape, scalars as numbers. Those that a keyword of this function hides (such as `stride`) must be renamed.

    Returns the output, in `out_dtype` (default: that of x) unless the epilogue says a dtype, as the kind of tensor that x
    is; {name: tensor} if there are several stores. out: tensors to write instead of new ones. options: of
    `unisono.compile`. A CUDA tensor runs on PyTorch's current stream, with workspace from PyTorch's allocator.

    Raises UserError for wrong input (a text's with a caret), Unsupported with reasons where no kernel serves.
    """
    if layout not in ("nchw", "nhwc"):
        raise UserError(f"conv2d: layout={layout!r}; expected 'nchw' or 'nhwc', the order of the extents")
    moves = _pair("stride", stride), _pair("padding", padding), _pair("dilation", dilation)
    if not isinstance(groups, numbers.Integral):
        raise UserError(f"conv2d: groups={groups!r}; expected an int")
    groups = operator.index(groups)
    x, w = _autocast(x, w)
    if _needs_operator(x, w, operands):
        _check_operator_call("conv2d", out, options, layout)
        from .pytorch.operators import call_conv2d
        return call_conv2d(x, w, epilogue, *moves, groups, _torch_dtype(out_dtype), operands)
    return conv2d_now(x, w, epilogue, *moves, groups, layout, _dtype(out_dtype), out, _checked(options), operands)


def conv2d_now(x, w, epilogue, stride, padding, dilation, groups, layout, out_dtype, out, options, operands):
    """conv2d without gradients; stride, padding and dilation are pairs."""
    moves = stride, padding, dilation
    if is_torch(x) and x.is_cuda and x.dim() == 4:
        x, w, operands = _dense_on_gpu(x, w, operands)
    given_x, given_w = view("x", x), view("w", w)
    for name, one in (("x", given_x), ("w", given_w)):
        if len(one.shape) != 4:
            raise UserError(f"conv2d: {name} has shape {one.shape}; expected 4 extents, "
                            + ("(N,C,H,W)" if name == "x" else "(K,C/groups,R,S)"))
    first = layout == "nchw"
    x_view, w_view, last = _image_views(given_x, given_w) if first else (given_x, given_w, True)
    n, h, wide, c = x_view.shape if last else (x_view.shape[0], *x_view.shape[2:], x_view.shape[1])
    k, r, s, depth = w_view.shape if last else (w_view.shape[0], *w_view.shape[2:], w_view.shape[1])
    if depth * groups != c:
        raise UserError(f"conv2d: w has {depth} input channels and groups={groups}, for {c} channels of x; expected "
                        f"{c}/{groups} of them")
    contraction = Conv2d(n=n, h=h, w=wide, c=c, k=k, r=r, s=s, stride=moves[0], pad=moves[1], dilation=moves[2],
                         groups=groups, layout=Layout.nhwc if last else Layout.nchw,
                         dtype_x=given_x.dtype, dtype_w=given_w.dtype)
    shape = contraction.shape_mn
    rows, cols = (tuple(shape[1:3]), shape[3]) if last else (tuple(shape[2:]), shape[1])
    space = Space(n, rows, cols, first, last)
    identity = ("conv2d", first, last, x_view.shape, w_view.shape, moves, groups)
    return _run(contraction, identity, x_view, w_view, x, epilogue, operands, space, out_dtype, out, options)


def _dense_on_gpu(x: Any, w: Any, operands: dict) -> tuple[Any, Any, dict]:
    """On a GPU all is dense and in one order, that of x: what lies otherwise is copied."""
    import torch
    if not is_torch(w) or w.dim() != 4:
        return x, w, operands  # what follows says so
    last = _image_views(view("x", x), view("w", w))[2]
    order = torch.channels_last if last else torch.contiguous_format
    arranged = {n: (v.contiguous(memory_format=order if v.dim() == 4 else torch.contiguous_format) if is_torch(v) else v)
                for n, v in operands.items()}
    return x.contiguous(memory_format=order), w.contiguous(memory_format=order), arranged


def _autocast(first: Any, second: Any) -> tuple[Any, Any]:
    """The tensors of a contraction as autocast would have them: it is of those operations that run in the short dtype."""
    if not is_torch(first) or not is_torch(second):
        return first, second
    import torch
    kind = first.device.type
    if not torch.is_autocast_enabled(kind):
        return first, second
    short = torch.get_autocast_dtype(kind)
    taken = (torch.float32, torch.float16, torch.bfloat16)
    return tuple(t.to(short) if t.dtype in taken else t for t in (first, second))


def _needs_operator(first: Any, second: Any, operands: dict) -> bool:
    """Whether PyTorch must see the call as an operator: gradients are asked for, or it traces."""
    if not is_torch(first):
        for name, one in (("the second tensor", second), *operands.items()):
            if is_torch(one) and one.requires_grad and sys.modules["torch"].is_grad_enabled():
                raise UserError(f"'{name}' requires a gradient, and the first tensor is a {type(first).__name__}; expected a "
                                "PyTorch tensor there, or detach() this one")
        return False
    import torch
    if torch.compiler.is_compiling():
        return True
    from torch.autograd import forward_ad
    if forward_ad._current_level >= 0 and any(is_torch(t) and forward_ad.unpack_dual(t).tangent is not None
                                              for t in (first, second, *operands.values())):
        raise UserError("an argument has a forward gradient (a tangent), and there is no forward-mode differentiation here; "
                        "differentiate backward, or detach() it")
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None or torch.jit.is_tracing():
        return True  # make_fx, vmap and the like, torch.jit.trace
    if type(first) is not torch.Tensor and type(first) is not torch.nn.Parameter:
        return True  # a subclass: fake and functional tensors, whose memory is not theirs
    return torch.is_grad_enabled() and any(is_torch(t) and t.requires_grad for t in (first, second, *operands.values()))


def _check_operator_call(what: str, out: Any, options: Any, layout: str = "nchw") -> None:
    if out is not None or options or layout != "nchw":
        raise UserError(f"{what}: out=, options= and layout= are not differentiated or traced; call it under torch.no_grad() "
                        "and outside of torch.compile, or leave them out")


def _checked(options: dict | None) -> dict:
    """Options of a call: those of `unisono.compile` that leave the kernel's meaning and its tensors alone."""
    for name in options or {}:
        if name not in OPTIONS:
            raise UserError(f"there is no option '{name}' of a call; there are {', '.join(OPTIONS)} (unisono.compile has others)")
        try:
            hash(options[name])
        except TypeError:
            raise UserError(f"option '{name}' is a {type(options[name]).__name__}; expected a number, a text or a bool") from None
    return options or {}


def _dtype(dtype: Any) -> DType | None:
    """out_dtype as the library has it. Raises UserError for what is no dtype."""
    if dtype is None or isinstance(dtype, DType):
        return dtype
    if is_torch_dtype(dtype) and dtype in torch_dtypes():
        return torch_dtypes()[dtype]
    raise UserError(f"out_dtype={dtype!r}; expected a unisono.DType or a dtype of PyTorch, such as torch.float16")


def _torch_dtype(dtype: Any) -> Any:
    """out_dtype as PyTorch has it. Raises UserError where it has none."""
    if dtype is None or is_torch_dtype(dtype) and dtype in torch_dtypes():
        return dtype
    found = next((t for t, d in torch_dtypes().items() if d == dtype), None)
    if found is None:
        raise UserError(f"out_dtype={dtype!r}; expected a unisono.DType that PyTorch has, or a dtype of PyTorch")
    return found


def _matrix(name: str, x: Any) -> View:
    given = view(name, x)
    if len(given.shape) not in (2, 3):
        raise UserError(f"gemm: {name} has shape {given.shape}; expected a matrix, or (batch, rows, columns)")
    return given


def _oriented(x: View) -> tuple[View, bool]:
    """The matrix as it lies in memory, and whether it is turned: a transpose is no copy."""
    rows, cols = x.strides[-2:]
    order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    turned = rows == 1 and cols != 1 and x.shape[-1] > 1
    return (x.permuted(order) if turned else x), turned


def gemm(a: Any, b: Any, epilogue: Any = "acc", *, out_dtype: Any = None, out: Any = None,
         options: dict | None = None, **operands: Any) -> Any:
    """A matrix product, or a batch of them, and everything after it, in one kernel.

    a: (m,k) or (batch,m,k), b: (k,n) or (batch,k,n); transposed views, such as a linear layer's `weight.T`, are taken as
    they lie. f32, f16 or bf16. The result is (m,n) or (batch,m,n). epilogue, operands, out_dtype, out, options, errors: as
    in `conv2d`; operands [n] are (n,), [m] (m,) if annotated or written so, or (m,1), [b] (batch,1,1), [m,n] of the
    result's shape.
    """
    a, b = _autocast(a, b)
    if _needs_operator(a, b, operands):
        _check_operator_call("gemm", out, options)
        from .pytorch.operators import call_gemm
        return call_gemm(a, b, epilogue, _torch_dtype(out_dtype), operands)
    return gemm_now(a, b, epilogue, _dtype(out_dtype), out, _checked(options), operands)


def gemm_now(a, b, epilogue, out_dtype, out, options, operands):
    """gemm without gradients."""
    first, second = _matrix("a", a), _matrix("b", b)
    if len(first.shape) != len(second.shape):
        raise UserError(f"gemm: a has shape {first.shape}, b {second.shape}; expected both with a batch, or neither")
    batch = first.shape[0] if len(first.shape) == 3 else 1
    (m, k), (k_b, n) = first.shape[-2:], second.shape[-2:]
    if k != k_b or (len(second.shape) == 3 and second.shape[0] != batch):
        raise UserError(f"gemm: a has shape {first.shape}, b {second.shape}; expected (m,k) and (k,n) of one k and batch")
    (first, turned_a), (second, turned_b) = _oriented(first), _oriented(second)
    contraction = Gemm(batch=batch, m=m, n=n, k=k, transpose_a=turned_a, transpose_b=turned_b, dtype_a=first.dtype,
                       dtype_b=second.dtype)
    space = Space(batch, (m,), n, False, False, is_batched=len(first.shape) == 3)
    identity = ("gemm", space.is_batched, batch, m, n, k, turned_a, turned_b)
    return _run(contraction, identity, first, second, a, epilogue, operands, space, out_dtype, out, options)
