#!/usr/bin/env python3
"""The suites of whole networks: Unisono (unisono_bench_network), then PyTorch eager, compile and max-autotune, in one run.

Unisono runs first, alone, on the first GPU. Then PyTorch measures one case a process, as many at a time as there are GPUs, since
max-autotune searches for minutes on the CPU; a process has a GPU to itself. A peer that fails or is not done within --limit seconds is
recorded with its error. Writes bench/results/network.json and fills the table of docs/performance.md.

usage: bench/run_networks.py [--binary FILE] [--only TEXT] [--peers eager,eager_wall,compile,max_autotune] [--limit SECONDS]
                             [--results FOLDER] [--docs FOLDER] [--commit TEXT] [-- options of unisono_bench_network]
"""
import argparse
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time

import report
from run_gpu import ROOT, commit, environment

CASES = [ROOT / "bench/cases/network.txt", ROOT / "bench/cases/diffusion.txt"]


def gpus():
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return max(1, sum(line.startswith("GPU ") for line in listed.splitlines()))


def run_peers(name, gpu, args):
    """Lines of bench/peers/torch_network.py for one case, as far as it came, and how it ended."""
    log = args.results / f"torch-{name}.log"
    command = [sys.executable, ROOT / "bench/peers/torch_network.py", *CASES, "--only", name, "--peers", args.peers]
    # a cache of its own: the compilers of several processes do not share one
    env = dict(environment(), CUDA_VISIBLE_DEVICES=str(gpu), TORCHINDUCTOR_CACHE_DIR=f"/tmp/inductor-{os.getpid()}-{name}")
    start = time.time()
    with open(log, "w+") as said:
        try:
            code = subprocess.run([*map(str, command)], stdout=said, stderr=subprocess.DEVNULL, timeout=args.limit, env=env).returncode
        except subprocess.TimeoutExpired:
            code = f"the limit of {args.limit:.0f} s"
        said.seek(0)
        lines = [json.loads(line) for line in said if line.startswith("{") and line.endswith("}\n")]
    log.unlink()
    print(f"torch_network.py {name}: {time.time() - start:.0f} s on GPU {gpu}, ended with {code}, {len(lines)} lines", file=sys.stderr)
    return lines, code


def merge(case, lines, code, peers):
    for key in ("peers", "peer_spread", "peer_errors", "peer_compile_s", "peer_peak_bytes"):
        case[key] = {}
    for line in lines:
        if line["name"] != case["name"]:
            continue
        peer = line["peer"]
        if "error" in line:
            case["peer_errors"][peer] = line["error"]
            continue
        case["peers"][peer], case["peer_spread"][peer], case["peer_peak_bytes"][peer] = line["us"], line["spread"], line["peak_bytes"]
        if "compile_s" in line:
            case["peer_compile_s"][peer] = line["compile_s"]
    for peer in peers:
        if peer not in case["peers"] and peer not in case["peer_errors"]:
            case["peer_errors"][peer] = f"not measured: its program ended with {code}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bench/unisono_bench_network")
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", default="eager,compile,max_autotune", help="of PyTorch; empty: none")
    parser.add_argument("--limit", type=float, default=600, help="seconds of PyTorch for one case")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--commit", default="")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = parser.parse_args(own)
    rest = sys.argv[1 + len(own) + 1:]
    if not args.binary.exists():
        parser.error(f"{args.binary} does not exist; build the target unisono_bench_network, or give --binary")
    args.results.mkdir(parents=True, exist_ok=True)
    file = args.results / "network.json"
    command = [args.binary, *CASES, "--json", file, "--only", args.only, "--commit", args.commit or commit(), *rest]
    code = subprocess.run([*map(str, command)]).returncode
    if code != 0 or not file.exists():
        sys.exit(f"unisono_bench_network ended with {code}: see above")
    results = json.loads(file.read_text())
    cases = [c for c in results["cases"] if "error" not in c]
    peers = [p for p in args.peers.split(",") if p]
    if peers:
        free = queue.Queue()
        for gpu in range(gpus()):
            free.put(gpu)
        writing = threading.Lock()

        def measure(case):
            gpu = free.get()
            try:
                lines, code = run_peers(case["name"], gpu, args)
            finally:
                free.put(gpu)
            with writing:
                results.update({"peer_versions": line["versions"] for line in lines if "versions" in line})
                lines = [line for line in lines if "peer" in line]
                merge(case, lines, code, peers)
                file.write_text(json.dumps(results, indent=1) + "\n")

        threads = [threading.Thread(target=measure, args=(case,)) for case in cases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        results["peer_gpus"] = free.qsize()
    file.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(report.network_table(results)))
    report.write(args.results, args.docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
