"""Random networks by their seeds through all opinions; goes on where it stopped.

usage: run.py --judge PROGRAM --count N [--first N] [--work FOLDER] [--jobs N] [--no-onnxruntime]
       run.py … --gradients
       run.py … --given                     # weights are inputs of the networks
       run.py … --gpu bf16|f16 [--kernels N] [--most-kernels N] [--compilers N]

Every network is run by ONNX Runtime and by the judge (Unisono against its float64 reference, bit for bit the same each time,
and against ONNX Runtime). A dispute between the reference and ONNX Runtime is decided by PyTorch in float64, or without it by
ONNX's interpreter: if that sides with Unisono, ONNX Runtime is listed as off. FOLDER (default: build/random_networks) has state.json, from which a run
goes on, and failures/: each failing network, and the smallest one that fails in the same way as small-<seed>.onnx.
Ends with 1 if anything is wrong, failed or crashed.

With --gradients the network that is judged computes the gradients of each network's outputs: they are compared with central
differences in float64, and ONNX Runtime has no part in it.

On a GPU N networks are chosen first, from as many seeds as that takes, that are not refused and have at most two kernels
that none before has, so that there are at least --kernels and at most --most-kernels; all these are compiled in parallel.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import casts
import opinions
import shrink
from draft import with_data
from generator import generate
from given import with_given_weights

CHUNK = 25
BAD = ("wrong", "failed", "crashed", "disputed", "invalid")
VERDICTS = ("agrees", "refused", "unasked", *BAD)
scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None


def settle(judge, path, verdict, model, inputs):
    """A third opinion where the reference and ONNX Runtime differ."""
    try:
        whose, third = opinions.third_opinion(model, inputs)
    except Exception as error:
        verdict["text"] += f"; no third opinion: {error}"
        return verdict
    path.write_bytes(with_data(model, inputs, third).SerializeToString())
    again = judge.ask(path)
    if again["verdict"] == "agrees":
        return {**again, "onnxruntime": verdict["text"]}
    return {**verdict, "text": verdict["text"] + f"; {whose} does not side with Unisono either"}


def network_of(seed, arguments):
    model, inputs = generate(seed, arguments.gpu is not None)
    return with_given_weights(model, inputs) if arguments.given else (model, inputs)


def evaluate(judge, folder, seed, arguments):
    model, inputs = network_of(seed, arguments)
    expected, refusal = {}, None
    if not arguments.no_onnxruntime and not casts.applies(model, seed):
        try:
            expected = opinions.onnxruntime(model, inputs)
        except Exception as error:
            refusal = str(error)
    path = pathlib.Path(folder) / f"{seed}.onnx"
    path.write_bytes(with_data(model, inputs, expected).SerializeToString())
    verdict = judge.ask(path)
    if refusal is not None:
        # an opset that is newer than ONNX Runtime, or an operator that it lacks
        kind = "unasked" if "NOT_IMPLEMENTED" in refusal or "ValidateOpsetForDomain" in refusal else "invalid"
        verdict = verdict if kind == "unasked" and verdict["verdict"] == "agrees" else {**verdict, "verdict": kind, "text": refusal[:500]}
    if verdict["verdict"] == "disputed" or verdict["verdict"] == "wrong" and not verdict["reference"]:
        verdict = settle(judge, path, verdict, model, inputs)
    if verdict["verdict"] in BAD:
        keep(arguments, seed, path, verdict)
    path.unlink()
    verdict["nodes"] = [n.op_type for n in model.graph.node]
    return verdict


def keep(arguments, seed, path, verdict):
    failures = arguments.work / "failures"
    failures.mkdir(parents=True, exist_ok=True)
    (failures / f"{seed}.onnx").write_bytes(path.read_bytes())
    (failures / f"{seed}.json").write_text(json.dumps(verdict, indent=1))


def command(arguments):
    return [str(arguments.judge)] + (["--gpu", arguments.gpu] if arguments.gpu else []) + ["--gradients"] * arguments.gradients


def chunk(arguments, first):
    """Verdicts of some seeds, counted."""
    judge = opinions.Judge(command(arguments))
    counts, refusals, bad, off = collections.Counter(), collections.Counter(), {}, {}
    operators = collections.Counter()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for seed in arguments.seeds[first:first + CHUNK]:
            v = evaluate(judge, folder, seed, arguments)
            counts[v["verdict"]] += 1
            if arguments.gpu and v["verdict"] == "failed":  # the GPU's context may be lost
                judge.close()
            for flag in ("weak", "close", "epilogue"):
                counts[flag] += bool(v.get(flag))
            counts["without reference"] += v.get("reference") is False
            if v["verdict"] == "agrees":
                operators.update(set(v["nodes"]))
            if v["verdict"] == "refused":
                refusals[shortened(v["text"])] += 1
            if v["verdict"] in BAD:
                bad[seed] = [v["verdict"], v.get("stage", ""), v.get("text", "")[:300]]
            if "onnxruntime" in v:
                off[seed] = v["onnxruntime"][:300]
    judge.close()
    return first, dict(counts=counts, refusals=refusals, bad=bad, off=off, operators=operators)


def kernels_of_chunk(arguments, first):
    """The kernels of some seeds' networks, None for those that are refused."""
    judge, result = opinions.Judge(command(arguments) + ["--kernels"]), {}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        for seed in range(first, first + CHUNK):
            model, inputs = network_of(seed, arguments)
            path = pathlib.Path(folder) / f"{seed}.onnx"
            path.write_bytes(with_data(model, inputs).SerializeToString())
            result[seed] = judge.ask(path).get("kernels")
            path.unlink()
    judge.close()
    return result


