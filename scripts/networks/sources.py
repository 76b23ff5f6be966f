"""A hash over the sources that decide what a network computes, by which a row is known to be of this state.

Rows of another state stay in the lists of results, each with its commit, and are judged again.
"""
import functools
import hashlib
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
COMMON = ("src/ir", "src/network", "src/passes", "src/tensors", "src/weights")
FOLDERS = {"cpu": (*COMMON, "src/runtime/cpu"),
           "cuda": (*COMMON, "kernels", "src/codegen", "src/families", "src/lower", "src/plan", "src/products")}
SUFFIXES = {".cpp", ".hpp", ".inc", ".def", ".cuh", ".h"}


@functools.cache
def state(device):
    """16 digits; device is "cpu" or "cuda"."""
    whole = hashlib.sha256()
    for folder in FOLDERS[device]:
        for file in sorted((ROOT / folder).rglob("*")):
            name = file.relative_to(ROOT).as_posix()
            if file.suffix in SUFFIXES and (device == "cuda" or not name.startswith("src/network/cuda/")):
                whole.update(f"{name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def commit():
    """The commit of this tree, or nothing where it is no repository."""
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
