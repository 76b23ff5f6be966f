"""A chunk of a video decoder as a network: the caches are tensors, inputs and outputs as its frames are.

The modules that are traced call the decoder of diffusers. Its caches are what causal convolutions keep of a chunk's
frames for the next chunk.
"""

from __future__ import annotations

import pathlib
import tempfile
from types import SimpleNamespace
from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from .._native import Device, Layout, NetworkExecutable, UserError, compile_network, load_onnx
from ..tensors import torch_dtypes, view
from .export import OPSET, decomposed, tensors_of, write_safetensors
from .onnx_file import Writer
from .onnx_gradients import HANDLERS

Caches = list[Optional[Tensor]]
Shapes = dict[int, tuple[int, ...]]  # of the caches that a following chunk reads, by their places among all


class Chunk(torch.nn.Module):
    """more: what the vae passes to its decoder besides frames and caches. Called with latents (N,C,T,H,W) and the
    caches of `shapes`, it gives frames and new caches. A first chunk has no caches given, one alone makes none."""

    def __init__(self, vae: torch.nn.Module, more: dict[str, Any], is_first: bool):
        super().__init__()
        self.decoder, self.before = vae.decoder, getattr(vae, "post_quant_conv", None)
        self.more, self.is_first, self.shapes, self.count = more, is_first, Shapes(), 0
        self.eval()

    @staticmethod
    def frames(vae: Any, count: int) -> tuple[int, int]:
        """How `count` latent frames are cut: those of the first chunk, and of each later one (0: there is only one)."""
        raise NotImplementedError

    def latents(self, z: Tensor) -> Tensor:
        return z if self.before is None else self.before(z)

    def step(self, z: Tensor, caches: Optional[Caches]) -> tuple[Tensor, Caches]:
        raise NotImplementedError

    def forward(self, z: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        given: Optional[Caches] = None
        if not self.is_first:
            given = [None] * self.count
            for (place, shape), tensor in zip(self.shapes.items(), cache):
                given[place] = tensor.reshape(shape)
        made, new = self.step(z, given)
        return (made, *(_filled(new[place], shape, z).reshape(image_of(shape)) for place, shape in self.shapes.items()))


def image_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A cache (N,C,T,H,W) as networks take it: an image (N,C,T·H,W), which is channels last where kernels read it."""
    return (*shape[:2], shape[2] * shape[3], shape[4])


def _filled(cache: Optional[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """With zeros for the frames that it lacks, as the decoder pads them."""
    if cache is None:
        return like.new_zeros(shape)
    missing = shape[2] - cache.shape[2]
    return torch.cat([cache.new_zeros((*shape[:2], missing, *shape[3:])), cache], 2) if missing else cache


class FeatureChunk(Chunk):
    """Of Wan and Qwen-Image: a list of features, one for each causal convolution. Those that double the frames begin
    with the second chunk, which reads zeros."""

    @staticmethod
    def frames(vae: Any, count: int) -> tuple[int, int]:
        return 1, int(count > 1)

    def step(self, z: Tensor, caches: Optional[Caches]) -> tuple[Tensor, Caches]:
        features: list[Any] = [None] * self.count if caches is None else caches
        made = self.decoder(self.latents(z), feat_cache=features, feat_idx=[0], **self.more)
        return made, [f if isinstance(f, Tensor) else None for f in features]


class DictionaryChunk(Chunk):
    """Of CogVideoX: dictionaries of dictionaries."""

    spec: Any = None

    @staticmethod
    def frames(vae: Any, count: int) -> tuple[int, int]:
        size = vae.num_latent_frames_batch_size
        return (count, 0) if count < 2 * size else (size + count % size, size)

    def step(self, z: Tensor, caches: Optional[Caches]) -> tuple[Tensor, Caches]:
        given = None if caches is None else pytree.tree_unflatten(caches, self.spec)
        made, new = self.decoder(self.latents(z), conv_cache=given, **self.more)
        leaves, self.spec = pytree.tree_flatten(new)
        return made, leaves


class FrameChunk(Chunk):
    """Of Stable Video Diffusion: frames (N·T,C,H,W), without caches."""

    @staticmethod
    def frames(vae: Any, count: int) -> tuple[int, int]:
        return count, 0

    def step(self, z: Tensor, caches: Optional[Caches]) -> tuple[Tensor, Caches]:
        frames = self.more["num_frames"]
        images = z.new_zeros(z.shape[0] // frames, frames)
        return self.decoder(self.latents(z), num_frames=frames, image_only_indicator=images), []


def shapes_of_caches(first: Chunk, following: Chunk, z: Tensor, frames: int) -> Shapes:
    """Extents of all caches after a chunk of this many frames that is not the first."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        start = mode.from_tensor(z, static_shapes=True)
        more = start.new_zeros((*z.shape[:2], frames, *z.shape[3:]))
        if isinstance(first, FeatureChunk):  # the decoder marks features that begin later by other values than tensors
            features: list[Any] = [None] * first.count
            for chunk, latents in ((first, start), (following, more)):
                chunk.decoder(chunk.latents(latents), feat_cache=features, feat_idx=[0], **chunk.more)
            caches = [f if isinstance(f, Tensor) else None for f in features]
        else:
            caches = first.step(start, None)[1]
            following.spec = first.spec
            caches = following.step(more, caches)[1]
    first.count = following.count = len(caches)
    return {i: tuple(c.shape) for i, c in enumerate(caches) if c is not None}


class Traced:
    """A chunk as a program of ATen operators. shapes: of the caches that a following chunk reads, the only ones that
    it makes."""

    def __init__(self, chunk: Chunk, z: Tensor):
        # of one element each, as they would take as much memory as those of a call
        caches = [] if chunk.is_first else [z.new_zeros(()).expand(image_of(s)) for s in chunk.shapes.values()]
        with torch.no_grad():
            exported = decomposed(torch.export.export(chunk, (z, *caches), strict=False))
        self.graph, self.tensors, self.shapes = exported.graph, tensors_of(exported), dict(chunk.shapes)
        signature = exported.graph_signature
        if written := {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}:
            raise UserError(f"video_decoder: the decoder writes {', '.join(map(str, written.values()))} when it is "
                            "called; expected one without such state, as in eval mode")
        places = {n.name: n for n in self.graph.nodes}
        self.inputs = [places[n] for n in signature.user_inputs]
        output = self.graph.output_node()
        self.outputs = list(output.args[0])
        if not chunk.is_first:
            read = [bool(n.users) for n in self.inputs]
            self.shapes = {p: s for (p, s), is_read in zip(self.shapes.items(), read[1:]) if is_read}
            self.inputs, self.outputs = ([n for n, is_read in zip(nodes, [True, *read[1:]]) if is_read]
                                         for nodes in (self.inputs, self.outputs))
            output.args = (tuple(self.outputs),)
            self.graph.eliminate_dead_code()

    def write(self, path: pathlib.Path) -> None:
        """An ONNX file, whose weights are in a safetensors file next to it. Inputs: z, cache_0, …; outputs: sample,
        new_cache_0, …."""
        names = SimpleNamespace(user_inputs=[n.name for n in self.inputs], user_outputs=[n.name for n in self.outputs])
        writer = Writer(SimpleNamespace(graph=self.graph, graph_signature=names), self.tensors)
        writer.write_nodes(HANDLERS)
        used = {n: t for n, t in self.tensors.items() if n in writer.used}
        weights = path.with_suffix(".safetensors")
        model = writer.model(OPSET, weights.name, write_safetensors(weights, used))
        _rename(model.graph, {o.name: n for o, n in zip(model.graph.output, self.names("new_cache", "sample"))})
        if len(self.inputs) > 1:
            _rename(model.graph, {i.name: n for i, n in zip(model.graph.input, self.names("cache", "z"))})
        path.write_bytes(model.SerializeToString())

    def names(self, cache: str, first: str) -> list[str]:
        return [first, *(f"{cache}_{i}" for i in range(len(self.shapes)))]


def _rename(graph: Any, names: dict[str, str]) -> None:
    taken = {n for node in graph.node for n in (*node.input, *node.output)} - names.keys()
    if clash := taken.intersection(names.values()):
        raise UserError(f"video_decoder: the decoder's graph has tensors named {', '.join(sorted(clash))} already")
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for of_node in (node.input, node.output):
            for i, name in enumerate(of_node):
                of_node[i] = names.get(name, name)


class ChunkNetwork:
    """A compiled chunk, on the device of its weights, with a copy of them. Its images, and so its caches, are channels
    last."""

    def __init__(self, traced: Traced, z: Tensor, spare_sms: int):
        self.device, self.dtype = z.device, z.dtype
        self.inputs, self.outputs = traced.names("cache", "z"), traced.names("new_cache", "sample")
        self.inputs = self.inputs[:len(traced.inputs)]
        with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
            path = pathlib.Path(folder) / "chunk.onnx"
            traced.write(path)
            self.executable = self._compiled(load_onnx(str(path)), spare_sms)
        self.shapes = self.executable.output_shapes(
            {n: list(_ordered(t.meta["val"]).shape) for n, t in zip(self.inputs, traced.inputs)})

    def _compiled(self, network: Any, spare_sms: int) -> NetworkExecutable:
        if self.device.type == "cpu":
            return compile_network(network, device=Device.cpu, threads=torch.get_num_threads(), layout=Layout.nhwc)
        return compile_network(network, device=Device.cuda, device_index=self.device.index or 0, strict=True,
                               precision=torch_dtypes()[self.dtype], spare_sms=spare_sms, layout=Layout.nhwc)

    def __call__(self, z: Tensor, caches: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Returns the frames and new caches, tensors (N,T·H,W,C). Given tensors are not written."""
        made = [torch.empty(self.shapes[n], dtype=self.dtype, device=self.device) for n in self.outputs]
        read = {n: view(n, t).native() for n, t in zip(self.inputs, (_ordered(z.contiguous()), *caches))}
        written = {n: view(n, t).native() for n, t in zip(self.outputs, made)}
        if self.device.type == "cuda":
            self.executable.enqueue(read, written, torch.cuda.current_stream(self.device).cuda_stream)
        else:
            self.executable.run(read, written)
        frames = made[0].permute(0, 3, 1, 2).contiguous() if made[0].dim() == 4 else made[0]
        return frames, made[1:]


def _ordered(tensor: Tensor) -> Tensor:
    """As networks of channels last take it."""
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor
