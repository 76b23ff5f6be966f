#!/usr/bin/env python3
"""The CPU suite: Unisono beside ONNX Runtime and plain oneDNN primitives, same threads, same run.

Every contender runs in a process of its own, in turn, for several rounds, so that a slow spell of the machine meets
all of them. A time is the median over all runs of all rounds; `spread` is the distance between the medians of the
rounds over that. Writes bench/results/cpu.json and docs/performance-cpu.svg, and prints a table of ratios.

Cases of kind `exported` are networks that `make networks` has left in build/networks (or $UNISONO_NETWORKS); where one is
not there, the case is left out, and the results and the last line of the output name it.

usage: bench/run.py [--cases bench/cases/cpu.txt] [--only REGEX] [--rounds 5] [--seconds 2] [--threads N] [--out bench/results/cpu.json]
--only measures the cases whose name matches and keeps the others of the file as they are.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_cases(path):
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            yield words[0], words[1], dict(w.split("=") for w in words[2:])


def make_block(what, options, work, rng):
    """Writes the ONNX file and the input of Conv2d -> GroupNorm -> activation; returns them with the operations."""
    n, h, w, c, k, r = (int(v) for v in what.split(","))
    arrays = {
        "weights": rng.standard_normal((k, c, r, r)) / np.sqrt(c * r * r),
        "bias": rng.standard_normal(k), "scale": rng.standard_normal(k), "shift": rng.standard_normal(k),
    }
    command = [sys.executable, str(ROOT / "bench/block_onnx.py"), str(work / "block.onnx"), "--groups", options["groups"],
               "--activation", options["activation"], "--height", str(h), "--width", str(w), "--batch", str(n)]
    for name, value in arrays.items():
        np.save(work / f"{name}.npy", value.astype(np.float32))
        command += ["--" + name, str(work / f"{name}.npy")]
    subprocess.run(command, check=True)
    np.save(work / "x.npy", rng.standard_normal((n, c, h, w)).astype(np.float32))
    return work / "block.onnx", 2 * n * h * w * k * c * r * r


def make_network(what, options, work, rng):
    size = int(options["size"])
    np.save(work / "x.npy", rng.random((int(options["batch"]), 3, size, size)).astype(np.float32))
    return ROOT / what, None


def exported(name, exporter):
    """The file of a network that `make networks` lists in build/networks; None if it is not there."""
    folder = pathlib.Path(os.environ.get("UNISONO_NETWORKS") or ROOT / "build/networks")
    if not (folder / "networks.json").is_file():
        return None
    for entry in json.loads((folder / "networks.json").read_text()):
        if (entry["network"], entry["exporter"].replace(" ", "-"), entry["open"]) == (name, exporter, ""):
            file = folder / entry["file"]  # an absolute path stays what it is
            return file if file.is_file() else None
    return None


def make_exported(what, options, work, rng):
    np.save(work / "x.npy", rng.standard_normal([int(e) for e in options["shape"].split("x")]).astype(np.float32))
    return exported(what, options["by"]), None


MAKERS = {"block": make_block, "network": make_network, "exported": make_exported}


def measure(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def name_of(what, options):
    return f"{what} {' '.join(f'{k}={v}' for k, v in options.items())}"


def run_case(kind, what, options, args, work, rng):
    model, flop = MAKERS[kind](what, options, work, rng)
    if model is None:
        return None
    binary = ROOT / "build/release/bench/unisono_bench_cpu"
    common = ["--input", work / "x.npy", "--threads", str(args.threads), "--seconds", str(args.seconds)]
    commands = {
        "unisono": [binary, "unisono", model],
        "onednn_sequence": [binary, "onednn_sequence", model],
        "onnxruntime": [sys.executable, ROOT / "bench/peers/onnxruntime_cpu.py", model],
    }
    if kind == "exported":  # the sequence of primitives has the operators of the blocks and the U-Net only
        del commands["onednn_sequence"]
    rounds, extra = {who: [] for who in commands}, {}
    for _ in range(args.rounds):
        for who, command in commands.items():
            line = measure(command + common + ["--output", work / f"{who}.npy"])
            rounds[who].append(line.pop("times_us"))
            extra[who] = line
    outputs = {who: np.load(work / f"{who}.npy").ravel() for who in commands}
    medians = {who: statistics.median(t for r in rs for t in r) for who, rs in rounds.items()}
    by_round = [statistics.median(r) for r in rounds["unisono"]]
    case = {
        "name": name_of(what, options), "kind": kind, "dtype": "f32", "commit": commit(),
        "unisono_us": round(medians["unisono"], 1), "spread": round((max(by_round) - min(by_round)) / medians["unisono"], 4),
        "peers": {who: round(m, 1) for who, m in medians.items() if who != "unisono"},
        "best_us": {who: round(min(t for r in rs for t in r), 1) for who, rs in rounds.items()},
        "launches": extra["unisono"]["kernels"], "operators": extra["unisono"]["operators"], "arena_bytes": extra["unisono"]["arena_bytes"],
        "largest_difference": {who: float(np.max(np.abs(outputs[who] - outputs["unisono"]))) for who in commands if who != "unisono"},
        "onnxruntime": extra["onnxruntime"]["version"],
    }
    if flop:
        case |= {"flop": flop, "unisono_gflops": round(flop / medians["unisono"] / 1e3, 1)}
    return case


def svg(cases):
    """Bars: Unisono's time over each peer's, shorter is better; the line is the peer."""
    width, row, left = 760, 22, 330
    height = 40 + sum(row * len(c["peers"]) + 14 for c in cases)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>',
           '<text x="10" y="20" font-weight="bold">Time of Unisono over the peer (shorter is better, the line is 1)</text>']
    scale, y = (width - left - 60) / 1.4, 36
    for c in cases:
        for i, (who, us) in enumerate(c["peers"].items()):
            ratio = c["unisono_us"] / us
            if i == 0:
                name = c["name"].replace("models/heatmap_unet/", "")
                out.append(f'<text x="10" y="{y + 14}">{name}</text>')
            colour = "#2a7f62" if ratio <= 1 else "#b3541e"
            out.append(f'<text x="{left - 4}" y="{y + 28 if i == 0 else y + 28}" text-anchor="end" fill="#555">{who}</text>')
            out.append(f'<rect x="{left}" y="{y + 16}" width="{min(ratio, 1.4) * scale:.1f}" height="15" fill="{colour}"/>')
            out.append(f'<text x="{left + min(ratio, 1.4) * scale + 4:.1f}" y="{y + 28}">{ratio:.2f}</text>')
            y += row
        y += 14
    out.append(f'<line x1="{left + scale:.1f}" x2="{left + scale:.1f}" y1="34" y2="{height - 6}" stroke="#333" stroke-dasharray="4 3"/></svg>')
    return "\n".join(out)


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()


def commit():
    """The commit, with a + if what is measured has been changed since."""
    changed = git("status", "--porcelain", "--", "src", "include", "bench/peers", "bench/cpu.cpp")
    return git("rev-parse", "HEAD") + ("+" if changed else "")


def ratio_of(cases, peer, kind):
    """Geometric mean of Unisono's time over the peer's."""
    ratios = [c["unisono_us"] / c["peers"][peer] for c in cases if c["kind"] == kind and peer in c["peers"]]
    return round(statistics.geometric_mean(ratios), 3) if ratios else None


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()



def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=ROOT / "bench/cases/cpu.txt")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", default=ROOT / "bench/results/cpu.json")
    args = parser.parse_args()

    known, missing, rng = {}, [], np.random.default_rng(1)
    if args.only and pathlib.Path(args.out).is_file():
        known = {c["name"]: c for c in json.loads(pathlib.Path(args.out).read_text())["cases"]}
    todo = [(name_of(what, options), kind, what, options) for kind, what, options in read_cases(args.cases)]
    for number, (name, kind, what, options) in enumerate(todo, 1):
        if not re.search(args.only, name):
            continue
        print(f"[{number}/{len(todo)}] {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            case = run_case(kind, what, options, args, pathlib.Path(folder), rng)
        if case is None:
            missing.append(name)
            known.pop(name, None)
        else:
            known[name] = {**case, "commit": commit(), "date": datetime.date.today().isoformat()}
        write([known[n] for n, *_ in todo if n in known], missing, args)  # after each, so that a run may be cut short
    cases = [known[n] for n, *_ in todo if n in known]
    report(cases)
    if ratio := ratio_of(cases, "onnxruntime", "exported"):
        print(f"networks over ONNX Runtime: {ratio} in the geometric mean")
    if missing:
        print(f"not measured, as `make networks` has not made them: {', '.join(missing)}")


def write(cases, missing, args):
    result = {
        "suite": "cpu", "cpu": cpu_name(), "threads": args.threads, "commit": commit(),
        "date": datetime.date.today().isoformat(), "rounds": args.rounds, "seconds": args.seconds,
        "networks_over_onnxruntime": ratio_of(cases, "onnxruntime", "exported"), "missing": missing, "cases": cases,
    }
    pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
    (ROOT / "docs/performance-cpu.svg").write_text(svg(cases))


def report(cases):
    print(f"{'case':64} {'unisono ms':>9} {'spread':>7}")
    for c in cases:
        print(f"{c['name']:64} {c['unisono_us'] / 1e3:9.3f} {c['spread']:7.1%}"
              + "".join(f"  {who} {us / 1e3:.3f} ({c['unisono_us'] / us:.2f})" for who, us in c["peers"].items()))


main()
