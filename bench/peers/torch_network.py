#!/usr/bin/env python3
"""PyTorch on the networks of the suites network and diffusion: eager, torch.compile, and that with max-autotune, each inside
a CUDA graph; eager also without one. The networks are those of bench/networks.cpp, channels last, in bfloat16 or float16.

A time is that of one replay: the median over rounds, each of so many replays in a row that they last some milliseconds.
The first line has the versions; then one JSON line a case and contender: {"suite", "name", "peer", "us", "spread", "compile_s", "peak_bytes"} or {…, "error"}.

usage: torch_network.py CASES.txt… [--peers eager,eager_wall,compile,max_autotune] [--only TEXT] [--rounds 31] [--dtype bf16]
       torch_network.py CASES.txt… --onnx FOLDER   # writes each case's network as ONNX, float32; needs no GPU
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MODES = {"compile": {}, "max_autotune": {"mode": "max-autotune-no-cudagraphs"}}


class Block(nn.Sequential):
    """Conv3x3 without bias, GroupNorm, Mish."""

    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(min(32, outputs // 4), outputs), nn.Mish())


def level(inputs, outputs):
    return nn.Sequential(Block(inputs, outputs), Block(outputs, outputs))


class HeatmapUNet(nn.Module):
    """baseline_unet() of bench/networks.cpp."""

    def __init__(self, inputs=8, widths=(64, 128, 256, 512, 1024), classes=17):
        super().__init__()
        self.down = nn.ModuleList(level(i, o) for i, o in zip((inputs, *widths[:-1]), widths))
        self.narrow = nn.ModuleList(nn.Conv2d(below, above, 1) for above, below in zip(widths[:-1], widths[1:]))
        self.up = nn.ModuleList(level(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, image):
        skips = []
        x = image
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = self.up[i](torch.cat((skips[i], self.narrow[i](x)), 1))
        return self.head(x)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, embedding):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(embedding, outputs)
        self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        y = self.first(x) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.second(y)


class DiffusionStack(nn.Module):
    """diffusion_stack() of bench/networks.cpp."""

    def __init__(self, widths=(320, 640, 1280)):
        super().__init__()
        embedding = 4 * widths[0]
        last = widths[-1]
        self.down = nn.ModuleList(nn.ModuleList((Residual(i, o, embedding), Residual(o, o, embedding)))
                                  for i, o in zip((widths[0], *widths[:-1]), widths))
        self.strided = nn.ModuleList(nn.Conv2d(w, w, 3, stride=2, padding=1) for w in widths[:-1])
        self.middle = Residual(last, last, embedding)
        below = (*widths[1:-1], last)
        self.grow = nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for w in below)
        self.up = nn.ModuleList(Residual(b + w, w, embedding) for b, w in zip(below, widths[:-1]))
        self.out = nn.Sequential(nn.GroupNorm(32, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], widths[0], 3, padding=1))

    def forward(self, x, time):
        time = F.silu(time)
        skips = []
        for i, (one, two) in enumerate(self.down):
            x = two(one(x, time), time)
            skips.append(x)
            if i < len(self.strided):
                x = self.strided[i](x)
        x = self.middle(x, time)
        for i in reversed(range(len(self.up))):
            x = self.grow[i](F.interpolate(x, scale_factor=2, mode="nearest"))
            x = self.up[i](torch.cat((x, skips[i]), 1), time)
        return self.out(x)


def read_cases(files, only):
    for file in files:
        for line in file.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            name, network, *values = line.split()
            if only in name:
                yield file.stem, name, network, {k: int(v) for k, v in (v.split("=") for v in values)}


def make(network, batch, size):
    """(module, names and shapes of its inputs)"""
    torch.manual_seed(0)
    if network == "unet":
        return HeatmapUNet().eval(), {"image": (batch, 8, size, size)}
    return DiffusionStack().eval(), {"x": (batch, 320, size, size), "time": (batch, 1280)}


def graph_us(call, rounds):
    """Median and spread of one call within replays of a CUDA graph that holds it."""
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
    times = [one_round(replays) for _ in range(rounds)]
    us = statistics.median(times)
    return us, (max(times) - min(times)) / us


def wall_us(call, rounds):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - start))
    us = statistics.median(times)
    return us, (max(times) - min(times)) / us


def measure(peer, module, inputs, rounds):
    result = {}
    torch.cuda.reset_peak_memory_stats()
    if peer in MODES:
        torch._dynamo.reset()
        module = torch.compile(module, **MODES[peer])
        start = time.perf_counter()
        module(*inputs)
        torch.cuda.synchronize()
        result["compile_s"] = time.perf_counter() - start
        torch.cuda.reset_peak_memory_stats()
    timed = wall_us if peer == "eager_wall" else graph_us
    result["us"], result["spread"] = timed(lambda: module(*inputs), rounds)
    result["peak_bytes"] = torch.cuda.max_memory_allocated()
    return result


def export(files, only, folder):
    """One file a network; batch and size stay symbols."""
    folder.mkdir(parents=True, exist_ok=True)
    done = set()
    for _, _, network, _ in read_cases(files, only):
        if network in done:
            continue
        done.add(network)
        module, shapes = make(network, 2, 64)
        inputs = tuple(torch.randn(s) for s in shapes.values())
        axes = {name: {0: "batch", **({2: "height", 3: "width"} if len(s) == 4 else {})} for name, s in shapes.items()}
        output = "heatmaps" if network == "unet" else "y"
        path = folder / f"{network}.onnx"
        torch.onnx.export(module, inputs, path, input_names=list(shapes), output_names=[output], dynamic_axes=axes, opset_version=18, dynamo=False)
        print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="+", type=pathlib.Path)
    parser.add_argument("--peers", default="eager,eager_wall,compile,max_autotune")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f16"])
    parser.add_argument("--onnx", type=pathlib.Path, help="write the networks into this folder, and end")
    args = parser.parse_args()
    if args.onnx:
        return export(args.cases, args.only, args.onnx)
    torch.backends.cudnn.benchmark = True
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[args.dtype]
    print(json.dumps({"versions": f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"}), flush=True)
    for suite, name, network, values in read_cases(args.cases, args.only):
        module, shapes = make(network, values["batch"], values["size"])
        module = module.to("cuda", dtype).to(memory_format=torch.channels_last)
        inputs = [torch.randn(s, device="cuda", dtype=dtype) for s in shapes.values()]
        inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
        for peer in args.peers.split(","):
            row = {"suite": suite, "name": name, "peer": peer}
            try:
                with torch.no_grad():
                    row.update(measure(peer, module, inputs, args.rounds))
            except Exception as error:  # a peer that cannot run a case is a finding
                row["error"] = f"{type(error).__name__}: {str(error)[:200]}"
            print(json.dumps(row), flush=True)
        del module, inputs
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
