"""Matrix products of a graph: how their matrices must lie, and batches that share one."""

from __future__ import annotations

from typing import Optional

from torch.fx import GraphModule, Node

from . import shapes
from .regions import RESHAPED, Refused, aten, hinted, is_tensor, shape_of
from .writer import Writer, mode_of

STEP = 8  # elements: on a GPU, those from one matrix of a batch to the next are a multiple of it
ALIGNED = 16  # bytes: rows that lie apart are a multiple of it apart


def is_transposed(node: Node) -> bool:
    """Whether the operator takes a matrix as the transpose of one that lies row by row."""
    rows, cols = (shapes.hint(s) for s in node.meta["val"].stride()[-2:])
    return rows == 1 and cols != 1 and hinted(node)[-1] > 1


def check_matrices(left: Node, *rights: Node) -> None:
    """Raises Refused where a kernel of a GPU does not take the matrices as they lie: dense row by row or column by
    column. Those of a batch may lie apart, and so may the rows of a left matrix that has no batch."""
    for node in (left, *rights):
        if node.meta["val"].device.type == "cuda" and (reason := _refusal(node, may_be_apart=node is left)):
            raise Refused(reason)


def _refusal(node: Node, may_be_apart: bool) -> str:
    shape, strides = hinted(node), [shapes.hint(s) for s in node.meta["val"].stride()]
    if None in strides:
        return f"{node.name} has strides for which no example is known"
    *batch, rows, cols = shape
    *steps, row_step, col_step = strides
    batch, steps = (batch, steps) if batch and batch[0] > 1 else ([], [])
    if is_transposed(node):
        rows, cols, row_step, col_step, may_be_apart = cols, rows, col_step, row_step, False
    dense_rows = (col_step == 1 or cols == 1) and (row_step == cols or rows == 1)
    apart = (
        may_be_apart
        and not batch
        and col_step == 1
        and row_step > cols
        and row_step * node.meta["val"].element_size() % ALIGNED == 0
    )
    if not (dense_rows or apart):
        return (
            f"{node.name} of shape {shape} has strides {tuple(strides)}; kernels take dense matrices, or "
            "transposes of such"
        )
    if batch and steps[0] == 0:
        return (
            f"all products share {node.name}, and the rows of the other matrices cannot be taken as one matrix "
            "without a copy"
        )
    if batch and steps[0] != rows * cols and (steps[0] < rows * cols or steps[0] % STEP):
        return (
            f"{node.name} of shape {shape} has matrices {steps[0]} elements apart; kernels take dense ones, or a "
            f"multiple of {STEP} apart"
        )
    return ""


def fold_batches(module: GraphModule) -> int:
    """Products of a batch with one matrix, as a linear layer on a tensor that is not a view of its rows becomes: one
    product of all rows, if these are a view after all. Kernels do not take an expanded matrix. Returns how many."""
    count, mode = 0, None
    for node in list(module.graph.find_nodes(op="call_function", target=aten.bmm.default)):
        left, right = node.args
        if (
            not (is_tensor(left) and is_tensor(right))
            or shape_of(right)[0] == 1
            or not _is_shared(right)
            or not _has_one_pitch(left)
        ):
            continue
        mode = mode or mode_of(module)
        with module.graph.inserting_before(node):
            writer, (batch, rows, inner) = Writer(module.graph, mode), shape_of(left)
            matrix = _source(right) or writer.call(aten.select.int, (right, 0, 0))
            all_rows = writer.reshape(left, (batch * rows, inner), [])
            product = writer.call(aten.mm.default, (all_rows, matrix))
            result = writer.reshape(product, shape_of(node), [left])
        node.replace_all_uses_with(result)
        module.graph.erase_node(node)
        count += 1
    if count:
        module.graph.eliminate_dead_code()
        module.recompile()
    return count


def _is_shared(node: Node) -> bool:
    step = node.meta["val"].stride()[0]
    return isinstance(step, int) and step == 0


def _has_one_pitch(node: Node) -> bool:
    """Whether the rows of all matrices are equally far apart, for all sizes."""
    (_, rows, _), (step, row_step, _) = (
        tuple(map(shapes.expression_of, t)) for t in (shape_of(node), node.meta["val"].stride())
    )
    return rows == 1 or step == shapes.product((rows, row_step))


def _source(node: Node) -> Optional[Node]:
    """The matrix that was expanded, if it is in the graph."""
    value, shape = node.meta["val"], shape_of(node)[1:]
    while node.target in (aten.expand.default, *RESHAPED):
        node = node.args[0]
        if shape_of(node)[-2:] != shape:
            return None
        if len(shape_of(node)) == 2:
            return node if node.meta["val"].stride() == value.stride()[1:] else None
    return None
