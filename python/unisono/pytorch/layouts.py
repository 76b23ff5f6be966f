"""Where values of a graph may lie channels last although the graph says otherwise.

On a GPU, PyTorch's group_norm copies an image in channels last to contiguous memory first, since its kernels ask for
that. In a graph this is a clone after each convolution, and all that follows would be contiguous, the next
convolution's input too. Inductor chooses the order of what only it reads, so such copies are taken out here; results
that the program sees keep their order.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from .regions import RESHAPED, aten, is_tensor

FIXED = (aten.as_strided.default, aten.as_strided_.default, aten.set_.source_Tensor)  # what reads memory by strides


def format_of(value: torch.Tensor) -> Optional[torch.memory_format]:
    """Contiguous, channels last, or None."""
    if value.is_contiguous():
        return torch.contiguous_format
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(value.dim())
    return last if last is not None and value.is_contiguous(memory_format=last) else None


def is_copy_to_contiguous(node: Node, devices: Sequence[str]) -> bool:
    """A clone that does nothing but bring an image from channels last to contiguous memory."""
    if node.target is not aten.clone.default or node.kwargs.get("memory_format") is not torch.contiguous_format:
        return False
    source = node.args[0].meta["val"]
    return source.device.type in devices and format_of(source) in (torch.channels_last, torch.channels_last_3d)


def _turned(graph: Any, devices: Sequence[str]) -> list[Node]:
    """Convolutions of contiguous images in a program that asks for channels last: some filter lies so and no other way.

    An instance norm before a convolution, which PyTorch computes on another view of the image, leaves it contiguous.
    """
    nodes = [n for n in graph.find_nodes(op="call_function", target=aten.convolution.default)
             if n.args[0].meta["val"].dim() == 4]
    if not any(format_of(n.args[1].meta["val"]) is torch.channels_last for n in nodes):
        return []

    def lacks_order(node: Node) -> bool:
        image, filters = (node.args[i].meta["val"] for i in (0, 1))
        return (
            image.device.type in devices
            and format_of(image) is torch.contiguous_format
            and not image.is_contiguous(memory_format=torch.channels_last)
            and filters.is_contiguous(memory_format=torch.channels_last)
        )

    return [n for n in nodes if lacks_order(n)]


def _of_one_channel(graph: Any, devices: Sequence[str]) -> list[Node]:
    """Convolutions of images of one channel in a program in channels last. Such an image lies in both orders; as
    PyTorch brings it into neither, its strides stay those of contiguous memory, and the convolution's result would lie
    so, too."""
    nodes = [n for n in graph.find_nodes(op="call_function", target=aten.convolution.default)
             if n.args[0].meta["val"].dim() == 4]
    if not any(format_of(n.args[1].meta["val"]) is torch.channels_last for n in nodes):
        return []

    def is_one(image: torch.Tensor) -> bool:
        return image.device.type in devices and image.shape[1] == 1 and image.is_contiguous() and image.stride(1) != 1 \
            and all(isinstance(e, int) for e in image.shape)

    return [n for n in nodes if is_one(n.args[0].meta["val"])]


def _as_channels_last(graph: Any, node: Node) -> None:
    """Has a convolution read its image of one channel by strides that say channels last: a view."""
    _, _, height, width = shape = list(node.args[0].meta["val"].shape)
    with graph.inserting_before(node):
        node.update_arg(0, graph.call_function(aten.as_strided.default,
                                               (node.args[0], shape, [height * width, 1, width, 1])))


def _reaches_a_convolution(node: Node, steps: int = 64) -> bool:
    """Through elementwise operations, pools and concatenations."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < steps:
        for user in waiting.pop().users:
            if user.target is aten.convolution.default:
                return True
            value = user.meta.get("val")
            if (
                user not in seen
                and user.op == "call_function"
                and user.target not in RESHAPED
                and (isinstance(value, (tuple, list)) or is_tensor(user) and value.dim() == 4)
            ):
                seen.add(user)
                waiting.append(user)
    return False


def _reshaped_images(graph: Any, devices: Sequence[str]) -> list[Node]:
    """Contiguous images that were reshaped from something else, such as an instance norm's view of (1, N·C, H, W), and
    that convolutions of a program in channels last read."""
    nodes = graph.find_nodes(op="call_function", target=aten.convolution.default)
    if not any(format_of(n.args[1].meta["val"]) is torch.channels_last for n in nodes):
        return []

    def is_one(node: Node) -> bool:
        value = node.meta["val"]
        return value.dim() == 4 and value.device.type in devices and format_of(value) is torch.contiguous_format \
            and not value.is_contiguous(memory_format=torch.channels_last) and _reaches_a_convolution(node)

    return [n for n in graph.find_nodes(op="call_function", target=aten.reshape.default) if is_one(n)]


