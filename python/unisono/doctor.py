"""Describes this installation and tests whether it works."""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys

from . import _native, compiler


def command() -> str | None:
    """The `unisono` command: the one in the wheel, else one of PATH (not a front of this package's own), else None."""
    own = pathlib.Path(__file__).parent / "bin" / "unisono"
    if own.is_file():
        return str(own)
    found = os.environ.get("UNISONO_COMMAND") or shutil.which("unisono")
    if found and pathlib.Path(found).read_bytes()[:4] == b"\x7fELF":
        return found
    return None


def _cpu_works() -> str:
    import numpy as np
    kernel = _native.compile(_native.Gemm(m=2, n=3, k=4), _native.parse("store silu(acc + bias[n]) as y"))
    y = np.full((2, 3), np.nan, np.float32)
    kernel.run(np.ones((2, 4), np.float32), np.ones((4, 3), np.float32), {"bias": np.zeros(3, np.float32)},
               outputs={"y": y})
    expected = 4 / (1 + np.exp(-4.0))
    return "passed" if np.allclose(y, expected, rtol=1e-6) else f"FAILED: {y}, expected {expected}"


def doctor() -> str:
    """Returns a report, as text: versions, frameworks, a self-test of the extension, and the output of the command
    `unisono doctor` about CPU, GPU, compiler and cache."""
    lines = [f"unisono {getattr(_native, '__version__')} in {pathlib.Path(_native.__file__).parent}",
             f"Python {platform.python_version()}, {sys.executable}"]
    for name in ("numpy", "torch"):
        module = sys.modules.get(name)
        if module is None:
            try:
                module = __import__(name)
            except ImportError:
                lines.append(f"{name}: not installed")
                continue
        lines.append(f"{name} {module.__version__}")
        if name == "torch":
            from .pytorch.library import layer
            lines.append(f"PyTorch's operators: {layer()[1]}")
    lines.append(f"compiler of a GPU's kernels: {compiler.describe()}")
    lines.append(f"self-test of the extension: {_cpu_works()}")
    tool = command()
    if tool is None:
        lines.append("command: not in this package or in PATH, so GPU, compiler and cache are not reported")
    else:
        found = subprocess.run([tool, "doctor"], env=compiler.environment(), capture_output=True, text=True)
        lines += ["", found.stdout.rstrip() or found.stderr.rstrip()]
    return "\n".join(lines)
