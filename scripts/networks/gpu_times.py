"""Times of networks on a GPU: unisono, PyTorch eager and torch.compile, each in a CUDA graph, within one turn.

Some networks at a time are compiled by PyTorch, each in a process of its own; then they take turns on the idle GPU. The peers'
times are kept in the rows with the card and the versions that they are of: a later run times Unisono alone, then, beside the
peers, what is below 1.1 times the better of them, and 40 rows that the commit draws.
"""
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import time

from .catalogue import GPU_ENTRIES
from .kept import key_of, merge
from .losses import FAST, ratio, summary

# a library that is imported may touch the GPU, which no fork survives
PROCESSES = multiprocessing.get_context("spawn")
ROUNDS = 7
DRAWN = 40  # rows of kept times whose peers are timed again, too


def captured(torch, call):
    """A CUDA graph of one call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def microseconds(torch, graph):
    """The median of rounds of some milliseconds each."""
    def one_round(replays):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(replays):
            graph.replay()
        last.record()
        torch.cuda.synchronize()
        return 1000 * first.elapsed_time(last) / replays
    one_round(3)
    replays = int(min(200, max(1, 5000 / one_round(3))))
    times = []
    for _ in range(ROUNDS):
        time.sleep(0.05)
        times.append(one_round(replays))
    return statistics.median(times)


def graphs_of(row, peers):
    """({peer: graph}, {peer: why there is none}) in the row's precision."""
    import torch
    from .gpu_row import PRECISIONS, channels_last, make_network, moved
    torch.backends.cudnn.benchmark = True
    entry = GPU_ENTRIES[row["network"]]
    dtype = PRECISIONS[row["precision"]]
    net, inputs = make_network(entry, row["batch"])
    net = channels_last(net.to("cuda", dtype))
    inputs = moved(inputs, dtype)
    graphs, failures = {}, {}
    for peer in peers:
        try:
            call = torch.compile(net) if peer == "compile" else net
            with torch.no_grad():
                graphs[peer] = captured(torch, lambda: call(*inputs))
        except Exception as error:  # a peer that cannot run a network is a finding
            failures[peer] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    return graphs, failures


def printed_by(row, bench, *options):
    """What unisono_bench_onnx says of the row's model, or {times_error}."""
    done = subprocess.run([bench, row["model"], "--precision", row["precision"], "--rounds", str(ROUNDS), *options],
                          capture_output=True, text=True, timeout=600)
    if done.returncode:
        return {"times_error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]}
    return json.loads(done.stdout)


def ours(row, bench):
    times = printed_by(row, bench)
    return times if "times_error" in times else {"unisono_us": times["us"], "unisono_spread": times["spread"]}


def losses_of(row, bench):
    times = printed_by(row, bench, "--kernels")
    return {"losses": summary(times["kernels"])} if times.get("kernels") else {}


def take_turn(row, peers, bench, turn, connection):
    """A process: says that it is ready, waits for its turn, times, and sends what it found: the launches, too, of a network
    that is slow."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    import torch
    found = {}
    try:
        graphs, failures = graphs_of(row, peers) if peers else ({}, {})
        found = {f"{peer}_error": why for peer, why in failures.items()}
        connection.send("ready")
        turn.wait()
        found |= ours(row, bench)
        for peer, graph in graphs.items():
            found[f"{peer}_us"] = microseconds(torch, graph)
        again = ours(row, bench)
        if "unisono_us" in found and "unisono_us" in again:
            found["unisono_again_us"] = again["unisono_us"]
        if (ratio(row | found) or FAST) < FAST:
            found |= losses_of(row, bench)
    except Exception as error:
        found["times_error"] = f"{type(error).__name__}: {str(error)[:300]}"
    connection.send(found)


def time_some(rows, peers, bench):
    context, waiting = PROCESSES, []
    for row in rows:
        here, there = context.Pipe()
        turn = context.Event()
        process = context.Process(target=take_turn, args=(row, peers, bench, turn, there))
        process.start()
        there.close()
        waiting.append((row, process, turn, here))

    def received(connection):
        try:
            return connection.recv()
        except EOFError:
            return {"times_error": "the process ended early"}
    started = [received(here) for *_, here in waiting]
    for (row, process, turn, here), first in zip(waiting, started):
        turn.set()
        row |= received(here) if first == "ready" else first
        process.join()


def peers_of(options):
    """What the peers' times depend on, apart from the network: the card and the versions."""
    import torch
    triton = f", Triton {importlib.metadata.version('triton')}" if importlib.util.find_spec("triton") else ""
    return f"{options.gpu}, PyTorch {torch.__version__}{triton}"


def kept_times(row, old, peers):
    """The peers' times of an earlier run of this network, on this card and with these versions; nothing if one is missing."""
    same = old and old.get("peers") == peers and all(old.get(k) == row.get(k) for k in ("key", "batch", "gpu"))
    times = {k: v for k, v in old.items() if k in ("eager_us", "compile_us", "eager_error", "compile_error", "peers")} if same else {}
    return times if all(any(f"{p}_{what}" in times for what in ("us", "error")) for p in ("eager", "compile")) else {}


def timed_again(rows, commit):
    """Those whose peers are timed in the same call although their times are kept: what is slow, and some drawn by the commit."""
    drawn = random.Random(commit).sample(range(len(rows)), min(DRAWN, len(rows)))
    return [r for i, r in enumerate(rows) if i in drawn or (ratio(r) or FAST) < FAST]


def add_times(rows, earlier, options):
    """unisono_us, eager_us, compile_us (or …_error) in those rows that are right and run wholly on the GPU. `earlier` are the
    rows of the file before this run: where they have the peers' times of this card and these versions, Unisono alone is timed,
    and the peers again where it is slow."""
    timed = [r for r in rows if r["status"] == "right" and not r["on_host"]]
    peers = [p for p in options.peers.split(",") if p]
    known, versions = {key_of(r): r for r in earlier}, peers_of(options)
    # PyTorch compiles with a pool of processes for each network, which on few cores is slower than one
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, (os.cpu_count() or 1) // options.together)))
    alone = [r for r in timed if kept_times(r, known.get(key_of(r)), versions)]
    for row in alone:
        row |= kept_times(row, known[key_of(row)], versions)
    time_all(alone, [], rows, options)
    both = [r for r in timed if r not in alone] + (timed_again(alone, options.commit) if peers else [])
    for row in both:
        row["peers"] = versions
    time_all(both, peers, rows, options)


def time_all(timed, peers, rows, options):
    """Some at a time; a run that is cut short keeps what it has."""
    from .gpu import describe
    for first in range(0, len(timed), options.together):
        some = timed[first:first + options.together]
        time_some(some, peers, os.path.abspath(options.times))
        for row in some:
            print(f"[{first + len(some)}/{len(timed)}] {describe(row)}", flush=True)
        merge(rows, options.json)
