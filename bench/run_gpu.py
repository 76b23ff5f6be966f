#!/usr/bin/env python3
"""The GPU suites: Unisono and cuDNN or cuBLASLt (unisono_gpu_bench) and PyTorch eager, compile and max-autotune, on one GPU.

All contenders of a case take turns in one duty cycle: PyTorch's run in a process of their own (bench/peers/torch_gpu.py), which
unisono_gpu_bench asks for a replay whenever it is their turn.

Writes bench/results/SUITE.json and docs/performance-SUITE.svg, fills the tables of docs/performance.md, and prints the
ratios. A case or a peer that fails is recorded with its error, and the rest goes on: after a crash or a hang a program
is started again behind the case at fault. A peer that has compiled for --limit seconds takes no part in further cases.

usage: bench/run_gpu.py [SUITE…] [--binary FILE] [--plans N] [--peers eager,compile,max_autotune,quack] [--limit SECONDS]
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
import threading
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


class TorchBeside:
    """Keeps torch_gpu.py listening at `socket`: whenever it ends, as after a case that broke it, it is started again."""

    def __init__(self, args, folder):
        self.socket = pathlib.Path(folder) / "peers"
        self.command = [sys.executable, str(ROOT / "bench/peers/torch_gpu.py"), str(self.socket), "--peers", args.peers,
                        "--limit", str(args.limit)]
        self.over, self.process, self.lock = False, None, threading.Lock()
        self.thread = threading.Thread(target=self.keep)

    def keep(self):
        quick = 0  # a program that ends at once, three times, will not do otherwise the next time
        while quick < 3:
            with self.lock:
                if self.over:
                    return
                self.socket.unlink(missing_ok=True)
                self.process = subprocess.Popen(self.command)
            start = time.monotonic()
            code = self.process.wait()
            quick = quick + 1 if time.monotonic() - start < 5 else 0
            if not self.over:
                print(f"torch_gpu.py ended with {code}", file=sys.stderr)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        with self.lock:
            self.over = True
            if self.process:
                self.process.kill()
        self.thread.join()


def run_all(args, beside):
    """Runs unisono_gpu_bench over the suites, again behind each case at which it ended. Returns {suite: results}."""
    for suite in args.suites:
        (args.results / f"{suite}.json").unlink(missing_ok=True)
    command = [args.binary, *(ROOT / f"bench/cases/{suite}.txt" for suite in args.suites), "--json", args.results,
               "--plans", args.plans, "--commit", args.commit, *(["--beside", beside.socket] if beside else []), *args.rest]
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


def note_missing(suite, peers):
    """A peer that never answered for a case is said to be absent, with why its program gave no answer."""
    for case in suite["cases"]:
        errors = case.setdefault("peer_errors", {})
        why = errors.pop("beside", "its program did not come so far")
        for peer in peers:
            name = peer if peer == "quack" else "torch_" + peer
            if name not in case.get("peers", {}) and name not in errors:
                errors[name] = f"not measured: {why}"


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
    parser.add_argument("--peers", default="eager,compile,max_autotune", help="of PyTorch, and quack; empty: none")
    parser.add_argument("--limit", type=float, default=600, help="seconds of compiling of each peer")
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

    peers = [p for p in args.peers.split(",") if p]
    with tempfile.TemporaryDirectory() as folder:
        if peers:
            with TorchBeside(args, folder) as beside:
                measured = run_all(args, beside)
        else:
            measured = run_all(args, None)
    if not measured:
        sys.exit("no suite has a result: see above")
    for name, suite in measured.items():
        note_missing(suite, peers)
        (args.results / f"{name}.json").write_text(json.dumps(suite, indent=1, ensure_ascii=False) + "\n")
    for suite in measured.values():
        print(report.text_table(suite) + "\n")
    report.write(args.results, args.docs)
    sys.exit(0 if len(measured) == len(args.suites) else 1)


if __name__ == "__main__":
    main()
