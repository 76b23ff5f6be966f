#!/usr/bin/env python3
"""Convolutions of volumes with their normalisation and activation: Unisono's kernel beside PyTorch, on one GPU in one run.

Each case, as nnU-Net has them, is exported as an ONNX model and timed by unisono_bench_onnx. `us` is the sum of the launches of the
block itself, from stacked planes to stacked planes: PyTorch's tensors, too, lie channels last in memory (channels_last_3d) before and
after. `network_us` is one replay of the whole model, with the changes of order at both ends. PyTorch's times are those of
bench/peers/torch_network.py: eager and torch.compile, inside a CUDA graph. Prints one JSON line a case; `ratio` is PyTorch's time over `us`.

usage: bench/volumes.py [--binary FILE] [--peers eager,compile] [--only TEXT] [--dtype bf16] [--rounds 31]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/peers"))
from torch_network import measure  # noqa: E402


# name: batch, extent of the cube, channels, filters, taps, stride
CASES = {"block-128-32": (2, 128, 32, 32, 3, 1), "block-64-64": (2, 64, 64, 64, 3, 1), "block-32-128": (2, 32, 128, 128, 3, 1),
         "block-16-320": (2, 16, 320, 320, 3, 1), "down-128-32-64": (2, 128, 32, 64, 3, 2), "down-64-64-128": (2, 64, 64, 128, 3, 2),
         "down-32-128-320": (2, 32, 128, 320, 3, 2)}


def block(channels, filters, taps, stride):
    return nn.Sequential(nn.Conv3d(channels, filters, taps, stride, taps // 2, bias=False), nn.InstanceNorm3d(filters, affine=True),
                         nn.LeakyReLU(0.01, inplace=True)).eval()


def of_unisono(module, shape, args):
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "block.onnx")
        with torch.no_grad():
            torch.onnx.export(module.cuda(), (torch.randn(shape, device="cuda"),), path, dynamo=False, opset_version=17)
        torch.cuda.empty_cache()
        said = subprocess.run([args.binary, path, "--kernels", "--precision", args.dtype], capture_output=True, text=True)
    if said.returncode != 0:
        return {"error": said.stderr.strip()[-300:]}
    result = json.loads(said.stdout)
    own = [k for k in result["kernels"] if "conv3d" in k["what"] or "epilogue" in k["what"]]
    return {"us": sum(k["us"] for k in own), "network_us": result["us"], "launches": len(own), "how": own[0]["how"] if own else "",
            "gpu": result["gpu"]}


def of_pytorch(module, shape, peer, args):
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[args.dtype]
    module = module.to("cuda", dtype).to(memory_format=torch.channels_last_3d)
    x = torch.randn(shape, device="cuda", dtype=dtype).to(memory_format=torch.channels_last_3d)
    try:
        with torch.no_grad():
            return measure(peer, module, [x], args.rounds)["us"]
    except Exception as error:  # a peer that cannot run a case is a finding
        return f"{type(error).__name__}: {str(error)[:200]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/bench/unisono_bench_onnx"))
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f16"])
    parser.add_argument("--rounds", type=int, default=31)
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    for name, (batch, extent, channels, filters, taps, stride) in CASES.items():
        if args.only not in name:
            continue
        shape = (batch, channels, extent, extent, extent)
        module = block(channels, filters, taps, stride)
        row = {"name": name, **of_unisono(module, shape, args)}
        row["peers"] = {peer: of_pytorch(module, shape, peer, args) for peer in args.peers.split(",") if peer}
        row["ratio"] = {peer: us / row["us"] for peer, us in row["peers"].items() if "us" in row and isinstance(us, float)}
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
