"""A kernel for an epilogue and its operands, compiled once and bound to everything but addresses."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from . import _native
from ._native import Device, DType, Graph, UserError
from .calls import Call, Plan, plan_of, signature
from .epilogues import Epilogue, graph_of_text
from .operands import Space, axes_of_shape, in_brackets, operand_view, store_shape
from .tensors import View, empty, is_torch, view


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
            raise UserError(f"epilogue {epilogue.__name__}() has a parameter '{p.name}', which was not given; "
                            f"pass {p.name}=… to the call")
        if annotated is not None:
            axes[p.name] = annotated
        else:
            axes[p.name] = axes_of_shape(p.name, given.shape, space) if isinstance(given, View) else ""
    traced: Graph = epilogue.trace(axes, dtype)
    return traced


def key_of(epilogue: Any) -> Any:
    return (
        str(epilogue)
        if isinstance(epilogue, Graph)
        else epilogue.function
        if isinstance(epilogue, Epilogue)
        else epilogue
    )


def _options(graph: Graph, operands: dict[str, Any], place: View, options: dict[str, Any]) -> dict[str, Any]:
    """Options with which an epilogue is compiled for these operands, which are checked."""
    infos = {o.name: o for o in graph.operands}
    for name in operands:
        if name not in infos:
            raise UserError(f"the epilogue has no operand '{name}'; it reads {', '.join(sorted(infos)) or 'none'}")
    storage, on_device = {}, []
    for name, info in infos.items():
        given = operands.get(name)
        if given is None and info.default_value is None:
            raise UserError(f"the epilogue reads operand {name}{in_brackets(info.axes)}, which was not given; "
                            f"pass {name}=… to the call")
        if isinstance(given, View):
            if info.storage is None:
                storage[name] = given.dtype
            if info.axes == "":
                on_device.append(name)
    if place.device == Device.cuda:
        options = {**options, "device_scalars": on_device}
    return {**options, "device": place.device, "device_index": place.index, "storage": storage}


def _compile(contraction: Any, graph: Graph, operands: dict[str, Any], space: Space, place: View,
             options: dict[str, Any]) -> Plan:
    executable = _native.compile(contraction, graph, **_options(graph, operands, place, options))
    infos = {o.name: o for o in graph.operands}
    stores = [(s.name, store_shape(s.name, s.axes, s.form, space), s.dtype, s.axes == "mn")
              for s in graph.stores]
    return Plan(executable, graph, stores,
                {n: i.axes for n, i in infos.items()}, space)


def takes_slices(contraction: Any, image: View, epilogue: Any, given: dict[str, Any], space: Space,
                 out_dtype: DType | None, options: dict[str, Any]) -> bool:
    """Whether the kernel of a GPU for such a call reads an image that is channels of a wider one."""
    operands = _views(given, image)
    graph = _graph(epilogue, operands, out_dtype or image.dtype, space)
    explanation = _native.explain(contraction, graph, **_options(graph, operands, image, options))
    return bool(explanation.takes_slices)


def _shape_key(view: View | float) -> Any:
    return (view.shape, view.strides, view.dtype.value) if isinstance(view, View) else None


def _views(given: dict[str, Any], first: View) -> dict[str, View | float]:
    """Operands as the library sees them; all in the place of the first tensor."""
    operands: dict[str, View | float] = {}
    for name, value in given.items():
        operands[name] = float(value) if isinstance(value, numbers.Real) else view(name, value)
    for name, one in operands.items():
        if isinstance(one, View) and (one.device, one.index) != (first.device, first.index):
            raise UserError(f"operand '{name}' is on {one.device.name} {one.index}, and the first tensor on "
                            f"{first.device.name} {first.index}; expected all on one device")
    return operands


def prepare(contraction: Any, identity: tuple[Any, ...], a: View, b: View | tuple[View, View], like: Any, epilogue: Any,
            given: dict[str, Any], space: Space, out_dtype: DType | None, out: Any, options: dict[str, Any],
            orders: list[str]) -> Call:
    """Compiles, unless that was done for other operands' shapes, and binds everything but addresses. b: of a dual
    product both."""
    operands = _views(given, a)
    dtype, factors = out_dtype or a.dtype, (a, *b) if isinstance(b, tuple) else (a, b)
    key = (key_of(epilogue), identity, tuple((f.dtype.value, f.strides) for f in factors), dtype.value,
           a.device.value, a.index, tuple(sorted(options.items())),
           tuple((name, _shape_key(one)) for name, one in sorted(operands.items())))
    plan = plan_of(key, lambda: _compile(contraction, _graph(epilogue, operands, dtype, space), operands, space, a,
                                         options))
    bound: dict[str, Any] = {}
    for name, one in operands.items():
        axes = plan.axes[name]
        bound[name] = one if not isinstance(one, View) else (one if axes is None
                                                             else operand_view(name, one, axes, space)).native()
    results = _outputs(plan, like, space, out)
    native, made = {}, []
    for name, shape, out_type, is_image in plan.stores:
        there = view(name, results[name])
        native[name] = (space.to_native(there) if is_image else there).native()
        made.append((name, shape, there.strides, out_type))
    rights = tuple(f.native() for f in factors[1:])
    prepared = plan.executable.prepare(a.native(), rights if len(rights) == 2 else rights[0], bound, native, orders,
                                       [m[1:] for m in made])
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
    return (*map(signature, factors), tuple((n, signature(v)) for n, v in operands.items()),
            tuple((n, signature(v)) for n, v in outs))


def _count_writes(results: dict[str, Any]) -> None:
    """Tells autograd that these tensors were written: saved copies of them are stale."""
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
            raise UserError(f"out '{name}' is a read-only array; expected a writable one")
        if given.shape != shape or given.dtype != dtype:
            raise UserError(
                f"out '{name}' has shape {given.shape} and dtype {given.dtype.name}; expected {shape} and {dtype.name}"
            )
    return results
