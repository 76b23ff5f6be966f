"""Tensors of NumPy and PyTorch as the library sees them, and new ones of the same kind."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._native import DType, Device, Tensor, UserError

NUMPY = {"float64": DType.f64, "float32": DType.f32, "float16": DType.f16, "bfloat16": DType.bf16, "int32": DType.i32,
         "bool": DType.bool, "int64": DType.i64, "int8": DType.i8, "uint8": DType.u8}
_torch_dtypes: dict[Any, DType] = {}
_of_torch: dict[DType, Any] = {}


def torch_dtypes() -> dict[Any, DType]:
    """{torch dtype: DType}; empty where PyTorch is not loaded."""
    if not _torch_dtypes and "torch" in sys.modules:
        import torch
        _torch_dtypes.update({torch.float64: DType.f64, torch.float32: DType.f32, torch.float16: DType.f16,
                              torch.bfloat16: DType.bf16, torch.int32: DType.i32, torch.bool: DType.bool,
                              torch.int64: DType.i64, torch.int8: DType.i8, torch.uint8: DType.u8})
    return _torch_dtypes


def torch_dtype_of(dtype: DType) -> Any:
    """The dtype of PyTorch."""
    if not _of_torch:
        _of_torch.update({d: t for t, d in torch_dtypes().items()})
    return _of_torch[dtype]


_tensor: Any = ()  # torch.Tensor, once PyTorch is loaded; nothing is an instance of ()


def _find_tensor() -> Any:
    global _tensor
    if (torch := sys.modules.get("torch")) is not None:
        _tensor = getattr(torch, "Tensor", ())  # absent while PyTorch is being imported
    return _tensor


def is_torch(x: Any) -> bool:
    return isinstance(x, _tensor or _find_tensor())


def is_torch_dtype(x: Any) -> bool:
    return "torch" in sys.modules and isinstance(x, sys.modules["torch"].dtype)


@dataclass(frozen=True)
class View:
    """Where a tensor lies, without its framework. Strides count elements."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: Device
    index: int
    owner: Any

    def permuted(self, order: tuple[int, ...]) -> View:
        return replace(self, shape=tuple(self.shape[i] for i in order), strides=tuple(self.strides[i] for i in order))

    def reshaped(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def native(self) -> Tensor:
        return Tensor(self.address, self.dtype, list(self.shape), list(self.strides), device=self.device,
                      device_index=self.index, owner=self.owner)


def view(name: str, x: Any) -> View:
    """What `x` is. Raises UserError that names the argument unless it is a NumPy array or a PyTorch tensor."""
    if is_torch(x):
        dtype = torch_dtypes().get(x.dtype)
        if dtype is None or x.layout is not sys.modules["torch"].strided or x.device.type not in ("cpu", "cuda"):
            raise UserError(
                f"argument '{name}' is a {x.layout} tensor of {x.dtype} on {x.device}; expected a dense one of "
                "float32, float16, bfloat16, float64, bool or integers, on a CPU or a CUDA device"
            )
        if x.is_conj() or x.is_neg():
            raise UserError(f"argument '{name}' is a lazily conjugated or negated tensor; call resolve_neg() first")
        device = Device.cpu if x.device.type == "cpu" else Device.cuda
        return View(x.data_ptr(), dtype, tuple(x.shape), x.stride(), device, x.device.index or 0, x)
    if isinstance(x, np.ndarray):
        dtype = NUMPY.get(x.dtype.name)
        size = x.dtype.itemsize
        if dtype is None or not x.dtype.isnative or any(s % size for s in x.strides):
            raise UserError(
                f"argument '{name}' is an array of {x.dtype} with strides {x.strides} bytes; expected float32, "
                "float16, bfloat16, float64, bool or integers of this machine's byte order"
            )
        return View(x.__array_interface__["data"][0], dtype, x.shape, tuple(s // size for s in x.strides), Device.cpu,
                    0, x)
    raise UserError(f"argument '{name}' is a {type(x).__name__}; expected a NumPy array or a PyTorch tensor "
                    "(other frameworks: unisono.compile() and Executable.run() take any DLPack tensor)")


def empty_like_layout(like: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Any:
    """A new tensor of the framework and device of `like` with these strides, those of a dense tensor. They count
    elements."""
    if is_torch(like):
        return sys.modules["torch"].empty_strided(shape, strides, dtype=torch_dtype_of(dtype), device=like.device)
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], i))
    made = empty(like, tuple(shape[i] for i in order), dtype)
    return made.transpose(sorted(range(len(shape)), key=order.__getitem__))


def empty(like: Any, shape: tuple[int, ...], dtype: DType, channels_last: bool = False) -> Any:
    """A new tensor of the framework and device of `like`. channels_last: (N,K,P,Q) or (N,K,O,P,Q), K innermost."""
    if is_torch(like):
        import torch
        kind = next(t for t, d in torch_dtypes().items() if d == dtype)
        last = torch.channels_last_3d if len(shape) == 5 else torch.channels_last
        memory_format = last if channels_last else torch.contiguous_format
        return torch.empty(shape, dtype=kind, device=like.device, memory_format=memory_format)
    name = next((n for n, d in NUMPY.items() if d == dtype), None)
    if dtype == DType.bf16:
        try:
            import ml_dtypes
        except ImportError as missing:
            raise UserError(
                "NumPy itself has no bfloat16: install ml_dtypes, or store the result as f32 or f16"
            ) from missing
        kind = ml_dtypes.bfloat16
    elif name is None:
        raise UserError(f"NumPy has no {dtype.name}; store the result as f32 or f16")
    else:
        kind = name
    if channels_last:
        n, k, *rows = shape
        return np.moveaxis(np.empty((n, *rows, k), kind), -1, 1)
    return np.empty(shape, kind)
