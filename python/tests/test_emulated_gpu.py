"""The bindings' CUDA side on the emulated GPU, where the build folder has one (tests/emulator)."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import limited
import pytest

import unisono

EMULATOR = pathlib.Path(unisono.__file__).parent.parent.parent / "tests" / "emulator"


pytestmark = pytest.mark.skipif(not (EMULATOR / "lib" / "libcuda.so.1").exists(), reason="the build folder has no emulated GPU")
HERE = pathlib.Path(__file__).parent


def environment(cache):
    return {**os.environ, "CUDA_HOME": str(EMULATOR), "LD_LIBRARY_PATH": str(EMULATOR / "lib"), "UNISONO_EMULATOR_SMS": "8",
            "UNISONO_CACHE_DIR": str(cache)}


def test_kernels_launches_and_workspaces(tmp_path):
    done = limited.run([sys.executable, str(HERE / "on_emulated_gpu.py")], environment(tmp_path), 500)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.check
def test_an_exported_pack_serves_a_machine_without_a_compiler(tmp_path):
    """unisono.export(…, pack=True), and then the command without Python, where there is a driver and no compiler."""
    pytest.importorskip("torch"), pytest.importorskip("onnx")
    script = ("import sys, torch, unisono as u\nmodel = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 1), torch.nn.SiLU()).eval()\n"
              "path = u.export(model, torch.randn(1, 16, 8, 8), sys.argv[1], pack=True)\n")
    done = limited.run(
        [sys.executable, "-c", script, str(tmp_path / "model.onnx")], environment(tmp_path / "cache"), 500
    )
    assert done.returncode == 0, done.stderr
    assert any(len(p.name) == 32 for p in (tmp_path / "model.pack").iterdir())
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libcuda.so.1").symlink_to(EMULATOR / "lib" / "libcuda.so.1")
    command = EMULATOR.parent.parent / "tools" / "unisono" / "unisono"
    if not command.exists():
        pytest.skip("the build folder has no command")
    done = limited.run(
        [str(command), "run", str(tmp_path / "model.onnx"), "--random", "--device", "cuda", "--check", "--repeat", "1"],
        {
            "LD_LIBRARY_PATH": str(driver),
            "CUDA_HOME": "/nonexistent",
            "UNISONO_PACKS": str(tmp_path / "model.pack"),
            "UNISONO_CACHE_DIR": str(tmp_path / "empty"),
            "UNISONO_EMULATOR_SMS": "8",
            "PATH": "",
        },
        500,
    )
    assert done.returncode == 0 and "agree" in done.stdout, done.stdout + done.stderr
    assert not list((tmp_path / "empty").rglob("*.cubin"))  # nothing was compiled


def interruptible():
    """Programs that a shell starts in the background ignore SIGINT, and so would their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rank(cache, scale):
    started = subprocess.Popen([sys.executable, str(HERE / "on_killed_build.py"), str(scale)], env=environment(cache), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=interruptible)
    assert started.stdout.readline() == "building\n", started.stderr.read()
    return started


@pytest.mark.check
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["a killed rank", "SIGTERM", "Ctrl-C"])
def test_a_rank_that_ends_while_it_builds_leaves_nothing_stale(how, tmp_path):
    """Two ranks build one kernel in a shared cache; one ends meanwhile. The other goes on, and so does a later one."""
    scale = 0.5 + random.SystemRandom().randrange(10**6) * 1e-7  # a text that no compiler's cache has
    first, second = rank(tmp_path, scale), rank(tmp_path, scale)
    time.sleep(0.1)
    first.send_signal(how)
    first.communicate(timeout=200)
    assert first.returncode != 0  # it was building
    out, err = second.communicate(timeout=200)
    assert second.returncode == 0 and out == "right\n", out + err
    third = rank(tmp_path, scale)
    out, err = third.communicate(timeout=200)
    assert third.returncode == 0 and out == "right\n", out + err
    half = [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size == 0 and "lock" not in p.name]
    assert not half, half  # nothing that was begun lies about
