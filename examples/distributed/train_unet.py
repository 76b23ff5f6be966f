"""Trains a small U-Net on all ranks by DistributedDataParallel, with its convolutions and what follows them as one kernel each.

    torchrun --standalone --nproc-per-node=2 train_unet.py            # one machine; gloo where there is no GPU
    sbatch slurm.sbatch                                               # several
"""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(8, outputs)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class UNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first, self.down = Block(8, width), Block(width, 2 * width)
        self.up, self.head = Block(3 * width, width), nn.Conv2d(width, 2, 1)

    def forward(self, x):
        fine = self.first(x)
        coarse = self.down(F.max_pool2d(fine, 2))
        return self.head(self.up(torch.cat([fine, F.interpolate(coarse, scale_factor=2.0, mode="nearest")], 1)))


def train(steps=100, batch=8, size=64):
    """The loss of each step, the mean of all ranks."""
    rank, device = dist.get_rank(), torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = DistributedDataParallel(UNet().to(device).to(memory_format=torch.channels_last))
    # NCCL's kernels run beside ours: spare_sms leaves them as many SMs as NCCL_MAX_CTAS allows it to take
    call = torch.compile(model, backend="unisono", options={"spare_sms": int(os.environ.get("NCCL_MAX_CTAS", 0))})
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for step in range(steps):
        generator = torch.Generator(device).manual_seed(step * dist.get_world_size() + rank)
        x = torch.randn(batch, 8, size, size, device=device, generator=generator).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = (call(x).float() - x[:, :2].roll(1, 2)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1}: {losses[-1]:.4f}", flush=True)
    return losses


if __name__ == "__main__":
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    train(int(os.environ.get("STEPS", 100)))
    dist.destroy_process_group()
