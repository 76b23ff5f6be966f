"""Gradients of convolutions' images apart from those of their filters, so that regions can begin with them.

`aten.convolution_backward` computes both. That of the image is a convolution of the output's gradient by the same
filter: a transposed one, or, if the convolution is transposed, an ordinary one. Nodes that no region takes are put back
where they were.
"""

from __future__ import annotations

import operator
from typing import Optional

import torch
from torch.fx import Node

from .regions import aten, is_tensor, shape_of


def part(graph: torch.fx.Graph, nodes: list[Node]) -> dict[Node, Node]:
    """Puts a convolution in the place of each such gradient; returns them with the nodes that they are parts of."""
    parted = {}
    for node in nodes:
        if node.op != "call_function" or node.target is not aten.convolution_backward.default:
            continue
        found = [user for user in node.users if user.target is operator.getitem and user.args[1] == 0]
        if len(found) != 1 or (moves := _moves(node)) is None:
            continue
        with graph.inserting_before(node):
            gradient = graph.call_function(aten.convolution.default, (node.args[0], node.args[2], None, *moves))
        gradient.meta.update(found[0].meta)
        found[0].replace_all_uses_with(gradient)
        graph.erase_node(found[0])
        parted[gradient] = node
    return parted


def _moves(node: Node) -> Optional[tuple]:
    """Stride, padding, dilation, whether it is transposed, output padding and groups of the convolution that gives the
    image's gradient; None where that is not known, or not asked for."""
    gradient, image, filters, _, stride, padding, dilation, transposed, _, groups, mask = node.args
    numbers = (*stride, *padding, *dilation, groups)
    if not mask[0] or len(stride) != 2 or any(isinstance(e, Node) for e in numbers):
        return None
    if not all(map(is_tensor, (gradient, image, filters))):
        return None
    size, taps, rows = (shape_of(one)[2:] for one in (image, filters, gradient))
    if transposed:  # by the filter's own taps; what its output padding adds must leave as many pixels
        given = [(rows[i] + 2 * padding[i] - dilation[i] * (taps[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
        return (stride, padding, dilation, False, [0, 0], groups) if given == list(size) else None
    if tuple(stride) == (1, 1):
        return stride, padding, dilation, True, [0, 0], groups
    if not all(isinstance(e, int) for e in (*size, *taps, *rows)):
        return None
    more = [size[i] - ((rows[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (taps[i] - 1) + 1) for i in (0, 1)]
    return stride, padding, dilation, True, more, groups


def join(graph: torch.fx.Graph, parted: dict[Node, Node]) -> set[Node]:
    """Puts back what no region has taken; of the others the rest stays, if anything is asked of it. Returns the nodes
    whose image's gradient was taken."""
    places, taken = {n: i for i, n in enumerate(graph.nodes)}, set()
    for gradient, node in parted.items():
        if gradient in places:
            if any(places[user] < places[node] for user in gradient.users):  # such as a region that adds it to its own
                gradient.prepend(node)
            with graph.inserting_after(node):
                found = graph.call_function(operator.getitem, (node, 0))
            found.meta.update(gradient.meta)
            gradient.replace_all_uses_with(found)
            graph.erase_node(gradient)
            continue
        taken.add(node)
        *arguments, mask = node.args
        if not any(mask[1:]):
            graph.erase_node(node)
            continue
        node.args = (*arguments, [False, *mask[1:]])
        node.meta["val"] = (None, *node.meta["val"][1:])
    return taken
