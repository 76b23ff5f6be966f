"""Weights that are declared frozen: filters are brought into the kernels' memory order once, not at each call.

Kernels read a filter in the order of its image. One that lies otherwise is copied by every call, or by the compiled
graph, which is never stale, and in a CUDA graph is a node of it. Where weights do not change that copy is made once:
`freeze(module)` reorders the module's own filters, and torch.compile(…, options={"frozen": True}) gives the graph
packed copies, which it makes anew when a weight is another tensor, lies elsewhere, or was written as far as a version
counter of PyTorch says.
"""

from __future__ import annotations

import operator
import weakref
from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._guards import detect_fake_mode

from .._native import UserError, _fingerprint
from .library import CONVOLUTIONS as CALLED, DUAL_CONVOLUTION
from .regions import TAKES_SLICES
from .texts import VERSION, is_last

CONVOLUTIONS = (torch.conv2d, F.conv2d, torch.ops.aten.conv2d.default, torch.ops.aten.convolution.default,
                torch.conv_transpose2d,
                F.conv_transpose2d, torch.ops.aten.conv_transpose2d.input)


def freeze(module: torch.nn.Module) -> torch.nn.Module:
    """`unisono.freeze`. There is no second copy of the weights, and no call and no captured graph packs a filter if
    images are channels last (`x.contiguous(memory_format=torch.channels_last)`)."""
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"freeze: expected a torch.nn.Module, and was given a {type(module).__name__}")
    module.eval().requires_grad_(False)
    for part in module.modules():
        if isinstance(part, (torch.nn.Conv2d, torch.nn.ConvTranspose2d)):
            part.weight.data = part.weight.data.contiguous(memory_format=torch.channels_last)
    return module


def _asks_for_channels_last(image: Tensor, turned: bool) -> bool:
    """Whether a kernel for this image reads its filter channels last. turned: on a GPU images are, where filters lie
    so."""
    return (
        turned and image.is_cuda or image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous()
    )


class Sources:
    """Weights as they were when they were copied. By lists, as a call has hundreds of them."""

    def __init__(self, weights: Sequence[Tensor]):
        self.weights, self.addresses = [weakref.ref(w) for w in weights], [w.data_ptr() for w in weights]
        # PyTorch counts no writes to tensors that were made under inference_mode
        self.counted = [i for i, w in enumerate(weights) if not w.is_inference()]
        self.versions = [weights[i]._version for i in self.counted]

    def are_still(self, weights: Sequence[Tensor]) -> bool:
        """Whether they are those tensors, in that memory, and PyTorch has counted no write."""
        return (list(map(Tensor.data_ptr, weights)) == self.addresses
                and all(map(operator.is_, [known() for known in self.weights], weights))
                and [weights[i]._version for i in self.counted] == self.versions)


def _range_of(tensor: Tensor) -> tuple[int, int]:
    """Its address, and the bytes from its first element to its last."""
    if not tensor.numel():
        return 0, 0
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


class _Bytes(Sources):
    """Weights in the host's memory at one time."""

    def __init__(self, weights: Sequence[Tensor]):
        super().__init__(weights)
        self.forms = [(w.dtype, w.shape) for w in weights]
        self.strides = [w.stride() for w in weights]
        self.ranges = [_range_of(w) for w in weights]
        self.hash = self.hash_now()

    def hash_now(self) -> str:
        return _fingerprint(self.ranges, torch.get_num_threads())

    def are_still(self, weights: Sequence[Tensor]) -> bool:
        return (super().are_still(weights) and list(map(Tensor.stride, weights)) == self.strides
                and self.hash_now() == self.hash)


class Contents:
    """Weights in the host's memory as they were, known by their bytes: PyTorch does not count writes through `.data`,
    numpy or a pointer."""

    def __init__(self, weights: Sequence[Tensor]):
        self.known = _Bytes(weights)

    def are_still(self, weights: Sequence[Tensor]) -> bool:
        """Whether they have those bytes."""
        known = self.known  # another thread may know others
        if known.are_still(weights):
            return True
        others = _Bytes(weights)
        if (others.forms, others.strides, others.hash) != (known.forms, known.strides, known.hash):
            return False
        self.known = others
        return True


class Filters:
    """The packed filters of one graph, which stand in the place of the weights among its inputs."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], turned: bool):
        self.packed: dict[int, Tensor] = {}  # by the place of the input
        self.sources: dict[int, Sources] = {}
        places = {n: i for i, n in enumerate(n for n in module.graph.nodes if n.op == "placeholder")}
        for node in [n for n in module.graph.nodes if n.op == "call_function" and n.target in CONVOLUTIONS]:
            image, filters = node.args[0], node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
            place = places.get(filters)
            if place is None or not isinstance(inputs[place], torch.nn.Parameter) or inputs[place].dim() != 4:
                continue
            weight = inputs[place]
            example = image.meta.get("example_value", inputs[places[image]] if image in places else None)
            if (
                example is None
                or not _asks_for_channels_last(example, turned)
                or weight.is_contiguous(memory_format=torch.channels_last)
            ):
                continue
            if weight.requires_grad and torch.is_grad_enabled():
                raise UserError(
                    "backend unisono with frozen=True: a filter requires a gradient; expected torch.no_grad(), or "
                    "weights after "
                    "requires_grad_(False)"
                )
            if any(user.target not in CONVOLUTIONS or filters in user.args[2:] or user.args[0] is filters
                   for user in filters.users):
                continue  # the program reads the weight itself, or writes it
            self._pack(place, weight)

    def _pack(self, place: int, weight: Tensor) -> None:
        with torch.no_grad():
            if place in self.packed:
                self.packed[place].copy_(weight)
            else:
                self.packed[place] = torch.nn.Parameter(weight.detach().contiguous(memory_format=torch.channels_last),
                                                        requires_grad=False)
        self.sources[place] = Sources([weight])

    def among(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs with packed filters among them; those whose weights were written or replaced since are packed
        again."""
        result = list(inputs)
        for place, packed in self.packed.items():
            if not self.sources[place].are_still([inputs[place]]):
                self._pack(place, inputs[place])
            result[place] = packed
        return result


