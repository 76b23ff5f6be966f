#!/usr/bin/env python3
"""Random modules compiled by torch.compile(backend="unisono") and judged beside eager mode and float64; goes on where it stopped.

usage: random_modules.py [--count N] [--seed FIRST] [--device cpu|cuda] [--rest eager|inductor] [--jobs N] [--work FOLDER]
       random_modules.py … --given           # all by networks whose weights may change
       random_modules.py --show SEED         # the script of a seed, which can be run
       (the package must be found: PYTHONPATH=build/ci/python; make long-modules builds it first)

FOLDER (default: build/random_modules) has state.json: ranges of seeds, the commit at which each was judged, and counts; and
failures/SEED.py, the smallest script that fails as the seed's does. Seeds that have been judged are left out, but for those
that failed; --again judges all. What aot_eager or Inductor fails at in the same way is listed as PyTorch's.
Ends with 1 if anything is wrong, raises, or crashes.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "python" / "tests"
LIFE = 60  # seeds of a process
GOOD = ("right", "pytorch's")


# ---- a process that judges seeds --------------------------------------------------------------------------------------

def is_alive(device):
    """Whether the device still computes: an illegal access ends what a process can do on a GPU."""
    import torch
    try:
        return torch.ones(2, device=device).sum().item() == 2
    except RuntimeError:
        return False


def with_given_weights(program):
    """The program by networks whose weights may change, cut however small."""
    return dataclasses.replace(program, options={**program.options, "backend": {"networks": "any", "minimum_operators": 0}})


def judge_seed(seed, options):
    """{"verdict", "text", "script"}"""
    device, rest, seconds = options.device, options.rest, options.shrink
    from random_modules import drawing, judge, shrink

    def valid(program):
        return judge.is_valid(judge.namespace_of(program.script()), device)

    def failure_of(program):
        return judge.judged(judge.namespace_of(program.script()), device, rest)

    program = drawing.drawn(seed, valid)
    if options.given:
        program = with_given_weights(program)
        if not valid(program):
            return {"verdict": "right", "regions": 0}
    judge.regions()
    failure = failure_of(program)
    if failure is None:
        return {"verdict": "right", "regions": judge.regions()}
    if not is_alive(device):
        about = f"seed {seed}, {device}, rest={rest}: the device is lost: {failure[1]}"
        return {"verdict": "crashed", "text": about, "script": program.script(about.replace("\\", "/").replace('"""', "'''"))}
    small = shrink.shrunk(program, lambda p: valid(p) and (failure_of(p) or ("", ""))[0] == failure[0], seconds)
    whole, script = program.script(), small.script()
    shared = judge.shared_with(script, device, failure[0]) or judge.shared_with(whole, device, failure[0])
    text = (failure_of(small) or failure)[1]
    about = f"seed {seed}, {device}, rest={rest}: {failure[0]}: {text}" + (f"; {shared} does so, too" if shared else "")
    return {"verdict": "pytorch's" if shared else failure[0], "text": about,
            "script": small.script(about.replace("\\", "/").replace('"""', "'''"))}


