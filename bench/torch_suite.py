#!/usr/bin/env python3
"""Suite `torch`: torch.compile(backend="unisono") beside PyTorch's eager mode and Inductor, on one GPU in one call.

usage: torch_suite.py [NAME…] [--train] [--no-forward] [--peers eager,compile,unisono,given] [--max-autotune] [--rounds N]
                      [--minimum-operators N] [--minimum-gain G] [--nodes] [--json FILE] [--smoke]

Each network of peers/torch_models.py runs in bf16 and channels last. Every peer is captured into a CUDA graph; then the graphs
are replayed in turn, from rest, and the medians are compared: ratios are within one call. Errors are relative L2 against
float32 without TF32 (of PyTorch's bf16 eager mode too). A JSON line for each measurement:

    {"suite": "torch", "network": …, "what": "forward", "us": {peer: …}, "ratio": best peer / unisono, "bar": …, "error": {…},
     "compile_s": {…}, "regions": …, "share_of_flop": …, "plans_from": {"the cost model": N, "shipped": N, …}, "left": [reasons],
     "seconds": {"regions": finding them, "rest": Inductor, "kernels": waiting for those after that}}

--peers: given is networks="any", graphs as networks with weights that may change, which is no peer by default. Its reports are
{"given": {"networks", "kernels", "foreign": PyTorch operators, "notes": why a graph is not a network, "host_us": a call}}.

and ahead of them one of {"what": "first graph"}: compile_s of a small graph, with all that is done once a process.

--nodes adds of this backend's graph: {"graph": {"nodes": {kind: N}, "edges": {"full": N, "programmatic": N}}, "kernels": [{"name",
"us", "begins"}]}, each region's {"shape", "plan", "plan_from"}, and of each kernel the microseconds that the profiler sees.

--train adds steps of the baseline U-Net at batch 8 (forward, backward, AdamW), and for 10,000 calls the time on the host of a
fused call beside an ordinary custom operator. --smoke: small sizes on the CPU, without graphs: does it run?
"""
import argparse
import collections
import copy
import functools
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
import torch_nodes  # noqa: E402
from torch_models import NETWORKS, HeatmapUNet  # noqa: E402


OURS = ("unisono", "given")


def say(sink, **row):
    text = json.dumps({"suite": "torch", **row})
    print(text, flush=True)
    if sink:
        with open(sink, "a", encoding="utf-8") as file:
            file.write(text + "\n")


