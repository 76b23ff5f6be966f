"""unisono.pytorch.video_decoder: what stands for `vae.decode` of diffusers' video autoencoders.

The loop over chunks, tiles and slices is the vae's own, with its attributes as they are when it is called; in place of
its decoder stands one whose chunks are networks.
"""

from __future__ import annotations

import inspect
import pathlib
import threading
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from .._native import UserError
from .chunks import Chunk, ChunkNetwork, DictionaryChunk, FeatureChunk, FrameChunk, Traced, shapes_of_caches
from .frozen import Sources
from .program import SERVED

CLASSES: dict[str, type[Chunk]] = {
    "AutoencoderKLWan": FeatureChunk, "AutoencoderKLQwenImage": FeatureChunk,
    "AutoencoderKLCogVideoX": DictionaryChunk, "AutoencoderKLTemporalDecoder": FrameChunk}


def _chunks_of(vae: Any) -> type[Chunk]:
    for base in type(vae).__mro__:
        if base.__name__ in CLASSES and base.__module__.startswith("diffusers."):
            return CLASSES[base.__name__]
    raise UserError(f"video_decoder: the vae is a {type(vae).__name__}; expected one of diffusers' "
                    f"{', '.join(CLASSES)}. torch.compile(…, backend='unisono') takes any module")


class Following(NamedTuple):
    """What one chunk leaves to the next. Diffusers passes it on as it is."""
    networks: tuple[ChunkNetwork, ...]
    caches: list[Tensor]


class Networks:
    """The networks of a vae, by the shape of their latents, while its weights are what they were."""

    def __init__(self, vae: torch.nn.Module, spare_sms: int):
        self.vae, self.kind, self.spare_sms = vae, _chunks_of(vae), spare_sms
        self.made: dict[tuple, tuple[ChunkNetwork, ...]] = {}
        self.sources: Optional[Sources] = None
        self.lock = threading.Lock()

    def weights(self) -> list[Tensor]:
        parts = [self.vae.decoder, getattr(self.vae, "post_quant_conv", None)]
        return [t for m in parts if m is not None for t in (*m.parameters(), *m.buffers())]

    def refuse(self, z: Tensor) -> None:
        """Raises UserError for what would be computed otherwise than the vae does, or not at all."""
        weights = self.weights()
        if self.vae.training:
            raise UserError("video_decoder: the vae is in training mode; call vae.eval() first")
        if torch.is_grad_enabled() and any(t.requires_grad for t in (z, *weights)):
            raise UserError("video_decoder: gradients would be recorded; call it under torch.no_grad(), or after "
                            "vae.requires_grad_(False) with latents that require none")
        kinds = {(t.device, t.dtype) for t in weights}
        if kinds != {(z.device, z.dtype)}:
            found = ", ".join(sorted(f"{dtype} on {device}" for device, dtype in kinds))
            raise UserError(f"video_decoder: the latents are {z.dtype} on {z.device}, the decoder's weights are "
                            f"{found}; expected one type on one device")
        served = SERVED.get(z.device.type, set())
        if z.dtype not in served:
            raise UserError(f"video_decoder: the vae is {z.dtype} on {z.device}; expected "
                            f"{' or '.join(sorted(map(str, served))) or 'a CPU or a CUDA device'}"
                            + (", as after vae.to(…)" if served else ""))

    def networks(self, z: Tensor, more: dict[str, Any], frames: int) -> tuple[ChunkNetwork, ...]:
        """The first chunk's and, unless frames is 0, that of chunks of this many latent frames after it."""
        with self.lock:
            weights = self.weights()
            if self.sources is None or not self.sources.are_still(weights):
                self.made, self.sources = {}, Sources(weights)
            key = (tuple(z.shape), z.dtype, z.device, frames, tuple(sorted(more.items())))
            if key not in self.made:
                traced = traced_chunks(self.vae, self.kind, z, more, frames)
                self.made[key] = tuple(ChunkNetwork(t, z, self.spare_sms) for t in traced)
            return self.made[key]


