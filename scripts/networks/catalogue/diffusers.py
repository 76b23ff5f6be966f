"""diffusers: the U-Nets, ControlNet and the autoencoder of diffusion."""
from .entry import Entry

SMALL = ("norm_num_groups", 32), ("layers_per_block", 1)


def timestep(batch):
    import torch
    return torch.arange(batch) * 437 + 61


def unconditional(channels, attention_at, size, batch, layers):
    import diffusers
    import torch
    from .wrap import Flat
    down = tuple("AttnDownBlock2D" if i == attention_at else "DownBlock2D" for i in range(len(channels)))
    up = tuple("AttnUpBlock2D" if d.startswith("Attn") else "UpBlock2D" for d in reversed(down))
    net = diffusers.UNet2DModel(sample_size=size, in_channels=3, out_channels=3, layers_per_block=layers,
                                block_out_channels=channels, down_block_types=down, up_block_types=up, freq_shift=1,
                                flip_sin_to_cos=False, downsample_padding=0, act_fn="silu", norm_eps=1e-6)
    return (Flat(net, lambda net, x, t: net(x, t, return_dict=False)),
            {"sample": torch.randn(batch, 3, size, size), "timestep": timestep(batch)})


def conditional(channels, context, size, batch, layers):
    import diffusers
    import torch
    from .wrap import Flat
    down = ("CrossAttnDownBlock2D",) * (len(channels) - 1) + ("DownBlock2D",)
    up = ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * (len(channels) - 1)
    net = diffusers.UNet2DConditionModel(sample_size=size, cross_attention_dim=context, attention_head_dim=8,
                                         block_out_channels=channels, down_block_types=down, up_block_types=up,
                                         layers_per_block=layers)
    return (Flat(net, lambda net, x, t, c: net(x, t, c, return_dict=False)),
            {"sample": torch.randn(batch, 4, size, size), "timestep": timestep(batch),
             "context": torch.randn(batch, 77, context)})


def controlnet(channels, context, size):
    import diffusers
    import torch
    from .wrap import Flat
    net = diffusers.ControlNetModel(cross_attention_dim=context, attention_head_dim=8, layers_per_block=1,
                                    block_out_channels=channels,
                                    down_block_types=("CrossAttnDownBlock2D",) * (len(channels) - 1) + ("DownBlock2D",),
                                    conditioning_embedding_out_channels=(16, 32, 96, 256))
    return (Flat(net, lambda net, x, t, c, image: net(x, t, c, image, return_dict=False)),
            {"sample": torch.randn(1, 4, size, size), "timestep": timestep(1), "context": torch.randn(1, 77, context),
             "image": torch.rand(1, 3, 8 * size, 8 * size)})


def autoencoder(half, channels, layers, size):
    import diffusers
    import torch
    from .wrap import Flat
    net = diffusers.AutoencoderKL(block_out_channels=channels, down_block_types=("DownEncoderBlock2D",) * len(channels),
                                  up_block_types=("UpDecoderBlock2D",) * len(channels), layers_per_block=layers,
                                  latent_channels=4)
    if half == "encoder":
        parts = torch.nn.Sequential(net.encoder, net.quant_conv)
        return Flat(parts), {"image": torch.randn(1, 3, size, size)}
    return Flat(torch.nn.Sequential(net.post_quant_conv, net.decoder)), {"latent": torch.randn(1, 4, size, size)}


def tiny_autoencoder(size):
    import diffusers
    import torch
    from .wrap import Flat
    net = diffusers.AutoencoderTiny()
    return Flat(torch.nn.Sequential(net.encoder, net.decoder)), {"image": torch.rand(1, 3, size, size)}


def network(name, maker, arguments, **options):
    return Entry("diffusers", name, maker, arguments, gpu_batch=1, **options)


ENTRIES = [
    network("unet2d_small", unconditional, ((32, 64, 64), 1, 32, 2, 1)),
    network("unet2d_ddpm_cifar", unconditional, ((128, 256, 256, 256), 1, 32, 1, 2)),
    network("unet2d_condition_small", conditional, ((32, 64, 64), 64, 32, 2, 1)),
    network("controlnet_small", controlnet, ((32, 64, 64), 64, 16)),
    network("autoencoder_kl_encoder", autoencoder, ("encoder", (64, 128, 256, 256), 1, 128)),
    network("autoencoder_kl_decoder", autoencoder, ("decoder", (64, 128, 256, 256), 1, 16)),
    network("autoencoder_tiny", tiny_autoencoder, (128,)),
    network("unet2d_condition_sd15", conditional, ((320, 640, 1280, 1280), 768, 32, 1, 2), large=True)]
