#!/usr/bin/env python3
"""The suite attention: networks of one attention each (bench/cases/attention.txt), Unisono beside PyTorch's
scaled_dot_product_attention (its own choice of kernel, and cuDNN's), each as replays of one CUDA graph on the same inputs.

A network copies the caller's tensors at its border. So of Unisono the launches between these copies are timed, each by itself
(unisono_bench_onnx --kernels), and added. Of PyTorch a row of attentions is timed, each of which takes the result of the one
before as its queries: CHAIN of them less one alone, over CHAIN - 1. One attention is compared with float64 first; its error stands beside PyTorch's. Operands are not rotated. The same networks with attention by cuDNN
(UNISONO_ATTENTION=cudnn, the library that PyTorch has) are timed beside them, where there is one. Writes bench/results/attention.json and fills the table of docs/performance.md.

usage: bench/run_attention.py [--bench FILE] [--command FILE] [--only TEXT] [--results FOLDER] [--docs FOLDER] [--commit TEXT]
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

import report
from run_gpu import ROOT, commit

CHAIN = 9

sys.path.insert(0, str(ROOT / "scripts"))
from networks.gpu_times import captured, microseconds  # noqa: E402
from networks.errors import relative_error  # noqa: E402


def cases(only):
    lines = (ROOT / "bench/cases/attention.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#") and only in line]


def model_of(sizes, file):
    """Heads are taken out of (batch, rows, heads x width) and put back, as exporters write it."""
    batch, heads, queries, keys, width = sizes
    shapes = {"q": [batch, queries, heads * width], "k": [batch, keys, heads * width], "v": [batch, keys, heads * width]}
    nodes = [helper.make_node("Constant", [], ["split"], value_ints=[0, 0, heads, width]),
             helper.make_node("Constant", [], ["merged"], value_ints=[0, 0, heads * width]),
             helper.make_node("Constant", [], ["scale"], value_float=width ** -0.5)]

    def heads_of(name, result, order):
        return [helper.make_node("Reshape", [name, "split"], [result + "_split"]),
                helper.make_node("Transpose", [result + "_split"], [result], perm=order)]
    nodes += heads_of("k", "k_heads", (0, 2, 3, 1)) + heads_of("v", "v_heads", (0, 2, 1, 3))
    nodes += heads_of("q", "q_heads", (0, 2, 1, 3))
    nodes += [helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]),
              helper.make_node("Mul", ["products", "scale"], ["scores"]),
              helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
              helper.make_node("MatMul", ["weights", "v_heads"], ["y_heads"]),
              helper.make_node("Transpose", ["y_heads"], ["y_split"], perm=(0, 2, 1, 3)),
              helper.make_node("Reshape", ["y_split", "merged"], ["y"])]
    graph = helper.make_graph(
        nodes, "attention", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shapes["q"])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)
    return shapes


def run(command, more=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=os.environ | {"UNISONO_ATTENTION": "own"} | (more or {}))
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


def with_cudnn():
    """The environment in which networks compute attention by the cuDNN that PyTorch has."""
    more = {"UNISONO_ATTENTION": "cudnn"}
    spec = importlib.util.find_spec("nvidia.cudnn") if importlib.util.find_spec("nvidia") else None
    if "UNISONO_CUDNN" not in os.environ and spec and spec.submodule_search_locations:
        more["UNISONO_CUDNN"] = str(pathlib.Path(list(spec.submodule_search_locations)[0]) / "lib")
    return more


def attention(inputs, sizes, dtype, count=1):
    """A call of `count` of PyTorch's attentions on (batch, rows, heads x width), in that order of memory."""
    batch, heads, queries, _, width = sizes
    q, k, v = (torch.from_numpy(x).to("cuda", dtype) for x in inputs.values())

    def call():
        y, (keys, values) = q, (x.unflatten(-1, (heads, width)).transpose(1, 2) for x in (k, v))
        for _ in range(count):
            y = torch.nn.functional.scaled_dot_product_attention(y.unflatten(-1, (heads, width)).transpose(1, 2), keys, values)
            y = y.transpose(1, 2).reshape(batch, queries, -1)
        return y
    return call


def of_one(chain, single):
    return (chain - single) / (CHAIN - 1)