def work(options):
    """Seeds come in line by line, verdicts go out."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints
    import torch
    torch.set_num_threads(1)
    for line in sys.stdin:
        seed = int(line)
        try:
            row = judge_seed(seed, options)
        except Exception as error:  # of the machine itself: it is to be mended
            import traceback
            row = {"verdict": "invalid", "text": f"seed {seed}: {type(error).__name__}: {error}", "script": traceback.format_exc()}
        out.write(json.dumps(row) + "\n")
        out.flush()


class Worker:
    def __init__(self, options):
        self.options, self.process, self.seeds = options, None, 0

    def start(self):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(TESTS)))), "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self.log = open(self.options.work / f"worker-{threading.get_ident()}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, __file__, "--worker", "--device", self.options.device, "--rest", self.options.rest, "--shrink", str(self.options.shrink), *["--given"] * self.options.given],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.seeds = 0

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.log.close()
            self.process = None

    def ask(self, seed):
        if self.process is None or self.seeds == LIFE:
            self.stop()
            self.start()
        self.seeds += 1
        try:
            self.process.stdin.write(f"{seed}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        ready, _, _ = select.select([self.process.stdout], [], [], self.options.limit)
        line = self.process.stdout.readline() if ready else ""
        if line:
            row = json.loads(line)
            if row["verdict"] in ("crashed", "invalid"):
                self.stop()
            return row
        code = self.process.poll()
        self.stop()
        last = pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")[-800:]
        why = f"no verdict after {self.options.limit} s" if not ready else f"the process ended ({code}): {last}"
        return {"verdict": "crashed", "text": f"seed {seed}: {why}"}


# ---- all seeds ---------------------------------------------------------------------------------------------------------

class State:
    """state.json: what has been judged."""

    def __init__(self, options, commit):
        self.path, self.options, self.commit, self.lock = options.work / "state.json", options, commit, threading.Lock()
        self.whole = json.loads(self.path.read_text()) if self.path.exists() else {"ranges": [], "failures": {}}
        self.rest = options.rest + ", given" * options.given
        self.counts, self.done, self.regions, self.started = collections.Counter(), 0, 0, time.monotonic()

    def mine(self):
        return [r for r in self.whole["ranges"] if (r["device"], r["rest"]) == (self.options.device, self.rest)]

    def is_done(self, seed):
        return any(r["first"] <= seed < r["end"] for r in self.mine())

    def failed(self):
        return sorted(int(s) for s, f in self.whole["failures"].items()
                      if (f["device"], f["rest"]) == (self.options.device, self.rest) and f["verdict"] not in GOOD)

    def add(self, seed, row, is_new):
        """is_new: whether the seed was not judged before."""
        with self.lock:
            how = {"commit": self.commit, "device": self.options.device, "rest": self.rest}
            if is_new:
                counts = {row["verdict"]: 1, "regions": row.get("regions", 0)}
                self.whole["ranges"] = merged([*self.whole["ranges"], {"first": seed, "end": seed + 1, **how, "counts": counts}])
            self.whole["failures"].pop(str(seed), None)
            if row["verdict"] != "right":
                self.whole["failures"][str(seed)] = {"verdict": row["verdict"], **how, "text": row["text"]}
            temporary = self.path.with_suffix(".partial")
            temporary.write_text(json.dumps(self.whole, indent=1) + "\n")
            os.replace(temporary, self.path)

    def say(self, seed, row):
        with self.lock:
            self.counts[row["verdict"]] += 1
            self.regions += row.get("regions", 0)
            self.done += 1
            if row["verdict"] != "right":
                print(f"{row['verdict']}: {row['text'][:700]}", flush=True)
                if "script" in row:
                    folder = self.options.work / ("failures" if row["verdict"] not in GOOD else "pytorch")
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"{seed}.py").write_text(row["script"])
            if self.done % 20 == 0 or sys.stderr.isatty():
                rate = self.done / (time.monotonic() - self.started)
                print(f"{self.done} judged, {self.regions} regions, {rate:.2f} a second: " + ", ".join(f"{k} {v}" for k, v in self.counts.items()),
                      end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def merged(ranges):
    """Neighbouring ranges that were judged in the same way as one."""
    found = []
    for r in sorted(ranges, key=lambda r: (r["device"], r["rest"], r["commit"], r["first"])):
        same = found and all(found[-1][k] == r[k] for k in ("device", "rest", "commit")) and found[-1]["end"] == r["first"]
        if same:
            counts = collections.Counter(found[-1]["counts"]) + collections.Counter(r["counts"])
            found[-1] = {**found[-1], "end": r["end"], "counts": dict(counts)}
        else:
            found.append(r)
    return found


def commit_here():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def run(options):
    options.work.mkdir(parents=True, exist_ok=True)
    state = State(options, options.commit or commit_here())
    seeds = [s for s in range(options.seed, options.seed + options.count) if options.again or not state.is_done(s)]
    failed = [] if options.again else state.failed()
    waiting = iter([*((s, False) for s in failed), *((s, True) for s in seeds)])
    lock, until = threading.Lock(), time.monotonic() + options.minutes * 60

    def serve():
        worker = Worker(options)
        try:
            while time.monotonic() < until:
                with lock:
                    seed, is_new = next(waiting, (None, False))
                if seed is None:
                    return
                row = worker.ask(seed)
                state.say(seed, row)
                state.add(seed, row, is_new)
        finally:
            worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"judged": state.done, **state.counts, "regions": state.regions, "state": str(state.path)}))
    return 0 if set(state.counts) <= set(GOOD) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", default=200, type=int)
    parser.add_argument("--seed", default=0, type=int, help="the first")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rest", default="eager", choices=("eager", "inductor"), help="who runs what this backend does not take")
    parser.add_argument("--given", action="store_true", help="inference by networks whose weights are inputs")
    parser.add_argument("--jobs", default=1, type=int)
    parser.add_argument("--minutes", default=1e6, type=float, help="after which no seed begins")
    parser.add_argument("--limit", default=600, type=int, help="seconds of one seed, with its shrinking")
    parser.add_argument("--shrink", default=120, type=int, help="seconds of shrinking")
    parser.add_argument("--work", default=ROOT / "build" / "random_modules", type=pathlib.Path)
    parser.add_argument("--commit", help="what is judged, if this is no clone")
    parser.add_argument("--again", action="store_true", help="judge seeds that have been judged, too")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    if options.worker:
        return work(options)
    if options.show is not None:
        from random_modules import drawing, judge
        print(drawing.drawn(options.show, lambda p: judge.is_valid(judge.namespace_of(p.script()), options.device)).script(f"seed {options.show}"))
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
