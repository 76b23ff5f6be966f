"""How the extents of a tensor of a graph lie in the iteration space of a contraction.

The space has images b, rows r within an image (pixels, or rows of a matrix) and columns n. A *piece* is a part of one
of these axes: `extent` neighbours that are `inner` apart. A tensor has a tuple of pieces for each of its extents; an
extent of 1 has none. Views regroup pieces, reductions drop them, permutations move them:

    a convolution's values (N, K, P, Q)      ((b), (n), (r of P, Q apart), (r of Q))
    seen as (N, G, K/G, P·Q)                 ((b), (n of G, K/G apart), (n of K/G), (r))
    their mean over the last two, kept       ((b), (n of G, K/G apart), (), ())

Extents are ints, or sympy expressions where a size is not known when compiling: two of these are equal if they are the
same expression, and nothing is guarded.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional, Sequence

from ..operands import Space


class Piece(NamedTuple):
    axis: str  # b, r or n
    extent: Any
    inner: Any  # neighbours on the axis that lie within one of this piece


Dims = tuple  # of tuples of pieces


def expression_of(extent: Any) -> Any:
    """An int, or the expression of a SymInt."""
    if isinstance(extent, int):
        return extent
    return _simplified(getattr(getattr(extent, "node", None), "expr", extent))


def fraction_of(expression: Any) -> tuple:
    """Numerator and denominator, without common factors: of s/2 + 1/2 these are s + 1 and 2."""
    import sympy
    return sympy.fraction(sympy.together(sympy.cancel(expression)))


@functools.lru_cache(4096)
def _simplified(expression: Any) -> Any:
    """Without divisions that leave no rest: PyTorch keeps h·w // h."""
    from torch.utils._sympy.functions import FloorDiv

    def divided(a: Any, b: Any) -> Any:
        numerator, denominator = fraction_of(a / b)
        return numerator if denominator == 1 else FloorDiv(numerator, denominator)

    if expression.has(FloorDiv):
        expression = expression.replace(FloorDiv, divided)
    return int(expression) if expression.is_Integer else expression


def hint(extent: Any) -> Optional[int]:
    """A SymInt as it was in the example from which the graph was made; None if nobody knows it."""
    return extent if isinstance(extent, int) else getattr(extent.node, "hint", None)


def product(extents: Sequence[Any]) -> Any:
    result: Any = 1
    for extent in extents:
        result = result * extent
    return expression_of(result)


def quotient(a: Any, b: Any) -> Any:
    """a / b if that is whole for all sizes, or None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    import sympy
    numerator, denominator = fraction_of(sympy.sympify(a) / b)
    return expression_of(numerator) if denominator == 1 else None


def merged(pieces: Sequence[Piece]) -> tuple:
    """Neighbours as one piece, so that equal lists of pieces are written alike."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if last and last.axis == piece.axis and last.inner == product((piece.extent, piece.inner)):
            result[-1] = Piece(piece.axis, product((last.extent, piece.extent)), piece.inner)
        else:
            result.append(piece)
    return tuple(result)


def of_space(space: Space) -> Dims:
    """The values [m,n] of a contraction, in the caller's order."""
    extents = [expression_of(e) for e in space.rows]
    rows = tuple(_one("r", e, product(extents[i + 1:])) for i, e in enumerate(extents))
    images, cols = _one("b", expression_of(space.images), 1), _one("n", expression_of(space.cols), 1)
    if space.channels_first:
        return (images, cols, *rows)
    return (*((images,) if space.is_batched else ()), *rows, cols)


def _one(axis: str, extent: Any, inner: Any) -> tuple:
    return () if extent == 1 else (Piece(axis, extent, inner),)


def flat(dims: Dims) -> tuple:
    return merged([piece for dim in dims for piece in dim])


def extents_of(dims: Dims) -> tuple:
    return tuple(product([piece.extent for piece in dim]) for dim in dims)


