"""How tensors of a caller become operands: axes from shapes, and views of the shapes that the library expects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._native import UserError
from .tensors import View


@dataclass(frozen=True)
class Space:
    """The iteration space of one contraction, and how its values [m,n] lie in the caller's and the library's order."""

    images: int
    rows: tuple[int, ...]  # (P, Q) or (O, P, Q) of a convolution, (m,) of a product
    cols: int
    channels_first: bool  # the caller's order of images is (N,K,P,Q); else (N,P,Q,K), or (batch,m,n)
    native_channels_last: bool  # the library is given (N,P,Q,K)
    is_batched: bool = True  # the caller's values [m,n] have the first extent

    @property
    def shape_mn(self) -> tuple[int, ...]:
        """Values [m,n] in the caller's order."""
        if self.channels_first:
            return (self.images, self.cols, *self.rows)
        return (*((self.images,) if self.is_batched else ()), *self.rows, self.cols)

    def to_native(self, view: View) -> View:
        """A tensor of shape_mn, in the order that the library is given."""
        if self.channels_first and self.native_channels_last:
            return view.permuted((0, *range(2, len(view.shape)), 1))
        if not self.is_batched:
            return view.reshaped((1, *view.shape), (0, *view.strides))
        return view

    @property
    def row_count(self) -> int:
        count = self.images
        for extent in self.rows:
            count *= extent
        return count


def pattern(space: Space, axes: str) -> tuple[int, ...]:
    """The extents, in the caller's order, of a tensor that broadcasts to values [m,n] and varies along `axes`."""
    images = space.images if "b" in axes or "m" in axes else 1
    rows = space.rows if "m" in axes else (1,) * len(space.rows)
    cols = space.cols if "n" in axes else 1
    return (images, cols, *rows) if space.channels_first else (images, *rows, cols)


def axes_of_shape(name: str, shape: tuple[int, ...], space: Space) -> str:
    """The axes of an operand of this shape: as it broadcasts to values [m,n], or (N,K), (K) and, if N is not K, (N).

    Raises UserError with the shapes that are taken.
    """
    if shape == () or all(extent == 1 for extent in shape) and len(shape) <= 1:
        return ""
    if shape == (space.cols,):
        return "n"
    padded = (1,) * (1 + len(space.rows) + 1 - len(shape)) + shape
    for axes in ("n", "bn", "mn", "b", "m", ""):
        if padded == pattern(space, axes):
            return axes
    if shape == (space.images, space.cols) and len(space.rows) > 1:
        return "bn"
    if shape == (space.images, space.cols, *(1,) * len(space.rows)):
        return "bn"
    if shape == (space.images,):
        return "b"
    raise UserError(
        f"operand '{name}' has shape {shape}, which does not broadcast to values [m,n] of shape {space.shape_mn}; "
        f"expected () [a scalar], ({space.cols},) [n], ({space.images}, {space.cols}) [b,n], {space.shape_mn} "
        f"[m,n] or ({space.images},) [b]"
    )


def in_brackets(axes: str) -> str:
    """As the text form writes them: 'bg4' is [b,g4]."""
    return "[" + ",".join(re.findall(r"g\d+|.", axes)) + "]"


def operand_view(name: str, view: View, axes: str, space: Space) -> View:
    """The view that the library expects of an operand with these axes. Raises UserError for another shape."""
    if axes == "mn":
        if view.shape != space.shape_mn:
            raise UserError(f"operand {name}[m,n] has shape {view.shape}; expected {space.shape_mn}")
        return space.to_native(view)
    wanted = store_shape(name, axes, "", space)
    if view.shape == wanted:
        return view
    # extents of 1 do not count
    extents = [(e, s) for e, s in zip(view.shape, view.strides) if e != 1]
    if axes == "m":
        dense = 1
        for extent, stride in reversed(extents):
            if stride != dense:
                raise UserError(
                    f"operand {name}[m] of shape {view.shape} is not dense; expected {space.row_count} neighbours"
                )
            dense *= extent
        if dense == space.row_count:
            return view.reshaped((dense,), (1,))
    elif [e for e, _ in extents] == [e for e in wanted if e != 1]:
        strides = iter(s for _, s in extents)
        return view.reshaped(wanted, tuple(next(strides) if e != 1 else 1 for e in wanted))
    raise UserError(f"operand {name}{in_brackets(axes)} has shape {view.shape}; expected {wanted}")


def store_shape(name: str, axes: str, form: str, space: Space) -> tuple[int, ...]:
    """The caller's shape of an output. Axes with groups, such as 'bg32', end in their number of groups."""
    if axes == "mn":
        rows = space.rows
        if form == "max_pool_2x2":
            rows = tuple(extent // 2 for extent in rows)
        elif form == "upsample_2x2":
            rows = tuple(extent * 2 for extent in rows)
        sized = Space(space.images, rows, space.cols, space.channels_first, space.native_channels_last,
                      space.is_batched)
        return sized.shape_mn
    row, _, groups = axes.partition("g")
    shape = {"b": (space.images,), "m": (space.row_count,), "": ()}[row.replace("n", "")]
    return shape + ((int(groups),) if groups else (space.cols,) if "n" in axes else ())
