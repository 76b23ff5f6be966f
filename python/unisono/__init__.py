"""Unisono computes a convolution or a matrix product and its epilogue in one kernel.

    y = unisono.conv2d(x, w, "silu(group_norm(acc + bias[n], groups=32, scale=g[n], shift=b[n]))", bias=…, g=…, b=…)

`conv2d`, `conv3d` and `gemm` take NumPy arrays and PyTorch tensors. `parse`, `GraphBuilder`, `compile`, `Executable`
and `Launch` are the C++ interface, for tensors of any framework that supports DLPack. The guide is docs/python.md.
"""

from pathlib import Path as _Path
from typing import Any as _Any, Optional as _Optional

from . import _native
from ._native import (  # noqa: F401
    Cancelled, CompileError, Conv2d, Conv3d, ConvTranspose2d, Device, DeviceError, DType, Error, Executable, Gemm,
    Graph, GraphBuilder, InternalError, KernelExplanation, Launch, Layout, Network, NetworkExecutable, OperandInfo,
    StoreInfo,
    Tensor, Unsupported, UserError, Value, compile, compile_network, explain,
    input_gradient, load_onnx, pack_network, parse)
from . import compiler as _compiler
from .epilogues import Epilogue, epilogue  # noqa: F401
from .calls import cache_clear, cache_info  # noqa: F401
from .functional import conv2d, conv2d_into, gemm  # noqa: F401
from .direct import conv2d_dgrad, swiglu  # noqa: F401
from .volumes import conv3d  # noqa: F401
from .doctor import doctor  # noqa: F401
from . import ops  # noqa: F401
from .ops import *  # noqa: F401,F403

# What type checkers take for exported, and users may import
__all__ = [
    "__version__", "Cancelled", "CompileError", "Conv2d", "Conv3d", "ConvTranspose2d", "Device", "DeviceError",
    "DType", "Error", "Executable", "Gemm", "Graph", "GraphBuilder", "InternalError", "KernelExplanation", "Launch",
    "Layout",
    "Network", "NetworkExecutable", "OperandInfo", "StoreInfo", "Tensor", "Unsupported", "UserError", "Value",
    "compile", "compile_network", "explain", "load_onnx", "pack_network", "parse", "Epilogue", "epilogue",
    "cache_clear", "cache_info", "conv2d", "conv2d_dgrad", "conv2d_into", "conv3d", "gemm", "input_gradient", "swiglu",
    "doctor",
    "ops", "export", "freeze",
]
__all__ += ops.__all__

__version__: str = getattr(_native, "__version__")

_compiler.announce_packages()
_compiler.warn_if_missing()


def export(model: _Any, example: _Any, path: _Any, *, dynamic_shapes: _Any = None, pack: _Any = False,
           precision: _Optional[str] = None) -> _Path:
    """Writes a PyTorch model as an ONNX file, with its weights in a safetensors file next to it. Needs the package
    onnx.

    model: in eval mode. example: its arguments, a tensor or a tuple of tensors. path: ends in .onnx; the weights are
    written next to it, with the suffix .safetensors. dynamic_shapes: see torch.export.export. pack: True also compiles
    the kernels for an H200 and the shapes of the example, into a folder with the suffix .pack; a path states the
    folder. precision: 'bf16' or 'f16', of the pack's kernels (default: 'bf16').

    The inputs have the names of the parameters of forward(). Returns the path. Raises UserError for a model in training
    mode, and Unsupported with all operators that have no translation.
    """
    from .pytorch.export import export as write
    return write(model, example, path, dynamic_shapes=dynamic_shapes, pack=pack, precision=precision)


def freeze(module: _Any) -> _Any:
    """Freezes the weights of a PyTorch module in place: eval mode, no gradients, filters channels last.

    Kernels then read the filters of 2-D convolutions without a copy at each call. Later writes to the weights are seen
    by the next call or replay. Images must be channels last as well. Returns the module. Raises UserError for anything
    but a module.
    """
    from .pytorch.frozen import freeze as declare
    return declare(module)
