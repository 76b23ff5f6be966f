#!/usr/bin/env python3
"""Suite `torch_frozen`: public models with frozen=True, compared with eager mode, Inductor and regions on one GPU.

usage: torch_frozen.py NAME… [--peers eager,compile,regions,given,frozen] [--batch N] [--rounds N] [--lock FILE] [--json FILE]

given: networks="any", with weights that may change; it is a peer only if --peers has it. NAME is a model of timm, or torchvision:MODEL, or segformer:b0 to b5 of transformers. Weights are drawn by a seed. Each peer is
captured into a CUDA graph; then the graphs are replayed in turn, from rest, and the medians are compared. Errors are relative L2
against float32. A JSON line for each network, as torch_suite.py's: {"suite", "network", "what", "batch", "us": {peer: …}, "spread",
"ratio": best of eager and compile / frozen, "error", "compile_s", "kernels", "note": why it is not one network, or "", "same_bits",
"same_strides", "host_us": of a call}. bench/torch_rows.py puts them into bench/results/torch_frozen.json.
--lock: runs that share the lock compile at the same time and take turns on the GPU.
"""
import argparse
import contextlib
import fcntl
import functools
import sys
import time

import torch
from torch_suite import Clock, distance, exact_result, say

SEGFORMERS = {"b0": ((32, 64, 160, 256), (2, 2, 2, 2), 256), "b1": ((64, 128, 320, 512), (2, 2, 2, 2), 256),
              "b2": ((64, 128, 320, 512), (3, 4, 6, 3), 768), "b3": ((64, 128, 320, 512), (3, 4, 18, 3), 768),
              "b4": ((64, 128, 320, 512), (3, 8, 27, 3), 768), "b5": ((64, 128, 320, 512), (3, 6, 40, 3), 768)}


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def made(name):
    """The model, and the side of its images."""
    kind, _, model = name.rpartition(":")
    if kind == "segformer":
        from transformers import SegformerConfig, SegformerForSemanticSegmentation
        widths, depths, decoder = SEGFORMERS[model]
        return Logits(SegformerForSemanticSegmentation(SegformerConfig(
            num_labels=150, hidden_sizes=list(widths), depths=list(depths), decoder_hidden_size=decoder))), 512
    if kind == "torchvision":
        import torchvision
        weights = torchvision.models.get_model_weights(model).DEFAULT
        return torchvision.models.get_model(model), weights.transforms().crop_size[0]
    import timm
    created = timm.create_model(model)
    return created, created.default_cfg["input_size"][-1]


def drawn(model):
    """Every parameter and buffer anew, in sizes that keep activations of one scale."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *model.named_buffers()]:
            uniform = torch.rand(p.shape, generator=generator)
            if not p.is_floating_point():
                continue
            if "running_var" in name:
                p.copy_(0.5 + uniform)
            elif p.dim() > 1:
                p.copy_(torch.randn(p.shape, generator=generator) * 1.2 / max(1, p[0].numel()) ** 0.5)
            else:
                p.copy_(0.6 + 0.5 * uniform if "weight" in name or "gamma" in name else 0.2 * uniform - 0.1)
    return model


def compiled(peer, model):
    if peer == "eager":
        return model
    if peer == "compile":
        return torch.compile(model)
    from unisono.pytorch import backend
    backend._reports.clear()
    options = {"frozen": peer == "frozen", "networks": "any" if peer == "given" else "frozen"}
    return torch.compile(model, backend=backend.unisono, options=options)


@contextlib.contextmanager
def alone(path):
    with open(path, "w", encoding="utf-8") if path else contextlib.nullcontext() as file:
        if file:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def looked_at(call, expected, clock, result):
    """Of frozen: bits, strides, time on the host, and what it is."""
    from unisono.pytorch.backend import reports
    again = call()
    clock.wait()
    start = time.perf_counter()
    for _ in range(30):
        call()
    host = (time.perf_counter() - start) / 30
    clock.wait()
    note = reports()[-1].note if reports() else "no graph"
    return {"kernels": reports()[-1].kernels if reports() else None, "note": note.splitlines()[0][:300] if note.startswith("not ") else "",
            "graphs": len(reports()), "same_bits": bool(torch.equal(again, result)), "same_strides": result.stride() == expected.stride(),
            "host_us": round(1e6 * host, 1)}


def measured(name, options, clock):
    model, side = made(name)
    model = drawn(model).eval().requires_grad_(False).cuda()
    x = torch.randn(options.batch, 3, side, side, generator=torch.Generator().manual_seed(1)).cuda()
    model, x = (t.to(torch.bfloat16).to(memory_format=torch.channels_last) for t in (model, x))
    runs, errors, seconds, more = {}, {}, {}, {}
    with torch.no_grad():
        exact, expected = exact_result(model, [x], "cuda"), model(x)
        for peer in options.peers:
            torch._dynamo.reset()
            try:
                start, call = time.perf_counter(), functools.partial(compiled(peer, model), x)
                result = call()
                clock.wait()
                seconds[peer], errors[peer] = round(time.perf_counter() - start, 2), distance(result, exact)
                if peer == "frozen":
                    more = looked_at(call, expected, clock, result)
                runs[peer] = clock.prepared(call)
            except Exception as failure:  # a peer that cannot run it is a finding, too
                errors[peer] = f"{type(failure).__name__}: {str(failure)[:400]}"
        with alone(options.lock):
            us, spread = clock.compare(runs)
    others = [us[p] for p in ("eager", "compile") if p in us]
    ratio = round(min(others) / us["frozen"], 3) if others and "frozen" in us else None
    say(options.json, suite="torch_frozen", network=name, what="forward", batch=options.batch, us=us, spread=spread, ratio=ratio,
        error=errors, compile_s=seconds, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--peers", default="eager,compile,regions,frozen", type=lambda s: s.split(","))
    parser.add_argument("--batch", default=8, type=int)
    parser.add_argument("--rounds", default=7, type=int)
    parser.add_argument("--lock")
    parser.add_argument("--json")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here")
    clock = Clock("cuda", options.rounds)
    say(options.json, suite="torch_frozen", what="machine", torch=torch.__version__, python=sys.version.split()[0],
        gpu=torch.cuda.get_device_name(), cudnn=torch.backends.cudnn.version())
    for name in options.names:
        try:
            measured(name, options, clock)
        except Exception as failure:
            print(f"{name}: {type(failure).__name__}: {str(failure)[:600]}", file=sys.stderr, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
