"""Compiled graphs on disk: neither another version of the package nor other options take them for their own."""

import os
import pathlib
import sys

import limited
import pytest

pytest.importorskip("torch")
SCRIPT = pathlib.Path(__file__).parent / "on_shared_cache.py"


def run(folder, graphs, *versions, **more):
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", **more}
    done = limited.run(
        [sys.executable, SCRIPT, graphs, *versions], environment
    )  # compiles from nothing: 30 s of two cores
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# Has whole graphs kept, which know of no regions, whatever a backend asks for
WHOLE = {"TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}


@pytest.mark.check
def test_two_versions_that_share_one_cache(tmp_path):
    assert run(tmp_path, "region,call", "one", **WHOLE) == ["one region:miss call:miss"]
    found = run(tmp_path, "region,call", "two", "one", **WHOLE)
    assert found == ["two region:miss call:miss", "one region:hit call:hit"]


@pytest.mark.long
@pytest.mark.parametrize("more", [{}, WHOLE])
def test_backends_and_options_that_share_one_cache(tmp_path, more):
    graphs = "inductor,region,none,call"
    assert run(tmp_path, graphs, "one", **more) == ["one inductor:miss region:miss none:miss call:miss"]
    assert run(tmp_path, graphs, "two", "one", **more) == ["two inductor:hit region:miss none:miss call:miss",
                                                           "one inductor:hit region:hit none:hit call:hit"]


def test_the_version_of_a_call_is_that_of_the_modules():
    import unisono
    from unisono.pytorch import texts
    cmake = pathlib.Path(__file__).parents[2] / "CMakeLists.txt"
    assert f"project(unisono VERSION {unisono.__version__} " in cmake.read_text()
    assert texts.VERSION.startswith(f"|version={unisono.__version__}+")
    names = texts.joined(["a", "b="], {"spare_sms": 2})
    assert names.endswith(texts.VERSION) and texts.options_of(names) == {"spare_sms": 2}
    assert texts.split(names, [2.0], [None]) == {"a": None, "b": 2.0}
