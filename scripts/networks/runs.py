"""Runs a model with unisono and with ONNX Runtime, each in a process of its own."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


class Refused(Exception):
    """unisono says that it does not take the model."""


class Broken(Exception):
    """unisono crashed, or reported an error of its own."""


def run_unisono(unisono, model, inputs, repeat=0, threads=2, limit_s=900):
    """({output: array}, milliseconds); inputs is a .npz file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [unisono, "run", str(model), "--input", str(inputs), "--out", f"{folder}/out.npz",
                   "--repeat", str(max(repeat, 1)), "--threads", str(threads), "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Broken(f"ran for more than {limit_s} s") from None
        if done.returncode != 0:
            lines = [line for line in done.stderr.strip().splitlines() if not line.endswith(" s so far")]
            text = "\n".join(lines) or f"exit code {done.returncode}"
            raise Refused(text) if done.returncode in (2, 3) else Broken(f"exit code {done.returncode}: {text}")
        with np.load(f"{folder}/out.npz") as arrays:
            return dict(arrays), json.loads(done.stdout)["time"]["median_ms"]


def open_session(model, threads, rewritten=True):
    """rewritten: by its own passes over the graph, some of which lose a value inside it that is an output, too."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    if not rewritten:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run_onnxruntime(model, inputs, outputs=None, threads=2, rewritten=True):
    """The outputs, in the model's order."""
    session = open_session(model, threads, rewritten)
    with np.load(inputs) as arrays:
        return session.run(outputs, {i.name: arrays[i.name] for i in session.get_inputs()})


def time_onnxruntime(model, inputs, repeat, threads):
    """Milliseconds, the median of `repeat` runs in a process of its own, as unisono's are."""
    files = [str(pathlib.Path(f).resolve()) for f in (model, inputs)]
    command = [sys.executable, "-m", "networks.runs", *files, str(repeat), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[1], check=True)
    return float(done.stdout)


def main():
    import time
    model, inputs, repeat, threads = sys.argv[1:]
    session = open_session(model, int(threads))
    with np.load(inputs) as arrays:
        feed = {i.name: arrays[i.name] for i in session.get_inputs()}
    session.run(None, feed)
    times = []
    for _ in range(int(repeat)):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    print(1e3 * float(np.median(times)))


if __name__ == "__main__":
    main()
