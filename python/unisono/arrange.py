"""Tensors of PyTorch on a GPU as the kernel of a call takes them: as they lie, or with as few copies as it takes.

What is decided here depends on shapes, strides, dtypes and alignments alone. It is decided when a call is prepared,
before anything is launched, and is then the same at every run: a CUDA graph that captures the call replays its copies.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any, Callable, Iterator, Sequence

from ._native import Unsupported, UserError
from .calls import ALIGNMENT, Call, count_copies, ordered
from .tensors import is_torch

_log = logging.getLogger("unisono")


def is_dense(x: Any) -> bool:
    """Whether a tensor of PyTorch lies in the order of its extents, or with the last two exchanged, and begins where
    kernels can read it."""
    turned = x.dim() >= 2 and x.transpose(-2, -1).is_contiguous()
    return (x.is_contiguous() or turned) and x.data_ptr() % ALIGNMENT == 0


def arrangements(tensors: Sequence[Any], factors: int, on_gpu: bool) -> Iterator[tuple[int, ...]]:
    """Places of the tensors to copy: none, then each alone, operands (from the place `factors` on) first, then all
    operands, then all. A tensor that is_dense is copied in the last alone."""
    yield ()
    there = [i for i, t in enumerate(tensors) if is_torch(t)]
    if not on_gpu:
        return
    apart = [i for i in there if not is_dense(tensors[i])]
    operands = tuple(i for i in apart if i >= factors)
    singles = [(i,) for i in (*operands, *(i for i in apart if i < factors))]
    turned = tuple(i for i in there if not tensors[i].is_contiguous() or i in apart)
    seen = {()}
    for places in itertools.chain(singles, [operands, tuple(apart), turned]):
        if places not in seen:
            seen.add(places)
            yield places


STRICT = "strict"  # an option of calls of compiled graphs: what would be copied before each launch is an error


def without_strict(options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options of the kernel, and whether STRICT is among those of the call."""
    return {name: value for name, value in options.items() if name != STRICT}, bool(options.get(STRICT))


def arranged(prepare: Callable[[list[Any], list[str]], Call], tensors: Sequence[Any], factors: int, what: str,
             strict: bool = False) -> Call:
    """The call that `prepare` makes of the tensors and the orders of their copies, for the first of the arrangements()
    that its kernel takes. Raises what the first one raised if none is found, and Unsupported if it is strict and
    something would be copied."""
    failure: Exception | None = None
    on_gpu = is_torch(tensors[0]) and tensors[0].is_cuda  # kernels of a CPU take all strides
    for places in arrangements(tensors, factors, on_gpu):
        orders = ["contiguous" if i in places else "" for i in range(len(tensors))]
        try:
            call = prepare([ordered(t, o) if o else t for t, o in zip(tensors, orders)], orders)
        except (UserError, Unsupported) as error:
            failure = failure or error
            continue
        if failure is not None:
            note_copies(what, tensors, places, f"its kernel does not read it as it lies: {failure}", strict)
        return call
    assert failure is not None
    raise failure


def note_copies(what: str, tensors: Sequence[Any], places: Sequence[int], why: str, strict: bool) -> None:
    """Counts the tensors at these places and warns of them, or raises Unsupported if it is strict."""
    if not places:
        return
    copied = ", ".join(f"{tuple(tensors[i].shape)} with strides {tensors[i].stride()}" for i in places)
    about = f"copies {copied} before each launch, as {why}"
    if strict:
        raise Unsupported(f"with strict=True, and {what} {about}")
    count_copies(len(places))
    _log.warning("%s %s", what, about)
