#!/usr/bin/env python3
"""Runs ONNX models with unisono and with ONNX Runtime on the same inputs, and compares results and times.

usage: compare_onnx.py UNISONO MODEL[:NAME=2x3x48x320,…] …

Extents of an input that the model leaves open are given behind the model's name; inputs are random numbers. The results
must not differ by more than --tolerance of the largest value; which of the two is nearer to the truth is what
`python -m networks` asks (make networks). The exit code is 1 if a model disagrees or fails. Needs numpy and onnxruntime
(scripts/setup.sh bench).
"""
import argparse
import json
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
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def make_inputs(session, given):
    """Standard normal float32 of the extents that are given, the same in each run."""
    generator = np.random.default_rng(1)
    inputs = {}
    for i in session.get_inputs():
        shape = given.get(i.name) or i.shape
        if not all(isinstance(extent, int) and extent > 0 for extent in shape):
            sys.exit(f"input '{i.name}' has shape {i.shape}; give its extents: MODEL:{i.name}=1x3x224x224")
        inputs[i.name] = generator.standard_normal(shape).astype(np.float32)
    return inputs


def median_ms(run, repeat):
    run()  # the first plans
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def failure(text):
    """Standard error without the lines of progress."""
    return "\n".join(line for line in text.strip().splitlines() if not line.endswith(" s so far"))


def run_unisono(unisono, model, inputs, repeat, threads):
    """({file name without .npy: array}, milliseconds)"""
    with tempfile.TemporaryDirectory() as folder:
        command = [unisono, "run", str(model), "--out", f"{folder}/out", "--repeat", str(repeat),
                   "--threads", str(threads), "--json"]
        for number, (name, value) in enumerate(inputs.items()):
            np.save(f"{folder}/{number}.npy", value)
            command += ["--input", f"{name}={folder}/{number}.npy"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(failure(done.stderr) or done.stdout.strip())
        arrays = {p.stem: np.load(p) for p in pathlib.Path(f"{folder}/out").glob("*.npy")}
        return arrays, json.loads(done.stdout)


def deviation(y, exact):
    """Largest difference; infinite if shapes differ or a value is no number."""
    if y is None or y.shape != exact.shape:
        return np.inf
    worst = float(np.abs(y.astype(np.float64) - exact).max()) if y.size else 0.0
    return worst if np.isfinite(worst) else np.inf


def compare(path, given, options):
    """A line about the worst output, and whether all agree."""
    session = open_session(path, options.threads)
    inputs = make_inputs(session, given)
    theirs = session.run(None, inputs)
    name = f"{path.stem} {', '.join('x'.join(map(str, v.shape)) for v in inputs.values())}"
    try:
        ours, report = run_unisono(options.unisono, path, inputs, options.repeat, options.threads)
    except RuntimeError as error:
        return f"{name}: FAILED: {error}", False
    worst = 0.0
    for output, value in zip(session.get_outputs(), theirs):
        y = ours.get(re.sub(r"[^A-Za-z0-9._-]", "_", output.name))
        scale = max(float(np.abs(value).max()), 1e-30) if value.size else 1.0
        worst = max(worst, deviation(y, value) / scale)
    agrees = worst <= options.tolerance
    return (f"{name}: difference {worst:.1e} of the largest value{'' if agrees else ', FAILED'}; "
            f"{report['time']['median_ms']:.2f} ms, ONNX Runtime "
            f"{median_ms(lambda: session.run(None, inputs), options.repeat):.2f} ms"), agrees


def parse(spec):
    """(path, {input: extents}) of MODEL:NAME=2x3x48x320,…"""
    path, _, rest = spec.partition(":")
    shapes = {}
    for part in filter(None, rest.split(",")):
        name, _, extents = part.partition("=")
        shapes[name] = [int(extent) for extent in extents.split("x")]
    return pathlib.Path(path), shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unisono")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    good = 0
    for spec in options.models:
        line, agrees = compare(*parse(spec), options)
        good += agrees
        print(line, flush=True)
    print(f"{good} of {len(options.models)} models agree")
    sys.exit(0 if good == len(options.models) else 1)


if __name__ == "__main__":
    main()