def traced_chunks(vae: torch.nn.Module, kind: type[Chunk], z: Tensor, more: dict[str, Any],
                  frames: int) -> list[Traced]:
    """The first chunk, of latents like z, and, unless frames is 0, the following one. more: of the first chunk."""
    z = z.detach()
    first = kind(vae, more, True)
    if isinstance(first, FeatureChunk):
        first.count = len(list(vae.decoder.modules()))  # more than there are features
    if frames == 0:
        return [Traced(first, z)]
    following = kind(vae, {n: v for n, v in more.items() if n != "first_chunk"}, False)
    following.count = first.count
    following.shapes = shapes_of_caches(first, following, z, frames)
    later = Traced(following, z.new_zeros((*z.shape[:2], frames, *z.shape[3:])))
    first.shapes = later.shapes
    return [Traced(first, z), later]


class Decoder(torch.nn.Module):
    """Called as the vae calls its own decoder. frames: of the latents that are decoded."""

    def __init__(self, networks: Networks, frames: int):
        super().__init__()
        self.own, self.networks, self.frames = networks.vae.decoder, networks, frames

    def forward(self, z: Tensor, **more: Any) -> Any:
        with torch.no_grad():
            if "num_frames" in more:
                return self._run(z, {"num_frames": more["num_frames"]}, None, 0)[0]
            following = self.networks.kind.frames(self.networks.vae, self.frames)[1]
            if "conv_cache" in more:
                return self._run(z, {}, more["conv_cache"], following)
            features, kept = more.pop("feat_cache"), None
            more.pop("feat_idx")
            if features and isinstance(features[0], Following):
                kept = features[0]
            made, features[0] = self._run(z, {n: v for n, v in more.items() if v}, kept, following)
            return made

    def _run(self, z: Tensor, more: dict[str, Any], kept: Optional[Following], frames: int) -> tuple[Tensor, Following]:
        first = kept is None
        networks = self.networks.networks(z, more, frames) if kept is None else kept.networks
        made, caches = networks[0 if first else 1](z, [] if kept is None else kept.caches)
        return made, Following(networks, caches)


class VideoDecoder:
    """`video_decoder`."""

    def __init__(self, vae: Any, spare_sms: int = 0):
        self.networks = Networks(vae, spare_sms)
        if getattr(vae, "decoder", None) is None:
            raise UserError(f"video_decoder: the {type(vae).__name__} has no decoder")

    def __call__(self, z: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Takes and returns what `vae.decode` does."""
        self.networks.refuse(z)
        vae = self.networks.vae
        return type(vae).decode(_with_decoder(vae, Decoder(self.networks, z.shape[2])), z, *args, **kwargs)

    def report(self) -> str:
        """The networks' kernels, and why operators are not fused."""
        return "\n".join(n.executable.report() for networks in self.networks.made.values() for n in networks)

    def export(self, folder: Any, z: Tensor, num_frames: Optional[int] = None) -> list[pathlib.Path]:
        """Writes first.onnx and, if these latents take more than one chunk, following.onnx, each with its weights in a
        safetensors file next to it. z, num_frames: as those of a call, or of one tile where the vae decodes tiles.
        Returns the paths."""
        networks, folder = self.networks, pathlib.Path(folder)
        networks.refuse(z)
        if (num_frames is None) == (networks.kind is FrameChunk):
            raise UserError(f"export: num_frames is for AutoencoderKLTemporalDecoder, and for it alone; the vae is a "
                            f"{type(networks.vae).__name__}, num_frames is {num_frames}")
        start, frames = networks.kind.frames(networks.vae, z.shape[2])
        more = {"first_chunk": True} if takes(networks.vae.decoder, "first_chunk") else {}
        if num_frames is None:
            z = z[:, :, :start]
        else:
            more = {"num_frames": num_frames}
        folder.mkdir(parents=True, exist_ok=True)
        traced = traced_chunks(networks.vae, networks.kind, z, more, frames)
        paths = [folder / name for name in ("first.onnx", "following.onnx")][:len(traced)]
        for chunk, path in zip(traced, paths):
            chunk.write(path)
        return paths


def takes(decoder: torch.nn.Module, name: str) -> bool:
    return name in inspect.signature(decoder.forward).parameters


def _with_decoder(vae: torch.nn.Module, decoder: Decoder) -> torch.nn.Module:
    """The vae with another decoder, which convolves latents itself. What it keeps while it decodes is its own."""
    made = object.__new__(type(vae))
    made.__dict__.update({n: v for n, v in vae.__dict__.items() if n != "decode"})
    modules = {**vae._modules, "decoder": decoder}
    if modules.get("post_quant_conv") is not None:
        modules["post_quant_conv"] = torch.nn.Identity()
    made.__dict__["_modules"] = modules
    return made