def _visible(module: GraphModule) -> tuple[Node, list[int]]:
    """The output node, and which of its values the program sees; all, if nobody says."""
    output = next(iter(module.graph.find_nodes(op="output")))
    return output, list(output.meta.get("user_visible_output_idxs", range(len(output.args[0]))))


def relax(module: GraphModule, inputs: Sequence[Any], mode: Any, devices: Sequence[str] = ("cuda",)) -> int:
    """Takes such copies out of a graph whose values only Inductor and regions read; returns how many.

    inputs: as the graph will get them, fake tensors of `mode`. Values of the nodes are set anew.
    """
    graph = module.graph
    copies = [n for n in graph.nodes if n.op == "call_function" and is_copy_to_contiguous(n, devices)]
    output, visible = _visible(module)
    results = {i: output.args[0][i] for i in visible if is_tensor(output.args[0][i])}
    wanted = {i: format_of(n.meta["val"]) for i, n in results.items()}
    mutable = (n for n in graph.nodes if n.op == "call_function"
               and (n.target in FIXED or getattr(getattr(n.target, "_schema", None), "is_mutable", False)))
    single = _of_one_channel(graph, devices)
    if not (copies or single or _turned(graph, devices)) or None in wanted.values() or next(mutable, None) is not None:
        return 0
    for node in copies:
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    for node in graph.find_nodes(op="call_function", target=aten.view.default):
        node.target = aten.reshape.default

    def propagate() -> None:
        module.recompile()
        FakeTensorProp(module, mode).propagate_dont_convert_inputs(*inputs)

    for node in single:
        _as_channels_last(graph, node)
    propagate()
    count, made = len(copies), []
    for node in _reshaped_images(graph, devices):  # where they are made, so that all that follow lie channels last
        with graph.inserting_after(node):
            copy = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.channels_last})
        node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)
        made.append(copy)
    if made:
        propagate()
        count += len(made)
    inserted = []
    for node in _turned(graph, devices):
        with graph.inserting_before(node):
            inserted.append(graph.call_function(aten.clone.default, (node.args[0],),
                                                {"memory_format": torch.channels_last}))
        node.update_arg(0, inserted[-1])
    if inserted:
        propagate()
    for copy in inserted:  # what follows the first of them may lie so by itself
        if format_of(copy.args[0].meta["val"]) is torch.channels_last:
            copy.replace_all_uses_with(copy.args[0])
            graph.erase_node(copy)
        else:
            count += 1
    values = list(output.args[0])
    for i in results:
        if format_of(values[i].meta["val"]) is not wanted[i]:
            with graph.inserting_before(output):
                copy = graph.call_function(aten.clone.default, (values[i],), {"memory_format": wanted[i]})
            with mode:
                copy.meta["val"] = aten.clone.default(values[i].meta["val"], memory_format=wanted[i])
            values[i] = copy
    output.args = (type(output.args[0])(values),)
    module.recompile()
    return count


def dense_for_norms(module: GraphModule) -> None:
    """Where PyTorch runs the graph: group_norm's kernels on a GPU ask for contiguous images, and a convolution's result
    may lie otherwise than its fake does."""
    for node in module.graph.find_nodes(op="call_function", target=aten.native_group_norm.default):
        image = node.args[0]
        if image.meta["val"].device.type == "cuda":
            with module.graph.inserting_before(node):
                node.update_arg(0, module.graph.call_function(aten.contiguous.default, (image,)))
                node.args[0].meta["val"] = image.meta["val"].contiguous()
    module.recompile()


def simplify(module: GraphModule) -> int:
    """Takes out pairs of copies of which the second brings back what the first has changed; returns how many."""
    count = 0
    for node in list(module.graph.find_nodes(op="call_function", target=aten.clone.default)):
        first = node.args[0]
        if first.target is not aten.clone.default or not is_tensor(first.args[0]):
            continue
        before, after = first.args[0].meta["val"], node.meta["val"]
        if format_of(before) is not None and format_of(before) is format_of(after) and before.dtype == after.dtype:
            node.replace_all_uses_with(first.args[0])
            module.graph.erase_node(node)
            count += 1
    module.graph.eliminate_dead_code()
    module.recompile()
    return count
