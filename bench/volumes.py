#!/usr/bin/env python3
"""Times convolutions of volumes with a normalisation and SiLU, as decoders of video and medical networks have them.

Eight cases are layers of such networks. Eight more are drawn by draw() with seed 1: 32 to 512 channels, 1 to 33 frames
and sides of 16 to 512, all log-uniform, between 20 and 1,500 GFLOP. Half of them are causal in time: they are padded
with two planes of zeros before the first frame and with none after the last. `rms` normalises over channels and is
causal, `group` has 32 groups, and `instance` has one group per channel. Filters are 3x3x3; everything is bf16.

Each case is exported to ONNX and timed by unisono_bench_onnx. `unisono_us` is the sum of the launches between the layout
conversions at both ends; `bare_us` is that of the convolution alone. PyTorch is timed inside a CUDA graph, and the
faster of --layouts counts: `eager` and `compile` run the block with its causal padding, `cudnn` runs the convolution on
an input that is already padded. Operands are not rotated. floor_us is the larger of the times at 790 TFLOP/s and, with
input and output moved once, at 4.26 TB/s. volumes.json is written after every case; no case starts after --seconds.

usage: bench/volumes.py [--binary FILE] [--peers cudnn,eager,compile] [--layouts last,first] [--only TEXT]
                        [--rounds 15] [--jobs 8] [--seconds N] [--results FOLDER] [--docs FOLDER] [--commit TEXT]
                        [--list] [--onnx FOLDER]
--list prints the cases. --onnx writes the models and exits. --jobs is the number of models that are compiled at once
before timing starts.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn

import report
from draw_cases import log_uniform
from run_gpu import ROOT, commit, environment

sys.path.insert(0, str(ROOT / "bench/peers"))
from torch_network import measure  # noqa: E402

# N,T,H,W,C,K,norm; the most interesting first, as --seconds may end the run early
CASES = ("1,8,480,832,96,96,rms", "1,96,96,96,32,32,instance", "2,64,64,64,64,64,instance", "1,9,240,416,192,192,rms",
         "1,9,120,208,384,192,rms", "1,5,60,104,384,384,rms", "1,17,120,180,256,256,group", "1,9,60,90,512,512,group")
NORMS = ("rms", "group", "instance")
FORMATS = {"last": torch.channels_last_3d, "first": torch.contiguous_format}
FLOP_US, BYTES_US = 790e6, 4.26e6


def draw(seed=1, count=8):
    """Returns lines in the format of CASES; every other one is causal."""
    rng, lines = random.Random(seed), []
    while len(lines) < count:
        causal = len(lines) % 2 == 0
        norm = "rms" if causal else NORMS[1 + len(lines) // 2 % 2]
        c, k = (log_uniform(rng, 32, 512, 32 if norm == "group" else 8) for _ in range(2))
        t, h, w = log_uniform(rng, 1, 33), log_uniform(rng, 16, 512), log_uniform(rng, 16, 512)
        if 20e9 <= 54 * t * h * w * c * k <= 1500e9:
            lines.append(f"1,{t},{h},{w},{c},{k},{norm}")
    return lines


class RmsNorm(nn.Module):
    """Of diffusers' AutoencoderKLWan."""

    def __init__(self, channels):
        super().__init__()
        self.scale, self.gamma = channels**0.5, nn.Parameter(torch.ones(1, channels, 1, 1, 1))

    def forward(self, x):
        return nn.functional.normalize(x, dim=1) * self.scale * self.gamma


class Block(nn.Module):
    def __init__(self, c, k, norm, bare, padded):
        super().__init__()
        self.causal = norm == "rms" and not padded
        self.conv = nn.Conv3d(c, k, 3, padding=(0 if norm == "rms" else 1, 1, 1), bias=False)
        norms = {"rms": lambda: RmsNorm(k), "group": lambda: nn.GroupNorm(32, k),
                 "instance": lambda: nn.InstanceNorm3d(k, affine=True)}
        self.norm = nn.Identity() if bare else nn.Sequential(norms[norm](), nn.SiLU())

    def forward(self, x):
        return self.norm(self.conv(nn.functional.pad(x, (0, 0, 0, 0, 2, 0)) if self.causal else x))


def block_of(line, bare=False, padded=False):
    """Returns the module and the shape of its input. With `padded` the input includes the causal padding."""
    *sizes, norm = line.split(",")
    n, t, h, w, c, k = map(int, sizes)
    return Block(c, k, norm, bare, padded).eval(), (n, c, t + 2 * (padded and norm == "rms"), h, w)