def peers_of(inputs, sizes, exact):
    """({peer: µs}, {peer: error}, {peer: why it has no time})"""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    times, errors, failures = {}, {}, {}
    for peer, backends in (("sdpa", None), ("cudnn", [SDPBackend.CUDNN_ATTENTION])):
        try:
            with torch.no_grad(), sdpa_kernel(backends) if backends else torch.no_grad():
                errors[peer] = relative_error(attention(inputs, sizes, torch.bfloat16)().double().cpu().numpy(), exact)
                single, chain = (microseconds(torch, captured(torch, attention(inputs, sizes, torch.bfloat16, count)))
                                 for count in (1, CHAIN))
                times[peer] = of_one(chain, single)
        except RuntimeError as error:
            failures[peer] = str(error).splitlines()[0][:200]
    return times, errors, failures


def measure(case, args, folder):
    sizes = [int(x) for x in case.split(",")]
    batch, heads, queries, keys, width = sizes
    model = folder / "model.onnx"
    shapes = model_of(sizes, model)
    random = np.random.default_rng(zlib.crc32(case.encode()))
    # what bf16 holds, so that nobody rounds an input
    inputs = {n: torch.from_numpy(random.standard_normal(s, np.float32)).bfloat16().float().numpy() for n, s in shapes.items()}
    exact = attention(inputs, sizes, torch.float64)().cpu().numpy()
    np.savez(folder / "in.npz", **inputs)

    def checked(more=None):
        run([args.command, "run", model, "--device", "cuda", "--input", folder / "in.npz", "--out", folder / "out.npz",
             "--repeat", 0, "--json"], more)
        explained = json.loads(run([args.command, "explain", model, "--device", "cuda", "--json"], more))
        return (relative_error(np.load(folder / "out.npz")["y"], exact),
                [launch["how"] for launch in explained["cuda"]["launches"] if "attention" in launch["how"]])

    def ours(more=None):
        timed = json.loads(run([args.bench, model, "--kernels", "--rounds", 15], more))["kernels"]
        own = [k["us"] for k in timed if not k["what"].startswith("change of layout")]
        return sum(own), len(own)
    error, kernels = checked()
    us, launches = ours()
    within = {}
    try:
        own_error, own_kernels = checked(with_cudnn())
        within = {"us": ours(with_cudnn())[0], "max_error": own_error, "kernels": own_kernels}
    except RuntimeError as failure:  # no cuDNN, said by the command
        within = {"why": str(failure).splitlines()[0][:300]}
    times, errors, failures = peers_of(inputs, sizes, exact)
    again, _ = ours()
    flop = 4 * batch * heads * queries * keys * width
    return {"name": case, "dtype": "bf16", "unisono_us": us, "unisono_again_us": again, "launches": launches,
            "kernels": kernels, "cudnn_within": within, "peers": times, "peer_errors": failures, "flop": flop, "tflops": flop / us / 1e6,
            "max_error": error, "tolerance": 1.5 * min(errors.values(), default=2.0**-8), "peers_max_error": errors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/release/bench/unisono_bench_onnx")
    parser.add_argument("--command", type=pathlib.Path, default=ROOT / "build/release/tools/unisono/unisono")
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--commit", default="")
    args = parser.parse_args()
    results = {"suite": "attention", "gpu": torch.cuda.get_device_name(), "commit": args.commit or commit(),
               "torch": torch.__version__, "cases": []}
    for case in cases(args.only):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(case, args, pathlib.Path(folder))
        results["cases"].append(row)
        print(f"{case}: {row['unisono_us']:.1f} us ({row['tflops']:.0f} TFLOP/s), error {row['max_error']:.1e} of "
              f"{row['tolerance']:.1e}; " + ", ".join(f"{p} {t:.1f}" for p, t in row["peers"].items())
              + f"; {row['launches']:.0f} launches: {row['kernels']}; by cuDNN within: {row['cudnn_within']}", flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "attention.json").write_text(json.dumps(results, indent=1) + "\n")
    if args.docs.exists():
        report.write(args.results, args.docs)
    right = all(max(row["max_error"], row["cudnn_within"].get("max_error", 0)) <= row["tolerance"] for row in results["cases"])
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
