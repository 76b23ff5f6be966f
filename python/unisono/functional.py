"""conv2d and gemm with an epilogue, on NumPy arrays and PyTorch tensors: compiled once for each shape and dtype."""

from __future__ import annotations

import numbers
import operator
import sys
from typing import Any

import numpy as np

from . import _native
from ._native import Conv2d, Device, DType, Gemm, Graph, Layout, UserError
from .calls import Call, Plan, call_of, plan_of, signature
from .epilogues import Epilogue, graph_of_text
from .operands import Space, axes_of_shape, operand_view, store_shape
from .tensors import View, empty, is_torch, is_torch_dtype, torch_dtypes, view

OPTIONS = ("threads", "plan", "tuned", "accurate", "spare_sms", "watchdog")


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
    traced: Graph = epilogue.trace(axes, dtype)
    return traced


def key_of(epilogue: Any) -> Any:
    return str(epilogue) if isinstance(epilogue, Graph) else epilogue.function if isinstance(epilogue, Epilogue) else epilogue


def _compile(contraction: Any, graph: Graph, operands: dict[str, Any], space: Space, place: View, options: dict[str, Any]) -> Plan:
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


def _shape_key(view: View | float) -> Any:
    return (view.shape, view.strides, view.dtype.value) if isinstance(view, View) else None


def _views(given: dict[str, Any], first: View) -> dict[str, View | float]:
    """Operands as the library sees them; all in the place of the first tensor."""
    operands: dict[str, View | float] = {}
    for name, value in given.items():
        operands[name] = float(value) if isinstance(value, numbers.Real) else view(name, value)
    for name, one in operands.items():
        if isinstance(one, View) and (one.device, one.index) != (first.device, first.index):
            raise UserError(f"operand '{name}' lies on {one.device.name} {one.index}, the first tensor on "
                            f"{first.device.name} {first.index}; expected all in one place")
    return operands


def prepare(contraction: Any, identity: tuple[Any, ...], a: View, b: View | tuple[View, View], like: Any, epilogue: Any,
            given: dict[str, Any], space: Space, out_dtype: DType | None, out: Any, options: dict[str, Any], orders: list[str]) -> Call:
    """Compiles, unless that was done for other operands' shapes, and binds everything but addresses. b: of a dual product both."""
    operands = _views(given, a)
    dtype, factors = out_dtype or a.dtype, (a, *b) if isinstance(b, tuple) else (a, b)
    key = (key_of(epilogue), identity, tuple((f.dtype.value, f.strides) for f in factors), dtype.value,
           a.device.value, a.index, tuple(sorted(options.items())),
           tuple((name, _shape_key(one)) for name, one in sorted(operands.items())))
    plan = plan_of(key, lambda: _compile(contraction, _graph(epilogue, operands, dtype, space), operands, space, a, options))
    bound: dict[str, Any] = {}
    for name, one in operands.items():
        axes = plan.axes[name]
        bound[name] = one if not isinstance(one, View) else (one if axes is None else operand_view(name, one, axes, space)).native()
    results = _outputs(plan, like, space, out)
    native, made = {}, []
    for name, shape, out_type, is_image in plan.stores:
        there = view(name, results[name])
        native[name] = (space.to_native(there) if is_image else there).native()
        made.append((name, shape, there.strides, out_type))
    rights = tuple(f.native() for f in factors[1:])
    prepared = plan.executable.prepare(a.native(), rights if len(rights) == 2 else rights[0], bound, native, orders, [m[1:] for m in made])
    return Call(prepared, orders, made, a.device, a.index)


def run(call: Call, tensors: list[Any], operands: dict[str, Any], out: Any) -> Any:
    """Runs a prepared call on these tensors."""
    scalars = []
    for one in operands.values():
        if isinstance(one, np.ndarray) or is_torch(one):
            tensors.append(one)
        else:
            scalars.append(float(one))
    if out is not None and not isinstance(out, dict):
        out = {call.results[0][0]: out}
    results = call.run(tensors, scalars, out)
    if out is not None:
        _count_writes(results)
    return next(iter(results.values())) if len(results) == 1 else results


def signature_of(factors: tuple[Any, ...], operands: dict[str, Any], out: Any) -> tuple[Any, ...]:
    """What a prepared call is told apart by, of all tensors."""
    outs = out.items() if isinstance(out, dict) else () if out is None else (("", out),)
    return (*map(signature, factors), tuple((n, signature(v)) for n, v in operands.items()), tuple((n, signature(v)) for n, v in outs))


def _count_writes(results: dict[str, Any]) -> None:
    """Tells autograd that these tensors were written: what it has saved of them is no longer what it was."""
    for tensor in results.values():
        if is_torch(tensor) and not tensor.is_inference():
            from torch.autograd.graph import increment_version
            increment_version(tensor)


def _outputs(plan: Plan, like: Any, space: Space, out: Any) -> dict[str, Any]:
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


def _pair(what: str, value: Any) -> tuple[int, int]:
    if type(value) is int:
        return value, value
    if isinstance(value, numbers.Integral):
        return operator.index(value), operator.index(value)
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(v, numbers.Integral) for v in value):
        return operator.index(value[0]), operator.index(value[1])
    raise UserError(f"{what}={value!r}: expected an int, or two: rows and columns")