def choose_seeds(arguments, pool):
    """Networks of few new kernels each, as many in all as are wanted, in the order of their seeds."""
    chosen, kernels, first = [], set(), arguments.first
    while len(chosen) < arguments.count:
        firsts = range(first, first + 8 * arguments.jobs * CHUNK, CHUNK)
        for part in pool.map(kernels_of_chunk, [arguments] * len(firsts), firsts):
            for seed, own in part.items():
                lags = len(kernels) < arguments.kernels * (len(chosen) + 1) // arguments.count
                new = set(own or ()) - kernels
                allowed = len(new) <= 2 and len(kernels) + len(new) <= arguments.most_kernels
                if own is None or not allowed or lags and not new or len(chosen) == arguments.count:
                    continue
                chosen.append(seed)
                kernels |= new
        first += len(firsts) * CHUNK
        print(f"{len(chosen)} networks of {first - arguments.first} seeds, {len(kernels)} kernels", file=sys.stderr, flush=True)
    return chosen, len(kernels)


def compile_kernels(arguments):
    """All kernels of the seeds at once."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        paths = []
        for seed in arguments.seeds:
            model, inputs = network_of(seed, arguments)
            paths.append(f"{folder}/{seed}.onnx")
            pathlib.Path(paths[-1]).write_bytes(with_data(model, inputs).SerializeToString())
        done = subprocess.run(command(arguments) + ["--compile", "--jobs", str(arguments.compilers)], input="\n".join(paths) + "\n", text=True,
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)["kernels"]


def shortened(text):
    """A refusal without names and numbers."""
    text = re.sub(r"supported are.*", "", re.sub(r"^model: (\w+) '[^']*' \(opset \d+\)", r"\1", text))
    return re.sub(r"'[^']*'", "'…'", re.sub(r"\([\w,+*/() -]*\)", "(…)", re.sub(r"\d+", "#", text)))[:160]


def merged(state, part):
    for key in ("counts", "refusals", "operators"):
        state[key] = dict(collections.Counter(state.get(key, {})) + collections.Counter(part[key]))
    for key in ("bad", "off"):
        state.setdefault(key, {}).update({str(k): v for k, v in part[key].items()})


def save(arguments, state):
    partial = arguments.work / "state.json.part"
    partial.write_text(json.dumps(state, indent=1))
    partial.replace(arguments.work / "state.json")


def shrink_failures(arguments, state, most=40):
    """Each to a small network; of those with the same operators one is kept."""
    judge, seen = opinions.Judge(command(arguments)), set()
    failures = [(int(seed), kind) for seed, (kind, _, _) in state.get("bad", {}).items() if kind != "invalid"]
    for seed, kind in sorted(failures)[:most]:
        source, target = (arguments.work / "failures" / name for name in (f"{seed}.onnx", f"small-{seed}.onnx"))
        if target.exists() or not source.exists():
            continue
        verdict, operators = shrink.shrink_file(judge, source, target)
        if verdict is None:
            print(f"seed {seed}: {kind}; it does not fail by itself, or ONNX Runtime does not run it", flush=True)
            continue
        print(f"seed {seed}: {kind}; shrunk to {' '.join(operators)}: {verdict['stage']}: {verdict['text'][:200]}", flush=True)
        if (kind, *operators) in seen:
            target.unlink()
        seen.add((kind, *operators))
    judge.close()


def report(state, seconds):
    counts = state.get("counts", {})
    total = sum(counts.get(k, 0) for k in VERDICTS)
    print(f"{total} networks in {seconds:.0f} s: " + ", ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    print("refused, most often first:")
    for text, times in sorted(state.get("refusals", {}).items(), key=lambda item: -item[1])[:25]:
        print(f"  {times:6} {text}")
    print("operators in networks that agree: " + ", ".join(f"{k} {v}" for k, v in sorted(state.get("operators", {}).items())))
    if state.get("off"):
        print(f"ONNX Runtime alone is off in {len(state['off'])}: seeds {', '.join(list(state['off'])[:20])}")
    for seed, (kind, stage, text) in list(state.get("bad", {}).items())[:30]:
        print(f"  seed {seed}: {kind} ({stage}): {text[:250]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--judge", required=True, type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seeds", help="these alone: numbers with commas between")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/random_networks"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-onnxruntime", action="store_true", help="Unisono and its reference alone")
    parser.add_argument("--gradients", action="store_true", help="judge the networks of the gradients")
    parser.add_argument("--given", action="store_true", help="weights are inputs of the networks")
    parser.add_argument("--gpu", choices=("bf16", "f16"))
    parser.add_argument("--no-shrinking", action="store_true")
    parser.add_argument("--until-bad", action="store_true", help="end with the first that is not right")
    parser.add_argument("--fresh", action="store_true", help="from the first seed, whatever was done before")
    parser.add_argument("--kernels", type=int, default=0, help="of a GPU: at least so many different ones")
    parser.add_argument("--most-kernels", type=int, default=10 ** 9)
    parser.add_argument("--compilers", type=int, default=os.cpu_count(), help="kernels compiled at once")
    parser.add_argument("--epilogues", type=float, default=0,
                        help="at least this percentage of the networks have a contraction with an epilogue")
    arguments = parser.parse_args()
    arguments.no_onnxruntime |= arguments.gradients
    if arguments.fresh and arguments.work.exists():
        shutil.rmtree(arguments.work)
    arguments.work.mkdir(parents=True, exist_ok=True)
    file = arguments.work / "state.json"
    state = json.loads(file.read_text()) if file.exists() else {}
    if arguments.seeds:
        state["seeds"] = [int(s) for s in arguments.seeds.split(",")]
    key = [arguments.first, arguments.gpu] + ["gradients"] * arguments.gradients + ["given"] * arguments.given
    if state.setdefault("key", key) != key:
        sys.exit(f"{file} is of another run (first seed, gpu: {state['key']}); give --fresh or another --work")
    started = saved = time.time()
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        arguments.seeds = state.get("seeds") or range(arguments.first, arguments.first + arguments.count)
        if arguments.gpu:
            if "seeds" not in state:
                state["seeds"], state["kernels"] = choose_seeds(arguments, pool)
                save(arguments, state)
            arguments.seeds = state["seeds"]
            compiled = compile_kernels(arguments)
            print(f"{len(arguments.seeds)} networks, {compiled} kernels compiled after {time.time() - started:.0f} s", flush=True)
        done = set(state.setdefault("done", []))
        firsts = [f for f in range(0, len(arguments.seeds), CHUNK) if f not in done]
        for ready in concurrent.futures.as_completed([pool.submit(chunk, arguments, f) for f in firsts]):
            first, part = ready.result()
            state["done"].append(first)
            merged(state, part)
            if arguments.until_bad and state["bad"]:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            if time.time() - saved > 5:
                saved = time.time()
                save(arguments, state)
                print(f"{len(state['done'])} chunks of {CHUNK}, {len(state.get('bad', {}))} bad", file=sys.stderr, flush=True)
    save(arguments, state)
    if not arguments.no_shrinking and not arguments.no_onnxruntime:
        shrink_failures(arguments, state)
    report(state, time.time() - started)
    counts = state.get("counts", {})
    share = 100 * counts.get("epilogue", 0) / max(1, sum(counts.get(k, 0) for k in VERDICTS))
    if share < arguments.epilogues:
        sys.exit(f"{share:.1f} % of the networks have a contraction with an epilogue; "
                 f"{arguments.epilogues:g} % are wanted")
    sys.exit(1 if any(counts.get(k) for k in BAD) else 0)


if __name__ == "__main__":
    main()
