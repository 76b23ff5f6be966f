#!/usr/bin/env python3
"""The GPU suites: Unisono and cuDNN (unisono_gpu_bench), then PyTorch eager, compile and max-autotune, on one GPU in one run.

Writes bench/results/SUITE.json and docs/performance-SUITE.svg, fills the tables of docs/performance.md, and prints the
ratios. A case or a peer that fails is recorded with its error, and the rest goes on: after a crash or a hang the program
is started again behind the case at fault. The peers have limits of time; what they have not measured by then is absent.

usage: bench/run_gpu.py [SUITE…] [--binary FILE] [--plans N] [--peers eager,compile,max_autotune] [--limit SECONDS]
                        [--results FOLDER] [--docs FOLDER] [--commit TEXT] [-- options of unisono_gpu_bench]
SUITE: one of bench/cases/SUITE.txt that bench/report.py shows; default conv and block.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
FINISHED = (0, 1)  # exit codes of unisono_gpu_bench when it came to the end of the cases


def environment():
    """Libraries of PyTorch's packages ahead of the system's, so that all peers run the same cuDNN."""
    folders = [str(f) for p in sys.path for f in sorted(pathlib.Path(p).glob("nvidia/*/lib")) if f.is_dir()]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(folders + [f for f in [os.environ.get("LD_LIBRARY_PATH")] if f]))


def recorded(args):
    """{suite: results} as far as unisono_gpu_bench has written them."""
    files = {suite: args.results / f"{suite}.json" for suite in args.suites}
    return {suite: json.loads(file.read_text()) for suite, file in files.items() if file.exists()}


def run_unisono(args):
    """Runs unisono_gpu_bench over the suites, again behind each case at which it ended. Returns {suite: results}."""
    for suite in args.suites:
        (args.results / f"{suite}.json").unlink(missing_ok=True)
    command = [args.binary, *(ROOT / f"bench/cases/{suite}.txt" for suite in args.suites), "--json", args.results,
               "--plans", args.plans, "--commit", args.commit, *args.rest]
    before = -1
    while True:
        found = recorded(args)
        cases = sum(len(r["cases"]) for r in found.values())
        if cases == before:  # another try would end the same way
            return found
        before = cases
        code = subprocess.run([*map(str, command), *(["--resume"] if cases else [])], env=environment()).returncode
        if code in FINISHED:
            return recorded(args)
        print(f"unisono_gpu_bench ended with {code}", file=sys.stderr)


def run_torch(args, files, peers):
    """JSON lines of bench/peers/torch_gpu.py; the program is killed at its limit, and what it said till then counts."""
    command = [sys.executable, ROOT / "bench/peers/torch_gpu.py", *files, "--peers", ",".join(peers)]
    lines, start = [], time.time()
    with tempfile.TemporaryFile("w+") as said:
        try:
            code = subprocess.run([*map(str, command)], stdout=said, timeout=args.limit).returncode
        except subprocess.TimeoutExpired:
            code = f"the limit of {args.limit:.0f} s"
        said.seek(0)
        lines = [json.loads(line) for line in said if line.startswith("{") and line.endswith("}\n")]
    print(f"torch_gpu.py {','.join(peers)}: {time.time() - start:.0f} s, ended with {code}, {len(lines)} lines", file=sys.stderr)
    return lines, code


def merge(suite, lines):
    """Adds what PyTorch measured to a suite's results."""
    cases = {c["name"]: c for c in suite["cases"]}
    for line in lines:
        if "torch" in line:
            suite.update(line)
        elif line["suite"] == suite["suite"] and line["name"] in cases:
            case = cases[line["name"]]
            for key in ("peers", "peer_spread", "peer_errors"):
                case.setdefault(key, {})
            if "error" in line:
                case["peer_errors"][line["peer"]] = line["error"]
            else:
                case["peers"][line["peer"]] = line["us"]
                case["peer_spread"][line["peer"]] = line["spread"]
                case.setdefault("peers_hot", {})[line["peer"]] = line["hot_us"]
                case.setdefault("peer_compile_seconds", {})[line["peer"]] = line["compile_seconds"]


def note_missing(suite, peers, code):
    """A peer that never answered for a case is said to be absent, with how its program ended."""
    for case in suite["cases"]:
        for peer in peers:
            name = "torch_" + peer
            if name not in case.get("peers", {}) and name not in case.get("peer_errors", {}):
                case.setdefault("peer_errors", {})[name] = f"not measured: its program ended with {code}"


def commit():
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    head = git("rev-parse", "HEAD")
    if head.returncode != 0:
        return "unknown"
    clean = git("status", "--porcelain", "--", "src", "kernels", "include", "tools", "bench/cases", "bench/peers").stdout == ""
    return head.stdout.strip() + ("" if clean else " with changes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", default=["conv", "block"], metavar="SUITE")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bench/unisono_gpu_bench")
    parser.add_argument("--plans", type=int, default=1)
    parser.add_argument("--peers", default="eager,compile,max_autotune", help="of PyTorch; empty: none")
    parser.add_argument("--limit", type=float, default=150, help="seconds of each of the two runs of PyTorch")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--commit", default="")
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    args = parser.parse_args(own)
    args.rest = sys.argv[1 + len(own) + 1:]
    args.commit = args.commit or commit()
    if unknown := [s for s in args.suites if s not in report.SUITES]:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(report.SUITES)}")
    if not args.binary.exists():
        parser.error(f"{args.binary} does not exist; build the target unisono_gpu_bench, or give --binary")
    args.results.mkdir(parents=True, exist_ok=True)

    measured = run_unisono(args)
    if not measured:
        sys.exit("no suite has a result: see above")
    peers = [p for p in args.peers.split(",") if p]
    # What must be searched for comes last and alone, so that its limit costs the others nothing; blocks ahead of bare
    # convolutions, which PyTorch leaves to cuDNN anyway
    files = [args.results / f"{name}.json" for name in ("block", "wide", "breadth", "rows", "gemm", "swiglu", "epilogue", "conv", "groups", "depthwise") if name in measured]
    for group in ([p for p in peers if p != "max_autotune"], [p for p in peers if p == "max_autotune"]):
        if not group:
            continue
        lines, code = run_torch(args, files, group)
        for name, suite in measured.items():
            merge(suite, lines)
            note_missing(suite, group, code)
            (args.results / f"{name}.json").write_text(json.dumps(suite, indent=1, ensure_ascii=False) + "\n")
    for suite in measured.values():
        print(report.text_table(suite) + "\n")
    report.write(args.results, args.docs)
    sys.exit(0 if len(measured) == len(args.suites) else 1)


if __name__ == "__main__":
    main()