def viewed(dims: Dims, shape: Sequence[Any]) -> Optional[Dims]:
    """The pieces in another shape of the same elements in the same order; None where extents do not divide each other.
    """
    rest, result = list(flat(dims)), []
    for extent in map(expression_of, shape):
        dim, need = [], extent
        while need != 1:
            if not rest:
                return None
            piece = rest.pop(0)
            whole = quotient(need, piece.extent)
            if whole is not None:
                dim.append(piece)
                need = whole
                continue
            part = quotient(piece.extent, need)
            if part is None:
                return None
            dim.append(Piece(piece.axis, need, product((piece.inner, part))))
            rest.insert(0, Piece(piece.axis, part, piece.inner))
            need = 1
        result.append(merged(dim))
    return None if rest else tuple(result)


def joined(many: Sequence[Dims], rank: int) -> Optional[Dims]:
    """The pieces of an elementwise result of tensors that broadcast from the right; None where two differ."""
    result: list[tuple] = [()] * rank
    for dims in many:
        if len(dims) > rank:
            return None
        for place, dim in enumerate(dims, rank - len(dims)):
            if dim and result[place] and dim != result[place]:
                return None
            result[place] = result[place] or dim
    return tuple(result)


def axes_of(dims: Dims, space: Space) -> Optional[str]:
    """Along which axes of an epilogue graph such a tensor varies: '', b, m, n, bn, mn, or with groups bg4, mg4, g4.

    None where it varies along a part of the rows or columns that is no axis of graphs.
    """
    pieces = flat(sorted_by_axis(dims))
    by_axis = {axis: [p for p in pieces if p.axis == axis] for axis in "brn"}
    images, rows = expression_of(space.images), product([expression_of(e) for e in space.rows])
    cols = expression_of(space.cols)
    if any(len(found) > 1 for found in by_axis.values()):
        return None
    full = {
        axis: bool(found) and found[0].extent == whole
        for (axis, found), whole in zip(by_axis.items(), (images, rows, cols))
    }
    if by_axis["b"] and not full["b"] or by_axis["r"] and not full["r"]:
        return None
    if full["r"] and not full["b"] and images != 1:
        return None  # alike for all images
    row = "m" if full["r"] else "b" if full["b"] else ""
    column = ""
    if full["n"]:
        column = "n"
    elif by_axis["n"]:
        groups, inner = by_axis["n"][0].extent, by_axis["n"][0].inner
        if not isinstance(groups, int) or product((groups, inner)) != cols:
            return None
        column = f"g{groups}"
    return row + column


def sorted_by_axis(dims: Dims, axes: str = "brn") -> Dims:
    """All pieces as one extent, each axis from its outermost to its innermost."""
    pieces = [piece for dim in dims for piece in dim]
    order: list[Piece] = []
    for axis in axes:
        rest = [p for p in pieces if p.axis == axis]
        while rest:  # the outermost is the one within which all others lie
            outer = next(
                (
                    p
                    for p in rest
                    if all(p is o or quotient(p.inner, product((o.inner, o.extent))) is not None for o in rest)
                ),
                rest[0],
            )
            rest.remove(outer)
            order.append(outer)
    return (tuple(order),)


def is_in_order(dims: Dims, space: Space) -> bool:
    """Whether the elements follow one another as those of the values [m,n] do, so that a view leads from one to the
    other."""
    return _follow(dims, "".join(dict.fromkeys(piece.axis for dim in of_space(space) for piece in dim)))


def is_stored_in_order(dims: Dims) -> bool:
    """Whether the elements of a value that is smaller than [m,n] follow one another as a kernel stores them: images,
    rows, columns. Also where channels come before their pixels, a row's groups of columns [m,g] are side by side."""
    return _follow(dims, "brn")


def _follow(dims: Dims, axes: str) -> bool:
    places = [axes.find(p.axis) for p in flat(dims)]
    return places == sorted(places) and len(set(places)) == len(places)


def turned(dims: Dims, space: Space) -> tuple[tuple, tuple]:
    """How a tensor that lies as `dims` follows from the values [m,n]: their shape in the tensor's pieces, and the
    permutation of these. What is in order has the permutation (0, 1, 2, …)."""
    axes = "".join(dict.fromkeys(p.axis for dim in of_space(space) for p in dim))
    (ordered,) = sorted_by_axis(dims, axes)
    pieces = [piece for dim in dims for piece in dim]
    return tuple(p.extent for p in ordered), tuple(ordered.index(p) for p in pieces)
