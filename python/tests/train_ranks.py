"""Run by test_distributed.py under torchrun (ddp, fsdp, or sizes: ddp as networks for each size; and the number of seeds): two ranks train a small U-Net, by PyTorch's eager mode and by the backend.

Prints one JSON line of rank 0: {"eager": [mean of the last losses for each seed], "unisono": …, "same": …, "regions": …}."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import unisono
from models import UNet, randomise
from unisono.pytorch import backend

STEPS, LAST = 24, 6


def batch(seed, rank, step, how):
    generator = torch.Generator().manual_seed(1000 * seed + 2 * step + rank)
    x = torch.randn(2 + step % 2 if how == "sizes" else 2, 3, 8, 8, generator=generator)
    return x, x[:, :2].roll(1, 2)


def wrapped(model, how):
    if how != "fsdp":
        return DistributedDataParallel(model, bucket_cap_mb=0.005)  # several buckets, so several graphs
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model.down, model.deep, model.up):
        fully_shard(part, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(seed, rank, how, compile):
    torch._dynamo.reset()
    model = randomise(UNet())
    if how == "fsdp" and compile:
        for part in (model.down, model.deep, model.up):
            part.compile(backend=backend.unisono, options={"rest": "eager"})
    parallel = wrapped(model, how)
    call, options = parallel, {"rest": "eager", **({"networks": "any"} if how == "sizes" else {})}
    if compile and how != "fsdp":
        call = torch.compile(parallel, backend=backend.unisono, options=options, dynamic=True if how == "sizes" else None)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        x, y = batch(seed, rank, step, how)
        loss = (call(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return sum(losses[-LAST:]) / LAST, losses[0], [p.detach() for p in parallel.parameters()]


def agree(parameters):
    """Whether all ranks have the same parameters."""
    mine = torch.cat([p.flatten() for p in parameters])
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(others, mine)
    return all(torch.equal(o, mine) for o in others)


def main(how, seeds):
    torch.set_num_threads(1)
    dist._DEFAULT_FIRST_BUCKET_BYTES = 2_000  # so that several buckets are there, and a graph for each
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    calls = unisono.cache_info
    eager = [train(seed, rank, how, False)[0] for seed in range(seeds)]
    backend._reports.clear()
    ours, first, parameters = train(0, rank, how, True)
    info = calls()
    same = agree(parameters) if how != "fsdp" else True
    if rank == 0:
        print(json.dumps({"eager": eager, "unisono": ours, "first": first, "same": same, "calls": info["hits"] + info["misses"],
                          "networks": [r.kind for r in backend.reports() if not r.note.startswith("not ") and r.kernels is not None],
                          "notes": [r.note.splitlines()[0] for r in backend.reports() if r.note.startswith("not ")],
                          "regions": sum(r.regions for r in backend.reports() if r.kind == "forward")}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
    os._exit(0)  # threads of compilers need not be waited for
