"""PyTorch: operators of the dispatcher with fake kernels and autograd formulas.

Imported by itself when `unisono.conv2d` or `unisono.gemm` meets a PyTorch tensor that requires a gradient, or is
traced.
"""

from typing import Any as _Any


def video_decoder(vae: _Any, *, spare_sms: int = 0) -> _Any:
    """What stands for `vae.decode` of diffusers' video autoencoders, in inference: vae.decode = video_decoder(vae).

    vae: an AutoencoderKLWan, AutoencoderKLQwenImage, AutoencoderKLCogVideoX or AutoencoderKLTemporalDecoder, whose type
    is float32 on a CPU, bfloat16 or float16 on a GPU. spare_sms: SMs of a GPU that kernels leave free. The result takes
    what `vae.decode` takes and returns the same; slices, tiles and their blending are the vae's. Its networks are made
    at the first call of each shape and copy the weights; a write to those that PyTorch counts makes them anew. Its
    `report()` has the networks' kernels, and `export(folder, z)` writes the chunks as ONNX files. Raises UserError and
    Unsupported. The guide is docs/volumes.md.
    """
    from .video import VideoDecoder
    return VideoDecoder(vae, spare_sms)
