#!/usr/bin/env python3
"""Several ranks, by torchrun: the baseline U-Net under DDP and FSDP2, and kernels beside all-reduces on another stream.

usage: torchrun --standalone --nproc-per-node=2 bench/torch_ranks.py [train-ddp] [train-fsdp] [overlap]
           [--steps 200] [--seeds 5] [--size 128] [--batch 8] [--overlap-steps 10000] [--spare-sms 16] [--inductor]
           [--limit SECONDS] [--json FILE] [--smoke]

train-*: PyTorch's eager mode with bf16 autocast for each of the seeds, and torch.compile(backend="unisono") with the seed of
the one in the middle. The bar: the mean of our last losses (a quarter of the steps) lies within the range of PyTorch's. Step times stand beside it.
--inductor adds Inductor's, for the time alone. `regions` counts those of distinct graphs: under FSDP2 each block is a graph, and
blocks of one shape share it.

overlap: convolutions with a group norm, whose CTAs wait for one another, while NCCL reduces 32 MB on its own stream, with the SM
limit. The bars: all steps end, every result has the same bits as the first, and the communication that shows beside our kernels is
no more than beside PyTorch's.

A run that hangs ends after --limit seconds with the stacks of all threads and exit code 1. --smoke: small sizes, gloo, on the CPU.
"""
import argparse
import faulthandler
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
from torch_models import HeatmapUNet  # noqa: E402

MAPS, CHANNELS = 17, 8


