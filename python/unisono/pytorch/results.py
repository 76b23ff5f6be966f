"""Results of a graph in eager mode's strides, in separate memory or shared as in eager mode."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.fx import Node

from .._native import Unsupported


class Place(NamedTuple):
    """Where a result lies. input: that of which it is a view; group: of results that share memory, the first; offset:
    elements from where the input, or the group's memory, begins."""
    input: Optional[int] = None
    group: Optional[int] = None
    offset: int = 0


def _once(tensor: Tensor) -> Tensor:
    """Without the repetitions of an expanded tensor."""
    for axis, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def overlaps(tensor: Tensor) -> bool:
    """Whether two elements may lie in one place."""
    end = 1
    for extent, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda dim: dim[1]):
        if extent > 1 and stride < end:
            return True
        end = max(end, (extent - 1) * stride + 1)
    return False


def _check(place: int, value: Any) -> None:
    if not isinstance(value, Tensor):
        if not isinstance(value, (int, float, bool, type(None))) or isinstance(value, torch.SymInt):
            raise Unsupported(f"result {place} is a {type(value).__name__}")
        return
    if not all(isinstance(e, int) for e in (*value.shape, *value.stride())):
        raise Unsupported(f"result {place} has extents that are not known")
    if overlaps(_once(value)):
        raise Unsupported(f"elements of result {place} share memory: strides {tuple(value.stride())}")


class Results:
    """like: results and, of the graph's inputs, examples as fake tensors, which share memory where eager mode's do."""

    def __init__(self, like: Sequence[Any], inputs: Sequence[Any]):
        self.like = list(like)
        for place, value in enumerate(like):
            _check(place, value)
        self.places = [self._place(i, inputs) for i in range(len(like))]

    def _place(self, place: int, inputs: Sequence[Any]) -> Place:
        value = self.like[place]
        if not isinstance(value, Tensor):
            return Place()
        storage = value.untyped_storage()._cdata
        shared = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.untyped_storage()._cdata == storage]
        group = [i for i, t in enumerate(self.like) if isinstance(t, Tensor) and t.untyped_storage()._cdata == storage]
        others = [inputs[i] for i in shared] + [self.like[i] for i in group]
        if len(others) == 1:
            return Place()
        if any((t.dtype, t.is_conj(), t.is_neg()) != (value.dtype, False, False) for t in others):
            raise Unsupported(f"result {place} shares memory with a tensor of another type")
        if shared:
            return Place(input=shared[0], offset=value.storage_offset() - inputs[shared[0]].storage_offset())
        return Place(group=group[0], offset=value.storage_offset() - min(t.storage_offset() for t in others))

    def are_computed(self) -> list[bool]:
        """Of each, whether it is a tensor that is no view of an input."""
        return [isinstance(t, Tensor) and p.input is None for t, p in zip(self.like, self.places)]

    def direct(self) -> list[bool]:
        """Of each, whether it may be written where it is returned."""
        return [isinstance(t, Tensor) and p == Place() and not overlaps(t) for t, p in zip(self.like, self.places)]

    def made(self, values: Sequence[Any], inputs: Sequence[Any], kept: Sequence[Tensor]) -> list[Any]:
        """values: the results as they were computed; kept: tensors that nobody may write."""
        found: list[Any] = []
        groups: dict[int, Tensor] = {}
        taken = {t.untyped_storage()._cdata for t in (*inputs, *kept) if isinstance(t, Tensor)}
        for value, like, place in zip(values, self.like, self.places):
            if place.input is not None:
                given = inputs[place.input]
                value = given.as_strided(like.shape, like.stride(), given.storage_offset() + place.offset)
            elif place.group is not None:
                if place.group not in groups:
                    groups[place.group] = self._memory(place.group)
                value = _written(groups[place.group], value, like, place.offset)
            elif isinstance(like, Tensor):
                if value.stride() != like.stride() or value.untyped_storage()._cdata in taken:
                    value = _written(_empty(_span(like), like), value, like, 0)
                taken.add(value.untyped_storage()._cdata)
            found.append(value)
        return found

    def _memory(self, group: int) -> Tensor:
        """Of all results of a group."""
        own = [(t, p.offset) for t, p in zip(self.like, self.places) if p.group == group]
        return _empty(max(offset + _span(t) for t, offset in own), own[0][0])


def _empty(count: int, like: Tensor) -> Tensor:
    return torch.empty(count, dtype=like.dtype, device=like.device)


def _span(like: Tensor) -> int:
    """Elements from the first to the last."""
    return 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride())) if like.numel() else 0


def _written(memory: Tensor, value: Tensor, like: Tensor, offset: int) -> Tensor:
    """The value there, in the strides that it is to have."""
    result = memory.as_strided(like.shape, like.stride(), offset)
    repeats = [i for i, (n, s) in enumerate(zip(like.shape, like.stride())) if s == 0 and n > 1]
    for axis in repeats:
        value = value.narrow(axis, 0, 1)
    _once(result).copy_(value)
    return result