def with_frozen_filters(module: torch.fx.GraphModule, inputs: Sequence[Any], compile: Callable[..., Callable],
                        turned: bool) -> Callable:
    """compile(module, inputs) of the graph with packed filters in place of those that kernels would copy at each call.
    turned: as _asks_for_channels_last has it."""
    filters = Filters(module, inputs, turned)
    if not filters.packed:
        return compile(module, inputs)
    given, mode = filters.among(inputs), detect_fake_mode(inputs)
    if mode is not None:  # AOTAutograd takes the extents of tensors that Dynamo has not seen for unknown
        given = [mode.from_tensor(t, static_shapes=True) if i in filters.packed else t for i, t in enumerate(given)]
    compiled = compile(module, given)

    def call(*arguments: Any) -> Any:
        return compiled(*filters.among(arguments))

    return call


def _order_of(call: torch.fx.Node) -> torch.memory_format:
    """Of the filter that a call's kernel reads."""
    image, filters = (call.args[i].meta["val"] for i in (0, 1))
    names = next(a for a in call.args if isinstance(a, str) and VERSION in a)
    return torch.channels_last if is_last(image, filters, names) else torch.contiguous_format


def _calls(module: torch.fx.GraphModule, devices: Sequence[str]) -> list[torch.fx.Node]:
    nodes = (n for target in CALLED for n in module.graph.find_nodes(op="call_function", target=target))
    return [n for n in nodes if n.args[0].meta["val"].device.type in devices]


def _places_of_filters(call: torch.fx.Node) -> tuple[int, ...]:
    """Among its arguments."""
    return (1, 2) if call.target is DUAL_CONVOLUTION else (1,)


def _pack_filter(module: torch.fx.GraphModule, call: torch.fx.Node, place: int) -> None:
    source, order = call.args[place], _order_of(call)
    value = source.meta["val"]
    if value.is_contiguous(memory_format=order):
        return
    with module.graph.inserting_before(call):
        packed = module.graph.call_function(torch.ops.aten.clone.default, (source,), {"memory_format": order})
    with value.fake_mode:
        packed.meta["val"] = torch.ops.aten.clone.default(value, memory_format=order)
    packed.meta["unisono_packs"] = True
    call.update_arg(place, packed)
    if "eager_input_vals" in call.meta:  # by which Inductor knows the order of memory that an operator asks for
        given, more = call.meta["eager_input_vals"]
        call.meta["eager_input_vals"] = (*given[:place], packed.meta["val"], *given[place + 1:]), more


def pack_in_graph(module: torch.fx.GraphModule, devices: Sequence[str] = ("cuda",)) -> None:
    """Has Inductor reorder the filters that the kernels would copy, so that a cast to a shorter dtype ahead is one
    kernel with it."""
    for call in _calls(module, devices):
        for place in _places_of_filters(call):
            _pack_filter(module, call, place)
    module.recompile()


def copies_of(call: torch.fx.Node, devices: Sequence[str] = ("cuda",)) -> list[torch.fx.Node]:
    """What a convolution's call on these devices copies before each launch, by the strides in the graph: images,
    filters and operands that do not lie in the order of the call."""
    if call.args[0].meta["val"].device.type not in devices:
        return []
    read = [*call.args[:len(_places_of_filters(call)) + 1], *_operands(call)]
    return [value for place, value in enumerate(read) if _is_copied(call, value, place)]


def copied_tensors(module: torch.fx.GraphModule, devices: Sequence[str] = ("cuda",)) -> int:
    """Tensors that calls of convolutions on these devices copy before each launch."""
    return sum(len(copies_of(call, devices)) for call in _calls(module, devices))


def _operands(call: torch.fx.Node) -> list[torch.fx.Node]:
    return next(a for a in call.args if isinstance(a, (list, tuple)))


def _is_copied(call: torch.fx.Node, node: torch.fx.Node, place: int) -> bool:
    value, order = node.meta["val"], _order_of(call)
    if place == 0 and call.meta.get(TAKES_SLICES) and order is torch.channels_last and value.stride(1) == 1:
        return False  # the kernel reads channels of a wider image as they lie
    return not value.is_contiguous(memory_format=order if value.dim() == 4 else torch.contiguous_format)


def packed_filters(module: torch.fx.GraphModule, devices: Sequence[str] = ("cuda",)) -> int:
    """Filters of calls of convolutions on these devices that are reordered each time, by the graph or by the call."""
    return sum(bool(c.args[i].meta.get("unisono_packs"))
               or not c.args[i].meta["val"].is_contiguous(memory_format=_order_of(c))
               for c in _calls(module, devices) for i in _places_of_filters(c))
