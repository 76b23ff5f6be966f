#!/usr/bin/env python3
"""Writes unet_block.safetensors: weights of a small U-Net block, an image, and what NumPy makes of it in float64.

usage: make_unet_block.py [FILE]      (needs the Python packages numpy and safetensors)
"""
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

random = np.random.default_rng(7)
weights = {}


def conv(name, x, filters, kernel=3):
    """(N,C,H,W) -> (N,filters,H,W), zeros around the image."""
    channels = x.shape[1]
    w = (random.standard_normal((filters, channels, kernel, kernel)) / np.sqrt(channels * kernel * kernel)).astype(np.float16)
    b = (0.1 * random.standard_normal(filters)).astype(np.float32)
    weights[name + ".weight"], weights[name + ".bias"] = w, b
    pad = kernel // 2
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))  # (N,C,H,W,R,S)
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(np.float64)) + b[:, None, None]


def norm(name, x, groups=4):
    """GroupNorm, scale and shift, SiLU."""
    n, c, h, w = x.shape
    scale = (1 + 0.1 * random.standard_normal(c)).astype(np.float32)
    shift = (0.1 * random.standard_normal(c)).astype(np.float32)
    weights[name + ".weight"], weights[name + ".bias"] = scale, shift
    y = x.reshape(n, groups, -1)
    y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)
    y = y.reshape(n, c, h, w) * scale[:, None, None] + shift[:, None, None]
    return y / (1 + np.exp(-y))


image = random.random((1, 3, 8, 8), dtype=np.float32)
skip = norm("down.norm", conv("down.conv", image, 8))
low = skip.reshape(1, 8, 4, 2, 4, 2).max((3, 5))
low = norm("middle.norm", conv("middle.conv", low, 16))
joined = np.concatenate([low.repeat(2, 2).repeat(2, 3), skip], 1)
up = norm("up.norm", conv("up.conv", joined, 8))
weights["example.image"] = image
weights["example.result"] = conv("head", up, 2, 1).astype(np.float32)
weights["training.step"] = np.array([1000], np.int64)

path = sys.argv[1] if len(sys.argv) > 1 else str(pathlib.Path(__file__).parent / "unet_block.safetensors")
save_file(weights, path, metadata={"format": "np", "made_by": "examples/make_unet_block.py"})