class Run:
    """What one process was asked for, and where it is."""

    def __init__(self, options):
        self.options, self.smoke = options, options.smoke
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = "cpu" if self.smoke else f"cuda:{os.environ.get('LOCAL_RANK', 0)}"

    def say(self, **row):
        if self.rank:
            return
        text = json.dumps({"suite": "torch", "ranks": self.world, **row})
        print(text, flush=True)
        if self.options.json:
            with open(self.options.json, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    def wait(self):
        if not self.smoke:
            torch.cuda.synchronize()

    def model(self, seed, how):
        """FSDP2 takes no filters that are channels last; kernels then have them reordered in the graph."""
        torch.manual_seed(seed)
        made = HeatmapUNet(CHANNELS, (32,) * 5 if self.smoke else (64, 128, 256, 512, 1024), MAPS).to(self.device)
        return made if how == "fsdp" else made.to(memory_format=torch.channels_last)

    def batch(self, seed, step):
        """Images of noise, and maps that follow from them."""
        o, generator = self.options, torch.Generator(self.device).manual_seed(100_003 * seed + step * self.world + self.rank)
        x = torch.randn(o.batch, CHANNELS, o.size, o.size, device=self.device, generator=generator).contiguous(memory_format=torch.channels_last)
        y = torch.cat([F.avg_pool2d(x.roll(i, 2), 5, 1, 2) for i in range(0, 3 * (MAPS // CHANNELS + 1), 3)], 1)[:, :MAPS]
        return x, torch.sigmoid(8 * y)


def compiled(peer, what):
    if peer == "eager":
        return what
    if peer == "inductor":
        return torch.compile(what)
    from unisono.pytorch import backend
    return torch.compile(what, backend=backend.unisono)


def wrapped(run, model, how, peer):
    """The model of all ranks, and what is called. FSDP2 shards each stage, and each is compiled."""
    if how == "ddp":
        parallel = DistributedDataParallel(model, device_ids=None if run.smoke else [int(run.device[5:])])
        return parallel, compiled(peer, parallel)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch._dynamo.config.recompile_limit = 64  # all stages are of one class, and each has shapes of its own
    mesh = init_device_mesh("cpu" if run.smoke else "cuda", (run.world,))
    for stage in (*model.down, *model.up):
        if peer != "eager":
            from unisono.pytorch import backend
            ours = {"backend": backend.unisono, "options": {"spare_sms": 0 if run.smoke else run.options.spare_sms}}  # for gathered weights
            stage.compile(dynamic=False, **(ours if peer == "unisono" else {}))
        fully_shard(stage, mesh=mesh)
    parallel = fully_shard(model, mesh=mesh)
    return parallel, parallel


def train(run, how, peer, seed, steps):
    """(mean of the last quarter of losses, milliseconds of a step in the last half, seconds to the first result)."""
    torch._dynamo.reset()
    parallel, call = wrapped(run, run.model(seed, how), how, peer)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-3, fused=not run.smoke)
    losses, first, start = [], 0.0, time.perf_counter()
    for step in range(steps):
        x, y = run.batch(seed, step)
        if step == steps // 2:
            run.wait()
            half = time.perf_counter()
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            loss = F.binary_cross_entropy_with_logits(call(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if step == 0:
            run.wait()
            first = time.perf_counter() - start
    run.wait()
    milliseconds = 1000 * (time.perf_counter() - half) / (steps - steps // 2)
    mean = torch.stack(losses[-max(1, steps // 4):]).mean()
    dist.all_reduce(mean)
    return mean.item() / run.world, milliseconds, first


def training(run, how):
    o, found, milliseconds, seconds = run.options, {"eager": []}, {}, {}
    for seed in range(o.seeds):
        mean, milliseconds["eager"], _ = train(run, how, "eager", seed, o.steps)
        found["eager"].append(mean)
    middle = sorted(range(o.seeds), key=found["eager"].__getitem__)[o.seeds // 2]
    for peer in ["inductor"] * o.inductor + ["unisono"]:
        found[peer], milliseconds[peer], seconds[peer] = train(run, how, peer, middle, o.steps)
    from unisono.pytorch import backend
    low, high, ours = min(found["eager"]), max(found["eager"]), found["unisono"]
    reports = backend.reports()
    run.say(what=f"training, {how}", size=o.size, batch=o.batch, steps=o.steps, seed=middle, mean_of_last_losses=found, within=low <= ours <= high,
            step_ms={k: round(v, 2) for k, v in milliseconds.items()}, compile_s={k: round(v, 1) for k, v in seconds.items()},
            regions={kind: sum(r.regions for r in reports if r.kind == kind) for kind in ("forward", "backward")},
            left=sorted({f"{row['operator']} {row['shape']}: {row['ends'].splitlines()[0][:150]}" for r in reports for row in r.left})[:20],
            filters_packed=sum(r.counts.get("filters packed at each call", 0) for r in reports))
    backend._reports.clear()
    return low <= ours <= high


def kernels_of(run, spare):
    """{peer: four blocks of a convolution, a group norm and SiLU}."""
    from unisono.pytorch import library, texts  # noqa: F401  (library: the operators)
    n, c, size = (1, 32, 8) if run.smoke else (2, 320, 64)
    dtype = torch.float32 if run.smoke else torch.bfloat16
    generator = torch.Generator(run.device).manual_seed(0)
    draw = lambda *s: torch.randn(s, device=run.device, dtype=dtype, generator=generator)  # noqa: E731
    x, w, g, b = draw(n, c, size, size), 0.02 * draw(c, c, 3, 3), draw(c), draw(c)
    x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
    text, names = "silu(group_norm(acc, groups=32, scale=g[n], shift=b[n]))", texts.joined(("g", "b"), {"spare_sms": spare} if spare else {})
    one = [1, 1]
    theirs = torch.compile(lambda: F.silu(F.group_norm(F.conv2d(x, w, padding=1), 32, g, b)))

    def ours():
        return torch.ops.unisono.fused_conv2d(x, w, [g, b], [], text, names, one, one, one, 1, dtype)[0]

    return {"unisono": ours, "inductor": theirs}


def timed_steps(run, steps, kernel, data, first=None):
    """Microseconds a step: an all-reduce begins (if there is data), four kernels run beside it, and both are waited for by the stream."""
    run.wait()
    dist.barrier()
    start = time.perf_counter()
    for step in range(steps):
        work = dist.all_reduce(data, op=dist.ReduceOp.MAX, async_op=True) if data is not None else None
        for _ in range(4 if kernel else 0):
            result = kernel()
        if work is not None:
            work.wait()
        if step % 1000 == 999:
            run.wait()  # a hang is told to a thousand steps
            if first is not None and not torch.equal(result, first):
                raise SystemExit(f"rank {run.rank}: other bits at step {step}")
    run.wait()
    return 1e6 * (time.perf_counter() - start) / steps


def overlap(run):
    o = run.options
    steps, spare = o.overlap_steps, 0 if run.smoke else o.spare_sms
    data = torch.full((4096 if run.smoke else 16 * 2**20,), float(run.rank), device=run.device, dtype=torch.float32 if run.smoke else torch.bfloat16)
    with torch.no_grad():
        peers = kernels_of(run, spare)
        first = {name: kernel().clone() for name, kernel in peers.items()}
        few = max(10, steps // 10)
        row = {"all-reduce alone": timed_steps(run, few, None, data)}
        for name, kernel in peers.items():
            row[name] = {"alone": timed_steps(run, few, kernel, None),
                         "beside": timed_steps(run, steps if name == "unisono" else few, kernel, data, first[name] if name == "unisono" else None)}
            row[name]["exposed"] = row[name]["beside"] - row[name]["alone"]
    rounded = {k: round(v, 1) if isinstance(v, float) else {n: round(t, 1) for n, t in v.items()} for k, v in row.items()}
    right = bool((data == run.world - 1).all())
    run.say(what="overlap", steps=steps, spare_sms=spare, us=rounded, reduced=right,
            no_worse=row["unisono"]["exposed"] <= max(1.0, row["inductor"]["exposed"]))
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["train-ddp", "train-fsdp", "overlap", []])
    parser.add_argument("--steps", default=200, type=int)
    parser.add_argument("--seeds", default=5, type=int)
    parser.add_argument("--size", default=128, type=int, help="rows and columns of an image")
    parser.add_argument("--batch", default=8, type=int, help="images of a rank")
    parser.add_argument("--overlap-steps", default=10_000, type=int)
    parser.add_argument("--spare-sms", default=16, type=int)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--limit", default=240, type=int)
    parser.add_argument("--json")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.limit, exit=True)
    os.environ.setdefault("NCCL_MAX_CTAS", str(options.spare_sms))
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    if not options.smoke:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("gloo" if options.smoke else "nccl")
    run, passed, start = Run(options), [], time.perf_counter()
    if options.smoke:
        torch.set_num_threads(1)
    run.say(what="machine", torch=torch.__version__, device="cpu" if options.smoke else torch.cuda.get_device_name())
    for what in options.what or ["train-ddp", "train-fsdp", "overlap"]:
        passed.append(overlap(run) if what == "overlap" else training(run, what[6:]))
    run.say(what="end", passed=passed, seconds=round(time.perf_counter() - start, 1))
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0 if all(passed) or options.smoke else 1)  # threads of compilers need not be waited for


if __name__ == "__main__":
    main()