def export(line, bare, path):
    module, shape = block_of(line, bare)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.no_grad():
        torch.onnx.export(module.to(device), (torch.zeros(shape, device=device),), path, dynamo=False, opset_version=17)
    torch.cuda.empty_cache()


def run(path, rounds, args):
    """Runs unisono_bench_onnx on a model and returns its JSON. Raises RuntimeError with its message if it fails."""
    command = [args.binary, path, "--kernels", "--rounds", rounds]
    said = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment(), timeout=60)
    if said.returncode:
        raise RuntimeError(said.stderr.strip()[-300:] or f"exit code {said.returncode}")
    return json.loads(said.stdout)


def of_unisono(line, models, args):
    block, bare = (run(models[line, b], args.rounds, args) for b in (False, True))
    own, alone = ([k for k in r["kernels"] if "conv3d" in k["what"] or "epilogue" in k["what"]] for r in (block, bare))
    return {"unisono_us": sum(k["us"] for k in own), "bare_us": sum(k["us"] for k in alone), "launches": len(own),
            "plan": "; ".join(k["how"] for k in own), "bare_plan": "; ".join(k["how"] for k in alone), "network_us": block["us"]}


def of_pytorch(line, peer, args):
    """Returns {layout: microseconds} and {layout: error message}."""
    times, errors = {}, {}
    bare = peer == "cudnn"
    for layout in args.layouts.split(","):
        module, shape = block_of(line, bare, padded=bare)
        module = module.to("cuda", torch.bfloat16).to(memory_format=FORMATS[layout])
        x = torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(memory_format=FORMATS[layout])
        try:
            with torch.no_grad():
                times[layout] = measure("eager" if bare else peer, module, [x], args.rounds)["us"]
        except Exception as error:  # a peer that cannot run a case is a finding
            errors[layout] = f"{type(error).__name__}: {str(error)[:200]}"
        del module, x
        torch.cuda.empty_cache()
    return times, errors


def measured(line, models, args):
    n, t, h, w, c, k = map(int, line.split(",")[:6])
    flop, size = 54 * n * t * h * w * c * k, 2 * (n * t * h * w * (c + k) + 27 * c * k)
    row = {"name": line, "dtype": "bf16", "flop": flop, "bytes": size, "floor_us": max(flop / FLOP_US, size / BYTES_US),
           "peers": {}, "peer_layouts": {}, "peer_errors": {}}
    try:
        row.update(of_unisono(line, models, args))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        row["error"] = str(error)
    for peer in filter(None, args.peers.split(",")):
        times, errors = of_pytorch(line, peer, args)
        row["peer_layouts"][peer] = times
        if times:
            row["peers"][peer] = min(times.values())
        if errors:
            row["peer_errors"][peer] = "; ".join(f"{layout}: {why}" for layout, why in errors.items())
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bench/unisono_bench_onnx")
    parser.add_argument("--peers", default="cudnn,eager,compile")
    parser.add_argument("--layouts", default="last,first", help="of PyTorch's tensors: channels last, channels first")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--commit", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--onnx", type=pathlib.Path)
    args = parser.parse_args()
    start = time.monotonic()
    lines = [line for line in (*CASES, *draw()) if args.only in line]
    if args.list:
        return print("\n".join(lines))
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.onnx or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        models = {(line, bare): str(folder / f"{line}{'-bare' * bare}.onnx") for line in lines for bare in (False, True)}
        for (line, bare), path in models.items():
            export(line, bare, path)
        if args.onnx:
            return print("\n".join(models.values()))
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:  # whose kernels are then in the cache
            list(pool.map(lambda path: subprocess.run(["timeout", "90", args.binary, path, "--rounds", "1"], capture_output=True,
                                                      env=environment()), models.values()))
        print(f"{len(models)} models compiled in {time.monotonic() - start:.0f} s", file=sys.stderr)
        torch.backends.cudnn.benchmark = True
        results = {"suite": "volumes", "gpu": torch.cuda.get_device_name(), "commit": args.commit or commit(),
                   "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "layouts": args.layouts, "cases": []}
        args.results.mkdir(parents=True, exist_ok=True)
        for line in lines:
            if time.monotonic() - start > args.seconds:
                break
            results["cases"].append(measured(line, models, args))
            print(json.dumps(results["cases"][-1]), flush=True)
            (args.results / "volumes.json").write_text(json.dumps(results, indent=1) + "\n")
    if args.docs.exists():
        report.write(args.results, args.docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
