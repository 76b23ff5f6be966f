#!/usr/bin/env python3
"""Installs a wheel of the Python package in an empty environment, and runs README's lines of Python there.

usage: wheel.py WHEEL [--python PYTHON] [--torch FOLDER]… [--no-bare-root]

WHEEL is for PYTHON (default: this one). FOLDER: the site-packages of that version of Python which have PyTorch; without it,
calls are tried on NumPy arrays alone. The wheel is installed and called once more in a root folder without a compiler and
libgomp (bare_root.py), for which this process must be root or may map users (unshare).

It fails if the wheel has over 40 MB, the library twice or a library of others without its licence, if the installation takes
more than 30 s of a processor, if there are two OpenMP runtimes in the process, whichever of the two libraries is imported
first, if the operators in C++ are not used, or if the command in the wheel does not run.
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import zipfile

import bare_root

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


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(python, script, **environment):
    bare = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    done = subprocess.run([python, "-c", script], env={**bare, **environment}, cwd="/", capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed:\n{script}\n{done.stdout}{done.stderr}")


def lines_of_readme():
    text = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    return ("import torch\nmodel = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.SiLU()).eval()\n"
            "images = torch.randn(1, 3, 16, 16)\n") + text


def version_of(site):
    return next(site.glob("torch-*.dist-info")).name.removesuffix(".dist-info").split("-")[1]


def check_content(wheel):
    content = zipfile.ZipFile(wheel)
    sizes = {e.filename: e.file_size for e in content.infolist()}
    libraries = [name for name in sizes if "/libunisono.so" in name]
    command = sizes["unisono/bin/unisono"]
    if len(libraries) != 1 or command > sizes[libraries[0]] / 2 or wheel.stat().st_size > MOST_BYTES:
        sys.exit(f"{wheel} has {wheel.stat().st_size} bytes, of which the command has {command}, and {libraries}; "
                 f"expected one library, which the command uses, in {MOST_BYTES} bytes")
    others = {re.sub(r"(-[0-9a-f]{8})?\.so.*", "", pathlib.Path(name).name)
              for name in sizes if re.match(r"unisono(\.libs|/lib)/lib", name) and "/libunisono" not in name}
    licences = {pathlib.Path(name).stem for name in sizes if "/licenses/third_party/" in name}
    if not others or others - licences:
        sys.exit(f"{wheel} has no licence for {sorted(others - licences)} of {sorted(others)}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, with {len(others)} libraries of others and their licences", flush=True)


def check_seconds(seconds, used):
    print(f"installed in {seconds:.1f} s, of which {used:.1f} s on a processor", flush=True)
    if used > MOST_SECONDS:
        sys.exit(f"the installation took {used:.1f} s of a processor; expected at most {MOST_SECONDS}")


def try_in_bare_root(wheel, python):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        program = bare_root.make(root, python)
        subprocess.run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--only-binary", ":all:",
                        "-d", root / "wheels", wheel.resolve()], check=True)
        install = ["/venv/bin/python", "-m", "pip", "install", "-q", "--no-index", "--find-links", "/wheels", "unisono"]
        for command in ([program, "-m", "venv", "/venv"], install, ["/venv/bin/python", "-c", CALLS],
                        ["/venv/bin/unisono", "explain", "store relu(acc)", "--gemm", "64,64->64"]):
            start, used = time.monotonic(), processor_seconds()
            done = bare_root.run(root, command)
            if command is install:
                check_seconds(time.monotonic() - start, processor_seconds() - used)
            if done.returncode != 0:
                sys.exit(f"failed in a root folder without a compiler and libgomp: {' '.join(command)}\n"
                         f"{done.stdout}{done.stderr}")
    print("runs in a root folder without a compiler and libgomp", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--no-bare-root", dest="bare_root", action="store_false")
    options = parser.parse_args()
    check_content(options.wheel)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.python, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        start, used = time.monotonic(), processor_seconds()
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", options.wheel.resolve()], check=True)
        check_seconds(time.monotonic() - start, processor_seconds() - used)
        run(python, CALLS)
        subprocess.run([f"{folder}/bin/unisono", "explain", "store relu(acc)", "--gemm", "64,64->64"], check=True, stdout=subprocess.DEVNULL)
        site = next(pathlib.Path(folder).glob("lib/python*/site-packages"))
        for torch in options.torch:
            (site / "torch.pth").write_text(f"{torch.resolve()}\n")
            for first in ("import torch, unisono", "import unisono, torch"):
                run(python, f"{first}\nimport torch\ntorch.randn(64, 64) @ torch.randn(64, 64)\n" + CALLS + OPERATORS + RUNTIMES)
            run(python, lines_of_readme())
            print(f"runs beside PyTorch {version_of(torch)}, whichever is imported first", flush=True)
    if options.bare_root:
        try_in_bare_root(options.wheel, options.python)


if __name__ == "__main__":
    main()
