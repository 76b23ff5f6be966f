#!/usr/bin/env python3
"""Draws what runs of a level of a U-Net, and for how long, before and after torch.compile(backend="unisono").

usage: torch_fusion.py [--out FILE.svg] [--batch N] [--size PIXELS] [--channels N]

Three columns: eager mode, Inductor, and this backend. Each box is a kernel (on a GPU) or an operator (on a CPU) as PyTorch's
profiler sees it, as high as its share of the longest column. Times are medians of 20 calls.
"""
import argparse
import statistics
import time
from xml.sax.saxutils import escape

import torch
import torch.nn as nn
import torch.nn.functional as F

from unisono.pytorch import backend

COLOURS = {"unisono": "#2a78b5", "conv": "#d98b2b", "gemm": "#d98b2b", "": "#bbbbbb"}


class Level(nn.Module):
    """Conv → GroupNorm → SiLU twice, a max-pool, a level below, and the skip connection."""

    def __init__(self, c):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c)
        self.below, self.n2 = nn.Conv2d(c, 2 * c, 3, padding=1), nn.GroupNorm(8, 2 * c)
        self.narrow, self.c2, self.n3 = nn.Conv2d(2 * c, c, 1), nn.Conv2d(2 * c, c, 3, padding=1), nn.GroupNorm(8, c)

    def forward(self, x):
        skip = F.silu(self.n1(self.c1(x)))
        h = F.silu(self.n2(self.below(F.max_pool2d(skip, 2))))
        h = self.narrow(F.interpolate(h, scale_factor=2))
        return F.silu(self.n3(self.c2(torch.cat([skip, h], 1))))


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def profiled(call, device):
    """[(name, microseconds)] of what one call runs, in order."""
    activities = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else [])
    with torch.profiler.profile(activities=activities) as profile:
        call()
        wait(device)
    if device == "cuda":
        found = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA and "Memset" not in e.name]
        return [(e.name, e.device_time) for e in sorted(found, key=lambda e: e.time_range.start)]
    found = sorted(profile.events(), key=lambda e: e.time_range.start)
    return [(e.name, e.self_cpu_time_total) for e in found if e.self_cpu_time_total > 20]  # smaller ones are dispatch


def median(call, device):
    times = []
    for _ in range(20):
        wait(device)
        start = time.perf_counter()
        call()
        wait(device)
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def colour(name):
    return COLOURS[next((k for k in ("unisono", "conv", "gemm") if k in name.lower()), "")]


def svg(columns):
    """columns: [(title, median µs, [(name, µs)])]."""
    width, height, top = 300, 520, 46
    longest = max(sum(us for _, us in parts) for _, _, parts in columns) or 1
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(columns) + 20}" height="{height + top + 10}" font-family="sans-serif" font-size="10">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (title, us, parts) in enumerate(columns):
        x, y = 10 + width * i, top
        out.append(f'<text x="{x}" y="18" font-size="13" font-weight="bold">{escape(title)}</text>')
        out.append(f'<text x="{x}" y="34" fill="#555">{len(parts)} kernels, {us:.0f} µs a call</text>')
        for name, took in parts:
            part = height * took / longest
            out.append(f'<rect x="{x}" y="{y:.1f}" width="{width - 20}" height="{max(part - 1, 0.5):.1f}" fill="{colour(name)}"><title>{escape(name)}: {took:.1f} µs</title></rect>')
            if part > 11:
                out.append(f'<text x="{x + 4}" y="{y + part / 2 + 3:.1f}" fill="white">{escape(name[:46])}</text>')
            y += part
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="torch_fusion.svg")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=64)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    model = Level(options.channels).eval().to(device, dtype, memory_format=torch.channels_last)
    x = torch.randn(options.batch, options.channels, options.size, options.size, device=device, dtype=dtype).contiguous(memory_format=torch.channels_last)
    columns = []
    with torch.no_grad():
        right = model(x)
        for title, fast in (("eager", model), ("Inductor", torch.compile(model)), ("Unisono", torch.compile(model, backend=backend.unisono))):
            result = fast(x)
            error = ((result - right).float().norm() / right.float().norm()).item()
            columns.append((title, median(lambda: fast(x), device), profiled(lambda: fast(x), device)))
            print(f"{title}: {columns[-1][1]:.0f} µs, {len(columns[-1][2])} kernels, differs from eager mode by {error:.1e}")
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(svg(columns))
    print(backend.reports()[-1])
    print(f"drawn: {options.out}")


if __name__ == "__main__":
    main()
