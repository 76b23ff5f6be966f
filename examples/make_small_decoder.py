#!/usr/bin/env python3
"""Writes examples/small_decoder: the two chunks of a small video decoder of Wan's kind with random weights, for decode_video.cpp.

usage: examples/make_small_decoder.py    (with torch, diffusers and the package unisono)
"""
import pathlib

import diffusers
import torch

from unisono.pytorch import video_decoder

torch.manual_seed(0)
vae = diffusers.AutoencoderKLWan(base_dim=4, z_dim=4, dim_mult=[1, 2], num_res_blocks=0, temperal_downsample=[True],
                                 latents_mean=[0.0] * 4, latents_std=[1.0] * 4, scale_factor_spatial=2)
vae.eval().requires_grad_(False)
folder = pathlib.Path(__file__).parent / "small_decoder"
for path in video_decoder(vae).export(folder, torch.zeros(1, 4, 2, 6, 5)):
    print(path)