def _is_channels_last(x: View) -> bool:
    n, c, h, w = x.shape
    return c > 1 and h * w > 1 and x.strides[1] == 1 and x.strides[3] >= c


def image_views(x: View, w: View) -> tuple[View, View, bool]:
    """Image and filter in one order, and whether that is channels last. The image decides, if it can."""
    flat = x.shape[1] == 1 or x.shape[2] * x.shape[3] == 1
    last = _is_channels_last(w) if flat else _is_channels_last(x)
    return (x.permuted((0, 2, 3, 1)), w.permuted((0, 2, 3, 1)), True) if last else (x, w, False)


def conv2d(x: Any, w: Any, epilogue: Any = "acc", *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: str = "nchw", out_dtype: Any = None, out: Any = None, options: dict[str, Any] | None = None,
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
    if type(groups) is not int and not isinstance(groups, numbers.Integral):
        raise UserError(f"conv2d: groups={groups!r}; expected an int")
    groups = operator.index(groups)
    x, w = _autocast(x, w)
    if _needs_operator(x, w, operands):
        _check_operator_call("conv2d", out, options, layout)
        from .pytorch.operators import call_conv2d
        return call_conv2d(x, w, epilogue, *moves, groups, _torch_dtype(out_dtype), operands)
    if out is None and not options and layout == "nchw" and is_torch(x) and (fused := _fused(w, epilogue, operands)):
        return fused[0].conv2d(x, w, *fused[1:], *moves, groups, _torch_dtype(_dtype(out_dtype)))
    return conv2d_now(x, w, epilogue, *moves, groups, layout, _dtype(out_dtype), out, _checked(options), operands)


def conv2d_now(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int], groups: int,
               layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any], operands: dict[str, Any]) -> Any:
    """conv2d without gradients; stride, padding and dilation are pairs."""
    operands = {n: v for n, v in operands.items() if v is not None}
    call = conv2d_call(x, w, epilogue, stride, padding, dilation, groups, layout, out_dtype, out, options, operands)
    return run(call, [x, w], operands, out)


def conv2d_call(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int], groups: int,
                layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any], operands: dict[str, Any]) -> Call:
    """What conv2d_now runs for tensors such as these: made once, kept in the cache."""
    key = ("conv2d", key_of(epilogue), stride, padding, dilation, groups, layout, out_dtype, tuple(options.items()),
           signature_of((x, w), operands, out))
    return call_of(key, lambda: _prepare_conv2d(x, w, epilogue, stride, padding, dilation, groups, layout, out_dtype, out, options, operands))


def _prepare_conv2d(x: Any, w: Any, epilogue: Any, stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int], groups: int,
                    layout: str, out_dtype: DType | None, out: Any, options: dict[str, Any], operands: dict[str, Any]) -> Call:
    moves = stride, padding, dilation
    orders = [""] * (2 + sum(is_torch(v) or isinstance(v, np.ndarray) for v in operands.values()))
    if is_torch(x) and x.is_cuda and x.dim() == 4:
        x, w, operands, orders = dense_in_one_order(x, w, operands)
    given_x, given_w = view("x", x), view("w", w)
    for name, one in (("x", given_x), ("w", given_w)):
        if len(one.shape) != 4:
            raise UserError(f"conv2d: {name} has shape {one.shape}; expected 4 extents, "
                            + ("(N,C,H,W)" if name == "x" else "(K,C/groups,R,S)"))
    first = layout == "nchw"
    x_view, w_view, last = image_views(given_x, given_w) if first else (given_x, given_w, True)
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
    return prepare(contraction, identity, x_view, w_view, x, epilogue, operands, space, out_dtype, out, options, orders)


def dense_in_one_order(x: Any, w: Any, operands: dict[str, Any]) -> tuple[Any, Any, dict[str, Any], list[str]]:
    """What lies otherwise than x is copied, as a GPU's kernels ask for. The last result: of each tensor, the order into which
    calls copy it, or ''."""
    import torch
    if not is_torch(w) or w.dim() != 4:
        return x, w, operands, [""] * (2 + len(operands))  # what follows says so
    last = image_views(view("x", x), view("w", w))[2]
    orders: list[str] = []

    def arranged(tensor: Any) -> Any:
        name = "channels_last" if last and tensor.dim() == 4 else "contiguous"
        order = torch.channels_last if name == "channels_last" else torch.contiguous_format
        orders.append("" if tensor.is_contiguous(memory_format=order) else name)
        return tensor.contiguous(memory_format=order)

    x, w = arranged(x), arranged(w)
    return x, w, {n: arranged(v) if is_torch(v) else v for n, v in operands.items()}, orders


