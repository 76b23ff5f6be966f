#!/usr/bin/env python3
"""What a call costs on the host: an ordinary custom operator of PyTorch, functional calls, and a compiled region; on a GPU or a CPU.

usage: torch_host_time.py [--calls N] [--json FILE]

On a GPU calls are enqueued and not waited for, so that what is timed is the host; the problem is small, so that the GPU keeps up.
On a CPU a call computes, too: `kernel` is the prepared call alone, and is taken off in `over`. The bar is `over`: at most 10
microseconds over the ordinary custom operator, whose body is one allocation. A JSON line for each measurement:

    {"suite": "torch", "what": "host time", "case": …, "us": …, "kernel": …, "over": us − custom operator (− kernel on a CPU)}
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

import unisono
from unisono import direct, functional
from unisono.pytorch import backend, library
from unisono.pytorch.concatenations import INTO

BAR = 10.0  # microseconds over a custom operator


@torch.library.custom_op("unisono_bench::nothing", mutates_args=())
def nothing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(a)


@nothing.register_fake
def _(a, b):
    return torch.empty_like(a)


def timed(functions, count, device):
    """Of each function the least of forty runs of a fortieth of the calls, in microseconds: others on the machine only add. The
    functions take turns, run by run, as a machine that is shared may be slower for seconds.
    """
    least, each = [float("inf")] * len(functions), max(1, count // 40)
    for run in range(41):
        for i, function in enumerate(functions):
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(each):
                function()
            if run > 0:  # the first warms up
                least[i] = min(least[i], 1e6 * (time.perf_counter() - start) / each)
    if device == "cuda":
        torch.cuda.synchronize()
    return least


def alone(call, tensors, results=None):
    """A prepared call by itself, on tensors of its own, or on those of the caller."""
    results = results or [torch.empty_strided(shape, strides, dtype=tensors[0].dtype, device=tensors[0].device) for _, shape, strides, _ in call.results]
    addresses = [t.data_ptr() for t in (*tensors, *results)]
    return lambda: (call.native.run(addresses, []), results)[0]


def cases(device, dtype):
    """(name, what is timed, the computing in it that is no cost of the call: on a CPU the kernel, how often it runs)."""
    a, b, bias = (torch.randn(s, device=device, dtype=dtype) for s in ((64, 64), (64, 64), (64,)))
    x, w = torch.randn(1, 32, 8, 8, device=device, dtype=dtype), torch.randn(32, 32, 3, 3, device=device, dtype=dtype)
    x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    g, h = torch.randn(32, device=device, dtype=dtype), torch.randn(32, device=device, dtype=dtype)
    whole = torch.empty(1, 64, 8, 8, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
    wide = torch.empty(1, 64, 16, 16, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
    piece, up = whole[:, 32:], torch.randn(32, 32, 2, 2, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
    biased = f"store relu(acc + g[n]) as y : {'bf16' if dtype == torch.bfloat16 else 'f32'}"
    plain, relu, norm = "relu(acc + g[n])", "relu(acc + bias[n])", "silu(group_norm(acc, groups=8, scale=g[n], shift=h[n]))"
    fused, inner = torch.ops.unisono.fused_gemm.default, {"minimum_gain": -1.0}
    convolved, moves = torch.ops.unisono.fused_conv2d.default, ([1, 1], [1, 1], [1, 1], 1)
    kernels = {}
    if device == "cpu":
        one, pair = (1, 1), (0, 0)
        kernels = {"": alone(functional.gemm_call(a, b, "acc", None, None, {}, {}), [a, b]),
                   relu: alone(functional.gemm_call(a, b, relu, None, None, {}, {"bias": bias}), [a, b, bias]),
                   norm: alone(functional.conv2d_call(x, w, norm, one, one, one, 1, "nchw", None, None, {}, {"g": g, "h": h}), [x, w, g, h])}
        kernels[plain] = alone(functional.conv2d_call(x, w, plain, one, one, one, 1, "nchw", None, None, {}, {"g": g}), [x, w, g])
        kernels["into"] = alone(functional.conv2d_call(x, w, biased, one, one, one, 1, "nchw", None, {"y": piece}, {}, {"g": g}), [x, w, g], [piece])
        kernels["up"] = alone(direct.conv_transpose2d_call(x, up, biased, (2, 2), pair, one, pair, 1, None, {"y": wide[:, 32:]}, {}, {"g": g}),
                              [x, up, g], [wide[:, 32:]])
    layer = lambda t: F.relu(torch.addmm(bias, t, b))  # noqa: E731
    yield "custom operator", lambda: nothing(a, b), None, 0
    yield "torch.mm", lambda: torch.mm(a, b), None, 0
    yield "operator, no epilogue", lambda: fused(a, b, [], [], "acc", "", dtype), kernels.get(""), 1
    yield "operator, bias and relu", lambda: fused(a, b, [bias], [], relu, "bias", dtype), kernels.get(relu), 1
    yield "unisono.gemm, bias and relu", lambda: unisono.gemm(a, b, relu, bias=bias), kernels.get(relu), 1
    yield "unisono.conv2d, group norm and silu", lambda: unisono.conv2d(x, w, norm, g=g, h=h, padding=1), kernels.get(norm), 1
    yield "operator, convolution, bias and relu", lambda: convolved(x, w, [g], [], plain, "g", *moves, dtype), kernels.get(plain), 1
    yield "operator, convolution, group norm and silu", lambda: convolved(x, w, [g, h], [], norm, "g,h", *moves, dtype), kernels.get(norm), 1
    into, up_into = INTO[library.CONVOLUTIONS[0]], INTO[library.CONVOLUTIONS[1]]
    yield "unisono.conv2d_into, a slice", lambda: unisono.conv2d_into(x, w, piece, biased, g=g, padding=1), kernels.get("into"), 1
    yield "operator, into a concatenation", lambda: into(x, w, [g], [], biased, "g", [1, 1], [1, 1], [1, 1], 1, None, whole, 32, 0, []), \
        kernels.get("into"), 1
    yield "operator, transposed, into a concatenation", \
        lambda: up_into(x, up, [g], [], biased, "g", [2, 2], [0, 0], [1, 1], [0, 0], 1, None, wide, 32, 0, []), kernels.get("up"), 1
    yield "compiled: the custom operator", torch.compile(lambda: nothing(a, b)), None, 0
    yield "compiled: a region", torch.compile(lambda: layer(a), backend=backend.unisono, options=inner), kernels.get(relu), 1
    yield "compiled: two regions", torch.compile(lambda: layer(layer(a)), backend=backend.unisono, options=inner), kernels.get(relu), 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default=5000, type=int)
    parser.add_argument("--json")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.set_num_threads(1)
    rows, base = [{"what": "machine", "torch": torch.__version__, "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                   "operators": library.layer()[1]}], {}
    with torch.no_grad():
        found = list(cases(device, dtype))
        computing = [c for _, _, c, _ in found if c]
        times = timed([f for _, f, _, _ in found] + computing, options.calls, device)
        alone_us = dict(zip(map(id, computing), times[len(found):]))
        for (case, _, kernel, often), us in zip(found, times):
            kernel = often * alone_us[id(kernel)] if kernel else 0.0
            base.setdefault(case.startswith("compiled"), us)  # the first of each kind is the custom operator
            over = us - kernel - base[case.startswith("compiled")]
            rows.append({"what": "host time", "case": case, "us": round(us, 2), "kernel": round(kernel, 2), "over": round(over, 2), "bar": BAR})
    for row in rows:
        text = json.dumps({"suite": "torch", **row})
        print(text)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
