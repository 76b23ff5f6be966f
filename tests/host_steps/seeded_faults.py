"""Faults put into host steps, and into launches of tensor kernels, one at a time, as text in one source of the library; the tests
of networks with such have to find each.

usage: seeded_faults.py BUILD TESTS SOURCES [I/N]

I/N: every N-th fault, from the I-th on (0 to N - 1).
BUILD is a build folder of Ninja, TESTS the program unisono_host_step_tests in it, SOURCES the root of the tree. The program
runs on the emulated GPU, as the environment says. That a step waits for what is ahead of it only a real GPU shows: the
emulated one runs everything in order.
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "random_networks"))
from seeded_faults import compiles, ninja, with_fault  # noqa: E402

# what goes wrong, file, the text there, what stands in its place
FAULTS = [
    ("staging: the tensors of a step lie upon each other", "src/network/cuda/emit/host_places.cpp", ".offset = std::exchange(staged_,",
     ".offset = 0 * std::exchange(staged_,"),
    ("an order of memory: images cross with their channels first", "src/network/cuda/run/workspace.cpp", "t.type, t.shape, t.strides});",
     "t.type, t.shape, row_major_strides(t.shape)});"),
    ("an alias: what a view shows to kernels stays on the host", "src/network/cuda/decide/host_groups.cpp",
     "for (const TensorId part : data_inputs(op(*makers_[id]))) need(members, group, part, true);", ""),
    ("a copy: what a step has made stays on the host", "src/network/cuda/run/segments.cpp",
     "cuda::copy(plan_.device_index, staging_ + t.staged->offset, memory_.get() + t.offset, t.bytes, stream);", "(void)t;"),
    ("an address: all tensors of an operator are its first", "src/network/cuda/emit/tensor_kernels.cpp", "return arguments.at(a.number);",
     "return arguments.at(0 * a.number);"),
    ("strides: rows of pixels are taken for dense", "src/network/cuda/tensor/launches.cpp", "logical_strides(sizes, tensor.pitch)",
     "logical_strides(sizes, column_count(sizes))"),
    ("a place: all parts of a concatenation lie upon each other", "src/network/cuda/tensor/movement.cpp",
     "part.offset += part.shape[axis]", "part.offset += 0 * part.shape[axis]"),
    ("a choice: a region's kernel has its operators' operands in the order of the network's tensors", "src/network/cuda/tensor/regions.cpp",
     "node.operands.push_back(values_.at(id));", "node.operands.insert(node.operands.begin(), values_.at(id));"),
]


def missed(build, tests, root, fault, compilations):
    """What is wrong with finding this fault, or None."""
    what, file, good, bad = fault
    source = root / file
    text = source.read_text()
    if text.count(good) != 1:
        return f"{what}: {file} does not have '{good}' once any more; put the fault elsewhere"
    with tempfile.TemporaryDirectory() as folder:
        compilation = next(c for c in compilations if compiles(c, source, root))
        program = with_fault(build, tests, "networks.cpp.o", compilation, source, text.replace(good, bad), pathlib.Path(folder))
        done = subprocess.run([program, "--gtest_filter=*AgreeWithTheReference*:*AgreeWithoutHostSteps*", "--gtest_fail_fast"], capture_output=True, text=True)
    # a kernel that reads far outside of its tensors ends the emulated GPU, as an address of another tensor has one do
    is_outside = done.returncode == -signal.SIGSEGV and what.startswith("an address")
    if is_outside or done.returncode == 1 and "[  FAILED  ]" in done.stdout:
        print(f"{what}: found", flush=True)
        return None
    return f"{what}: not found (exit code {done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def main():
    build, tests, root = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    compilations = json.loads(ninja(build, "-t", "compdb"))
    first, step = (int(n) for n in sys.argv[4].split("/")) if len(sys.argv) > 4 else (0, 1)
    faults = FAULTS[first::step]
    failures = [m for m in (missed(build, tests, root, f, compilations) for f in faults) if m]
    print("\n".join(failures) if failures else f"{len(faults)} seeded faults, all found")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