class Clock:
    """Times functions: on a GPU as CUDA graphs in turn, on the CPU as they are."""

    def __init__(self, device, rounds):
        self.device, self.rounds = device, rounds

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prepared(self, function):
        if self.device != "cuda":
            function()
            return function
        stream = self.warmed(function)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            function()
        return graph.replay

    def warmed(self, function):
        """A stream on which it ran."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(stream)
        self.wait()
        return stream

    def once(self, run, inner):
        if self.device != "cuda":
            start = time.perf_counter()
            for _ in range(inner):
                run()
            return 1e6 * (time.perf_counter() - start) / inner
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(inner):
            run()
        end.record()
        end.synchronize()
        return 1000 * start.elapsed_time(end) / inner

    def compare(self, runs):
        """{name: median microseconds}; each round runs all of them, each from 0.1 s of rest."""
        found = {name: [] for name in runs}
        inner = {name: max(1, int(20_000 / max(1.0, self.once(run, 1)))) for name, run in runs.items()}
        for _ in range(self.rounds):
            for name, run in runs.items():
                time.sleep(0.1)
                found[name].append(self.once(run, inner[name]))
        return {n: round(statistics.median(t), 1) for n, t in found.items()}, \
            {n: round((max(t) - min(t)) / statistics.median(t), 3) for n, t in found.items()}


def compiled(peer, function, options):
    if peer == "eager":
        return function
    if peer in OURS:
        from unisono.pytorch import backend
        backend._reports.clear()
        more = {"networks": "any"} if peer == "given" else {}
        return torch.compile(function, backend=backend.unisono,
                             options={"minimum_operators": options.minimum_operators, "minimum_gain": options.minimum_gain, **more})
    return torch.compile(function, mode="max-autotune-no-cudagraphs" if peer == "max" else None)


def reported():
    from unisono.pytorch.backend import reports
    rows = [row for r in reports() for row in r.rows]
    return {"regions": sum(r.regions for r in reports()), "share_of_flop": round(share(rows), 4),
            "plans_from": dict(collections.Counter(row["plan_from"].split(" with ")[0].split(" 20")[0] for row in rows if "plan_from" in row)),
            "left": sorted({f"{row['anchor']} {row['shape']}: {row['ends'].splitlines()[0][:200]}" for row in rows if not row["taken"]})[:40],
            "standalone": [n for r in reports() for n in r.counts.get("standalone after a contraction", [])][:40],
            "conversions": sum(r.counts.get("conversions", 0) for r in reports()),
            "concatenations": [n for r in reports() for n in r.counts.get("concatenations without copies", [])],
            "seconds": {name: round(sum(r.seconds.get(name, 0) for r in reports()), 2) for name in ("regions", "rest", "kernels")},
            "graphs": [{"graph": r.kind, "regions": r.regions, "of": len(r.rows), "share_of_flop": round(r.share_of_flop, 4)} for r in reports()]}


def reported_networks(call, clock):
    """Of the peer given: what its graphs became, and the time on the host of a call or step."""
    from unisono.pytorch.backend import reports
    found = {"networks": [r.counts.get("calls") for r in reports() if r.kernels], "kernels": [r.kernels for r in reports()],
             "foreign": [n[:120] for r in reports() for n in r.counts.get("operators of PyTorch's between networks", [])][:20],
             "notes": [r.note.splitlines()[0][:300] for r in reports() if r.note.startswith("not ")]}
    clock.wait()
    start = time.perf_counter()
    for _ in range(10):
        call()
    found["host_us"] = round(1e5 * (time.perf_counter() - start), 1)
    clock.wait()
    return {"given": found}


def nodes(function, clock):
    """What the captured graph holds; a failure is a finding, too."""
    from unisono.pytorch.backend import reports
    found = {"plans": [{key: row[key] for key in ("shape", "plan", "plan_from")} for r in reports() for row in r.rows if "plan" in row]}
    try:
        graph = torch_nodes.captured(function, clock.warmed(function))
        found["graph"] = torch_nodes.nodes_of(graph)
        found["kernels"] = torch_nodes.kernels_of(graph)
    except Exception as failure:
        found["failure"] = f"{type(failure).__name__}: {str(failure)[:400]}"
    return found


def share(rows):
    whole = sum(row.get("flop", 0) for row in rows)
    return sum(row.get("flop", 0) for row in rows if row["taken"]) / whole if whole else 1.0


def last(x, device, dtype=torch.bfloat16):
    x = x.to(device, dtype if x.is_floating_point() else None)
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def randomised(model):
    """Norms off their trivial start, as a trained model has them."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return model


def distance(x, exact):
    return float((x.double() - exact).norm() / exact.norm())


def exact_result(model, inputs, device):
    """In float32 without TF32, as float64."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    wide = copy.deepcopy(model).float()
    result = wide(*(x.float() if x.is_floating_point() else x for x in inputs)).double()
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
    return result


def forward(name, options, clock, device):
    make, inputs_of, _, bar = NETWORKS[name]
    torch.manual_seed(0)
    model = randomised(make()).eval().requires_grad_(False).to(device, torch.bfloat16).to(memory_format=torch.channels_last)
    small = 4 if name in ("nnunet_2d", "convnext_tiny") else 8  # these halve their images five or six times
    inputs = [last(x, device) for x in inputs_of(small if options.smoke else 1)]
    runs, errors, seconds, more = {}, {}, {}, {}
    peers = options.peers + (["max"] if options.max_autotune and name == "heatmap_unet" else [])
    with torch.no_grad():
        exact = exact_result(model, inputs, device)
        for peer in peers:
            torch._dynamo.reset()
            try:
                function, start = compiled(peer, model, options), time.perf_counter()
                result = function(*inputs)
                clock.wait()
                seconds[peer] = round(time.perf_counter() - start, 2)
                errors[peer] = distance(result, exact)
                call = functools.partial(function, *inputs)
                if peer == "unisono":
                    more.update(reported())
                if peer == "given":
                    more.update(reported_networks(call, clock))
                runs[peer] = clock.prepared(call)
                if peer == "unisono" and options.nodes:
                    more.update(nodes(call, clock))
            except Exception as failure:  # a peer that cannot run it is a finding, too
                errors[peer] = f"{type(failure).__name__}: {str(failure)[:400]}"
        us, spread = clock.compare(runs)
    others = [t for p, t in us.items() if p not in OURS]
    ratio = round(min(others) / us["unisono"], 3) if others and "unisono" in us else None
    say(options.json, network=name, what="forward", us=us, spread=spread, ratio=ratio, bar=bar, error=errors, compile_s=seconds, **more)


def first_graphs(options, clock, device):
    """Seconds until a first small graph of each peer runs: what is done once a process, such as starting Inductor's workers
    and loading compilers from the disk. The networks after it are compiled in what each of them takes."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(3)).eval()
    model = model.requires_grad_(False).to(device, torch.bfloat16).to(memory_format=torch.channels_last)
    x, seconds, more = last(torch.randn(2, 64, 32, 32), device), {}, {}
    with torch.no_grad():
        for peer in options.peers:
            torch._dynamo.reset()
            function, start = compiled(peer, model, options), time.perf_counter()
            function(x)
            clock.wait()
            seconds[peer] = round(time.perf_counter() - start, 2)
            if peer == "unisono":
                more = reported()
    say(options.json, what="first graph", compile_s=seconds, seconds=more.get("seconds"))