def _autocast(first: Any, second: Any) -> tuple[Any, Any]:
    """The tensors of a contraction as autocast would have them: it is of those operations that run in the short dtype."""
    if not is_torch(first) or not is_torch(second):
        return first, second
    torch = sys.modules["torch"]
    if not torch._C._is_any_autocast_enabled():
        return first, second
    kind = first.device.type
    if not torch.is_autocast_enabled(kind):
        return first, second
    short = torch.get_autocast_dtype(kind)
    taken = (torch.float32, torch.float16, torch.bfloat16)
    return tuple(t.to(short) if t.dtype in taken else t for t in (first, second))


def _needs_operator(first: Any, second: Any, operands: dict[str, Any]) -> bool:
    """Whether PyTorch must see the call as an operator: gradients are asked for, or it traces."""
    if not is_torch(first):
        for name, one in (("the second tensor", second), *operands.items()):
            if is_torch(one) and one.requires_grad and sys.modules["torch"].is_grad_enabled():
                raise UserError(f"'{name}' requires a gradient, and the first tensor is a {type(first).__name__}; expected a "
                                "PyTorch tensor there, or detach() this one")
        return False
    torch = sys.modules["torch"]
    if torch.compiler.is_compiling():
        return True
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level >= 0 and any(is_torch(t) and forward_ad.unpack_dual(t).tangent is not None
                                              for t in (first, second, *operands.values())):
        raise UserError("an argument has a forward gradient (a tangent), and there is no forward-mode differentiation here; "
                        "differentiate backward, or detach() it")
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None or torch.jit.is_tracing():
        return True  # make_fx, vmap and the like, torch.jit.trace
    if type(first) is not torch.Tensor and type(first) is not torch.nn.Parameter:
        return True  # a subclass: fake and functional tensors, whose memory is not theirs
    return torch.is_grad_enabled() and any(is_torch(t) and t.requires_grad for t in (first, second, *operands.values()))


_library: Any = None


def _load_library() -> Any:
    """The operators, when the first tensor of PyTorch comes."""
    global _library
    from .pytorch import library
    _library = library
    return library


def _fused(second: Any, epilogue: Any, operands: dict[str, Any]) -> tuple[Any, ...] | None:
    """(module, tensors, numbers, text, names) where the call may go to PyTorch's operators in C++, which cost less; or None."""
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
            scalars.append(float(value))
        elif value is not None:
            return None
    return library, tensors, scalars, text, ",".join(names)


def _check_operator_call(what: str, out: Any, options: Any, layout: str = "nchw") -> None:
    if out is not None or options or layout != "nchw":
        raise UserError(f"{what}: out=, options= and layout= are not differentiated or traced; call it under torch.no_grad() "
                        "and outside of torch.compile, or leave them out")


def _checked(options: dict[str, Any] | None) -> dict[str, Any]:
    """Options of a call: those of `unisono.compile` that leave the kernel's meaning and its tensors alone."""
    options = options or {}
    for name in options:
        if name not in OPTIONS:
            raise UserError(f"there is no option '{name}' of a call; there are {', '.join(OPTIONS)} (unisono.compile has others)")
        try:
            hash(options[name])
        except TypeError:
            raise UserError(f"option '{name}' is a {type(options[name]).__name__}; expected a number, a text or a bool") from None
    return options


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


def oriented(x: View) -> tuple[View, bool]:
    """The matrix as it lies in memory, and whether it is turned: a transpose is no copy."""
    rows, cols = x.strides[-2:]
    order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    turned = rows == 1 and cols != 1 and x.shape[-1] > 1
    return (x.permuted(order) if turned else x), turned


def gemm(a: Any, b: Any, epilogue: Any = "acc", *, out_dtype: Any = None, out: Any = None,
         options: dict[str, Any] | None = None, **operands: Any) -> Any:
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
    if out is None and not options and is_torch(a) and (fused := _fused(b, epilogue, operands)):
        return fused[0].gemm(a, b, *fused[1:], _torch_dtype(_dtype(out_dtype)))
    return gemm_now(a, b, epilogue, _dtype(out_dtype), out, _checked(options), operands)


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
    first, second = _matrix("a", a), _matrix("b", b)
    if len(first.shape) != len(second.shape):
        raise UserError(f"gemm: a has shape {first.shape}, b {second.shape}; expected both with a batch, or neither")
    batch = first.shape[0] if len(first.shape) == 3 else 1
    (m, k), (k_b, n) = first.shape[-2:], second.shape[-2:]
    if k != k_b or (len(second.shape) == 3 and second.shape[0] != batch):
        raise UserError(f"gemm: a has shape {first.shape}, b {second.shape}; expected (m,k) and (k,n) of one k and batch")
    (first, turned_a), (second, turned_b) = oriented(first), oriented(second)
    contraction = Gemm(batch=batch, m=m, n=n, k=k, transpose_a=turned_a, transpose_b=turned_b, dtype_a=first.dtype,
                       dtype_b=second.dtype)
    space = Space(batch, (m,), n, False, False, is_batched=len(first.shape) == 3)
    identity = ("gemm", space.is_batched, batch, m, n, k, turned_a, turned_b)
    orders = [""] * (2 + sum(is_torch(v) or isinstance(v, np.ndarray) for v in operands.values()))
    return prepare(contraction, identity, first, second, a, epilogue, operands, space, out_dtype, out, options, orders)
