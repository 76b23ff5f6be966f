#!/usr/bin/env python3
"""Installs a wheel of the Python package in an empty environment, and runs README's lines of Python there.

usage: wheel.py WHEEL [--python PYTHON] [--torch FOLDER]

WHEEL is for PYTHON (default: this one). FOLDER: the site-packages of that version of Python which have PyTorch; without it,
calls are tried on NumPy arrays alone. It fails if the wheel has over 40 MB or the library twice, if the installation takes more than 30 s, if there are two OpenMP runtimes in
the process, whichever of the two libraries is imported first, if the operators in C++ are not used, or if the command in the
wheel does not run.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_SECONDS, MOST_BYTES = 30, 40_000_000

CALLS = """
import numpy as np, unisono
x, w = np.ones((1, 8, 6, 6), np.float32), np.ones((16, 8, 3, 3), np.float32)
y = unisono.conv2d(x, w, "relu(acc + bias[n])", bias=np.ones(16, np.float32), padding=1)
assert y.shape == (1, 16, 6, 6) and y[0, 0, 2, 2] == 73, y
assert "self-test of the extension: passed" in unisono.doctor(), unisono.doctor()
"""
RUNTIMES = """
import re
runtimes = {line.split()[-1] for line in open("/proc/self/maps") if re.search(r"/lib(gomp|omp|iomp)[^/]*\\.so", line)}
assert len(runtimes) == 1, runtimes
"""
OPERATORS = """
from unisono.pytorch import library
assert library.is_native(), library.layer()
"""


def run(python, script, **environment):
    bare = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    done = subprocess.run([python, "-c", script], env={**bare, **environment}, cwd="/", capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed:\n{script}\n{done.stdout}{done.stderr}")


def lines_of_readme():
    text = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    return ("import torch\nmodel = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.SiLU()).eval()\n"
            "images = torch.randn(1, 3, 16, 16)\n") + text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch", type=pathlib.Path)
    options = parser.parse_args()
    libraries = [name for name in zipfile.ZipFile(options.wheel).namelist() if "/libunisono.so" in name]
    if len(libraries) != 1 or options.wheel.stat().st_size > MOST_BYTES:
        sys.exit(f"{options.wheel} has {options.wheel.stat().st_size} bytes and {libraries}; expected one library in {MOST_BYTES} bytes")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.python, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        start = time.monotonic()
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", options.wheel.resolve()], check=True)
        seconds = time.monotonic() - start
        print(f"installed in {seconds:.1f} s", flush=True)
        if seconds > MOST_SECONDS:
            sys.exit(f"the installation took {seconds:.1f} s; expected at most {MOST_SECONDS}")
        run(python, CALLS)
        subprocess.run([f"{folder}/bin/unisono", "explain", "store relu(acc)", "--gemm", "64,64->64"], check=True, stdout=subprocess.DEVNULL)
        if options.torch is None:
            return
        site = next(pathlib.Path(folder).glob("lib/python*/site-packages"))
        (site / "torch.pth").write_text(f"{options.torch.resolve()}\n")
        for first in ("import torch, unisono", "import unisono, torch"):
            run(python, f"{first}\nimport torch\ntorch.randn(64, 64) @ torch.randn(64, 64)\n" + CALLS + OPERATORS + RUNTIMES)
        run(python, lines_of_readme())


if __name__ == "__main__":
    main()
