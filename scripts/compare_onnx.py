#!/usr/bin/env python3
"""Runs ONNX models with coda and with ONNX Runtime on the same inputs, and compares results and times.

usage: compare_onnx.py CODA MODEL[:NAME=2x3x48x320,…] …
       compare_onnx.py CODA --list build/networks/networks.json --float64 --json results.json

Extents of an input that the model leaves open are given behind the model's name; inputs are random numbers. --list
takes what export_networks.py writes. Without --float64 the results must not differ by more than --tolerance of the largest
value. With it the model is also evaluated in float64 (scripts/onnx_float64.py says how, and where the tolerance comes
from), both are compared with that, and coda must be within the tolerance. The exit code is 1 if a model disagrees or
fails. Needs numpy and onnxruntime (scripts/setup.sh bench), for --float64 the packages of
scripts/requirements-networks.txt (scripts/setup.sh networks).
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


def make_inputs(session, given, folder):
    """The arrays that are given as files, and for extents standard normal float32, the same in each run."""
    generator = np.random.default_rng(1)
    inputs = {}
    for i in session.get_inputs():
        if isinstance(given.get(i.name), str):
            inputs[i.name] = np.load(folder / given[i.name])
            continue
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


def run_coda(coda, model, inputs, repeat, threads):
    """({file name without .npy: array}, milliseconds)"""
    with tempfile.TemporaryDirectory() as folder:
        command = [coda, "run", str(model), "--out", f"{folder}/out", "--repeat", str(repeat),
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


def compare(case, inputs, session, exact, options):
    """Fields of a result: errors and tolerance as a share of the largest value (the worst output), times, `agrees`."""
    theirs = session.run(None, inputs)
    result = {"case": case["name"], **{k: case[k] for k in ("network", "exporter", "open") if k in case},
              "inputs": {k: list(v.shape) for k, v in inputs.items()}}
    try:
        ours, report = run_coda(options.coda, case["file"], inputs, options.repeat, options.threads)
    except RuntimeError as error:
        return result | {"agrees": False, "failure": str(error)}
    result |= {"kernels": report["kernels"], "coda_ms": report["time"]["median_ms"],
               "onnxruntime_ms": median_ms(lambda: session.run(None, inputs), options.repeat)}
    worst = []
    for number, (output, value) in enumerate(zip(session.get_outputs(), theirs)):
        y = ours.get(re.sub(r"[^A-Za-z0-9._-]", "_", output.name))
        judge, tolerance = exact[number] if exact else (value, None)
        scale = max(float(np.abs(judge).max()), 1e-30) if judge.size else 1.0
        allowed = options.tolerance if tolerance is None else tolerance / scale
        fields = {"output": output.name, "shape": list(value.shape), "difference": deviation(y, value) / scale,
                  "tolerance": allowed}
        if exact:
            fields |= {"coda_error": deviation(y, judge) / scale, "onnxruntime_error": deviation(value, judge) / scale}
        worst.append((fields.get("coda_error", fields["difference"]) / max(allowed, 1e-30), fields))
    _, fields = max(worst, key=lambda w: w[0])
    return result | fields | {"agrees": all(share <= 1 for share, _ in worst)}


def cases_of(options):
    """[{name, file, inputs: [{name: extents or file of an array}, …]}, …]"""
    if options.list:
        base = options.list.parent
        for entry in json.loads(options.list.read_text()):
            # a name is a path if it is absolute
            yield entry | {"file": base / entry["file"], "name": pathlib.Path(entry["file"]).stem}
    for spec in options.models:
        path, _, rest = spec.partition(":")
        shapes = {}
        for part in filter(None, rest.split(",")):
            name, _, extents = part.partition("=")
            shapes[name] = [int(extent) for extent in extents.split("x")]
        yield {"file": pathlib.Path(path), "name": pathlib.Path(path).stem, "inputs": [shapes]}


def exact_results(case, number, inputs, folder):
    """What Float64.run gives, kept in a folder beside the list while nothing that it is made of is newer."""
    from onnx_float64 import Float64
    kept = folder / "float64" / f"{case['name']}.{number}.npz"
    sources = [case["file"], pathlib.Path(__file__).parent / "onnx_float64.py"]
    sources += [folder / v for v in case["inputs"][number].values() if isinstance(v, str)]
    if kept.exists() and all(kept.stat().st_mtime > s.stat().st_mtime for s in sources):
        arrays = np.load(kept)
        return [(arrays[f"value{i}"], float(arrays[f"tolerance{i}"])) for i in range(len(arrays) // 2)]
    results = Float64(case["file"]).run(inputs)
    kept.parent.mkdir(exist_ok=True)
    arrays = {f"value{i}": v for i, (v, _) in enumerate(results)}
    np.savez(kept, **arrays, **{f"tolerance{i}": t for i, (_, t) in enumerate(results)})
    return results


def run_case(case, options):
    session = open_session(case["file"], options.threads)
    folder = options.list.parent if options.list else pathlib.Path(tempfile.gettempdir())
    for number, given in enumerate(case["inputs"]):
        inputs = make_inputs(session, given, folder)
        exact = exact_results(case, number, inputs, folder) if options.float64 else None
        yield compare(case, inputs, session, exact, options)


def describe(r):
    shapes = ", ".join("x".join(map(str, s)) for s in r["inputs"].values())
    if "failure" in r:
        return f"{r['case']} {shapes}: FAILED: {r['failure']}"
    errors = (f"error {r['coda_error']:.1e} (ONNX Runtime {r['onnxruntime_error']:.1e}, tolerance {r['tolerance']:.1e})"
              if "coda_error" in r else f"difference {r['difference']:.1e}")
    return (f"{r['case']} {shapes}: {errors} of the largest value{'' if r['agrees'] else ', FAILED'}; "
            f"{r['coda_ms']:.2f} ms, ONNX Runtime {r['onnxruntime_ms']:.2f} ms")


def table(results):
    """The results of a --list run with --float64, as rows of Markdown."""
    opened = {"": "", "n": ", open batch", "nhw": ", open batch and size"}
    yield "| network | exporter | input | error | ONNX Runtime's | tolerance | ms | ONNX Runtime, ms |"
    yield "|---|---|---|---|---|---|---|---|"
    for r in results:
        shape = ", ".join("x".join(map(str, s)) for s in r["inputs"].values())
        errors = [f"{r[k]:.1e}" if k in r else "failed" for k in ("coda_error", "onnxruntime_error", "tolerance")]
        times = [f"{r[k]:.1f}" if k in r else "" for k in ("coda_ms", "onnxruntime_ms")]
        yield f"| {' | '.join([r['network'], r['exporter'] + opened[r['open']], shape, *errors, *times])} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coda")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a regular expression: of the list, what has it in its name")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the results")
    parser.add_argument("--markdown", type=pathlib.Path, help="a file for a table (with --list and --float64)")
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    if not options.models and not options.list:
        parser.error("give models, or --list")
    results = []
    for case in cases_of(options):
        if re.search(options.only, case["name"]):
            for result in run_case(case, options):
                results.append(result)
                print(describe(result), flush=True)
    if options.json:
        whole = {"suite": "networks", "threads": options.threads, "cases": results}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text("\n".join(table(results)) + "\n")
    good = sum(r["agrees"] for r in results)
    print(f"{good} of {len(results)} runs agree")
    sys.exit(0 if results and good == len(results) else 1)


if __name__ == "__main__":
    main()
