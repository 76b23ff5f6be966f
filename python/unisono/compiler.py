"""Finds NVRTC, the compiler of GPU kernels, in Python's packages, and warns if it is missing."""

from __future__ import annotations

import glob
import os
import sys
import warnings

from . import _native

INSTALL = "pip install nvidia-cuda-nvrtc (for a driver of CUDA 12: nvidia-cuda-nvrtc-cu12)"


def announce_packages() -> None:
    """Names the folders of sys.path that have packages of NVIDIA's, which PyTorch's wheels bring along. PyTorch is not
    imported."""
    for folder in sys.path:
        if os.path.isdir(os.path.join(folder, "nvidia")):
            _native._add_python_packages(os.path.abspath(folder))


def environment() -> dict[str, str]:
    """For the command, which is a process without sys.path: the environment with the folders of sys.path's packages
    that have NVRTC at the end of LD_LIBRARY_PATH."""
    found = [os.path.dirname(path) for folder in sys.path
             for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", "libnvrtc.so.*")))]
    paths = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)), *dict.fromkeys(found)]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)} if paths else dict(os.environ)


def has_gpu() -> bool:
    """Whether NVIDIA's driver is there, as a device file (WSL has another). The driver is not loaded."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def describe() -> str:
    """For doctor."""
    try:
        return _native._nvrtc()
    except _native.CompileError:
        return f"none, so that kernels of a GPU cannot be compiled: {INSTALL}"


def warn_if_missing() -> None:
    """One line on a machine with a GPU that cannot compile for it."""
    if has_gpu() and not _native._has_nvrtc():
        warnings.warn(f"unisono: this machine has a GPU, but no compiler for its kernels: {INSTALL}. "
                      "`python -m unisono doctor` says more.", RuntimeWarning, stacklevel=3)
