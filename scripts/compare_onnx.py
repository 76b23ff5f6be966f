#!/usr/bin/env python3
"""Runs ONNX models with coda and with ONNX Runtime on the same random inputs, and compares results and times.

usage: compare_onnx.py CODA MODEL[:NAME=2x3x48x320,…] …

Extents of an input that the model leaves open are given behind the model's name. Fails if an output differs by more
than --tolerance of its largest value. Needs numpy and onnxruntime (scripts/setup.sh bench).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def random_inputs(session, shapes):
    """Standard normal float32; the same for each run."""
    generator = np.random.default_rng(1)
    inputs = {}
    for i in session.get_inputs():
        shape = shapes.get(i.name) or i.shape
        if not all(isinstance(extent, int) and extent > 0 for extent in shape):
            sys.exit(f"input '{i.name}' has shape {i.shape}; give its extents: MODEL:{i.name}=1x3x224x224")
        inputs[i.name] = generator.standard_normal(shape).astype(np.float32)
    return inputs


def median_ms(run, repeat):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def run_coda(coda, model, inputs, repeat, folder):
    """({file name without .npy: array}, milliseconds)"""
    command = [coda, "run", str(model), "--out", f"{folder}/out", "--repeat", str(repeat)]
    for number, (name, value) in enumerate(inputs.items()):
        np.save(f"{folder}/{number}.npy", value)
        command += ["--input", f"{name}={folder}/{number}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    ms = re.search(r"([0-9.]+) ms a run", done.stdout)
    return {p.stem: np.load(p) for p in pathlib.Path(f"{folder}/out").glob("*.npy")}, float(ms.group(1)) if ms else None


def compare(coda, spec, repeat, threads, tolerance):
    path, _, rest = spec.partition(":")
    shapes = {}
    for part in filter(None, rest.split(",")):
        name, _, extents = part.partition("=")
        shapes[name] = [int(extent) for extent in extents.split("x")]
    session = open_session(path, threads)
    inputs = random_inputs(session, shapes)
    expected = session.run(None, inputs)
    theirs = median_ms(lambda: session.run(None, inputs), repeat)
    with tempfile.TemporaryDirectory() as folder:
        try:
            actual, ours = run_coda(coda, path, inputs, repeat, folder)
        except RuntimeError as error:
            print(f"{os.path.basename(path)}: FAILED: {error}")
            return False
    ok = True
    for output, value in zip(session.get_outputs(), expected):
        y = actual[re.sub(r"[^A-Za-z0-9._-]", "_", output.name)]
        error = float(np.abs(y - value).max() / max(np.abs(value).max(), 1e-30)) if y.shape == value.shape else np.inf
        ok = ok and error <= tolerance
        print(f"{os.path.basename(path)}: {output.name} {value.shape}: error {error:.1e} of the largest value"
              f"{'' if error <= tolerance else ', FAILED'}; {ours:.2f} ms, ONNX Runtime {theirs:.2f} ms")
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coda")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tolerance", type=float, default=1e-4)
    a = parser.parse_args()
    results = [compare(a.coda, m, a.repeat, a.threads, a.tolerance) for m in a.models]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