def training(options, clock, device):
    """Steps of the baseline U-Net at batch 8: forward, loss, backward, AdamW; in CUDA graphs."""
    size = 32 if options.smoke else 256
    x, runs, seconds, losses, more = last(torch.randn(8, 8, size, size), device), {}, {}, {}, {}
    y = last(torch.rand(8, 17, size, size), device)
    kept = []  # what graphs read and write must live as long as they are replayed
    for peer in options.peers:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = randomised(HeatmapUNet()).to(device, torch.bfloat16).to(memory_format=torch.channels_last).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=device == "cuda", fused=device == "cuda")
        try:
            function = compiled(peer, model, options)

            def step(function=function, optimizer=optimizer):
                loss = F.binary_cross_entropy_with_logits(function(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                return loss.detach()

            start = time.perf_counter()
            found = [step().item() for _ in range(5)]
            clock.wait()
            seconds[peer], losses[peer] = round(time.perf_counter() - start, 2), [round(v, 5) for v in found]
            if peer == "unisono":
                more.update(reported())
            if peer == "given":
                more.update(reported_networks(step, clock))
            runs[peer] = clock.prepared(step)
            kept.append((model, optimizer, function))
        except Exception as failure:
            losses[peer] = f"{type(failure).__name__}: {str(failure)[:400]}"
    us, spread = clock.compare(runs)
    ratio = round(us["compile"] / us["unisono"], 3) if {"compile", "unisono"} <= set(us) else None
    say(options.json, network="heatmap_unet", what="training step, batch 8", us=us, spread=spread, ratio=ratio, bar=1.0, losses=losses,
        compile_s=seconds, **more)


def host_times(options, clock, device):
    """Microseconds on the host of a call: a region's operator, and a custom operator that only allocates."""
    import unisono.pytorch.library  # noqa: F401
    a, b = (torch.randn(64, 64, device=device, dtype=torch.bfloat16) for _ in range(2))

    @torch.library.custom_op("unisono_bench::nothing", mutates_args=())
    def nothing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(a)

    def timed(function, calls=2000):
        for _ in range(100):
            function()
        clock.wait()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        found = time.perf_counter() - start
        clock.wait()
        return round(1e6 * found / calls, 2)

    with torch.no_grad():
        ours = timed(lambda: torch.ops.unisono.fused_gemm(a, b, [], [], "relu(acc)", "", torch.bfloat16))
        say(options.json, network="gemm 64x64x64", what="host time of a call", us={"unisono": ours, "custom operator": timed(lambda: nothing(a, b)),
                                                                                  "torch.mm": timed(lambda: torch.mm(a, b))})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--peers", default="eager,compile,unisono", type=lambda s: s.split(","))
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--no-forward", action="store_true")
    parser.add_argument("--max-autotune", action="store_true")
    parser.add_argument("--rounds", default=7, type=int)
    parser.add_argument("--minimum-operators", default=1, type=int, help="of the backend: 0 takes contractions without an epilogue, too")
    parser.add_argument("--minimum-gain", default=None, type=float, help="of the backend, instead of its own for inference and for training")
    parser.add_argument("--nodes", action="store_true", help="what this backend's CUDA graphs hold, and the time of each kernel")
    parser.add_argument("--json")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NETWORKS):
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    device = "cuda" if torch.cuda.is_available() and not options.smoke else "cpu"
    if device == "cpu" and not options.smoke:
        parser.error("PyTorch finds no GPU here; --smoke runs small sizes on the CPU")
    if options.nodes and device != "cuda":
        parser.error("--nodes looks into CUDA graphs, which need a GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    clock = Clock(device, 2 if options.smoke else options.rounds)
    about = {"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()} if device == "cuda" else {}
    say(options.json, what="machine", torch=torch.__version__, python=sys.version.split()[0], **about)
    first_graphs(options, clock, device)
    for name in [] if options.no_forward else options.names or NETWORKS:
        forward(name, options, clock, device)
        if device == "cuda":
            torch.cuda.empty_cache()
    if options.train:
        training(options, clock, device)
        host_times(options, clock, device)


if __name__ == "__main__":
    main()
