"""The bindings' CUDA side on the emulated GPU, where the build folder has one (tests/emulator)."""

import os
import pathlib
import subprocess
import sys

import pytest

import unisono

EMULATOR = pathlib.Path(unisono.__file__).parent.parent.parent / "tests" / "emulator"


@pytest.mark.skipif(not (EMULATOR / "lib" / "libcuda.so.1").exists(), reason="the build folder has no emulated GPU")
def test_kernels_launches_and_workspaces(tmp_path):
    here = pathlib.Path(__file__).parent
    environment = {**os.environ, "CUDA_HOME": str(EMULATOR), "LD_LIBRARY_PATH": str(EMULATOR / "lib"), "UNISONO_EMULATOR_SMS": "8",
                   "UNISONO_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(here / "on_emulated_gpu.py")], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr
