"""MONAI: networks for images and volumes of medicine."""
from .entry import Entry


def network(name, config, shape):
    import torch
    from .named import resolved
    from .wrap import Flat
    return Flat(resolved("monai", f"networks.nets.{name}")(**config)), {"image": torch.randn(shape)}


def latent(name, config, part, shape):
    """One half of an autoencoder; an encoder's result is the mean of what it draws from."""
    import torch
    from .named import resolved
    from .wrap import Flat
    net = resolved("monai", f"networks.nets.{name}")(**config)
    call = (lambda net, x: net.encode(x)[0]) if part == "encoder" else lambda net, x: net.decode(x)
    return Flat(net, call), {"x": torch.randn(shape)}


def denoiser(config, shape):
    from .named import TIMESTEP, called, resolved
    net = resolved("monai", "networks.nets.DiffusionModelUNet")(**config)
    return called(net, {"x": shape, "timesteps": (TIMESTEP, (shape[0],))})


VOLUME, IMAGE = (1, 1, 32, 32, 32), (1, 1, 96, 96)


def channels(dims, out=2):
    return {"spatial_dims": dims, "in_channels": 1, "out_channels": out}


LATENT = {"spatial_dims": 3, "in_channels": 1, "out_channels": 1, "channels": (16, 32, 32), "latent_channels": 4,
          "num_res_blocks": 1, "norm_num_groups": 16, "attention_levels": (False, False, True)}
DYNAMIC = {"kernel_size": (3, 3, 3, 3), "strides": (1, 2, 2, 2), "upsample_kernel_size": (2, 2, 2)}
DIFFUSION = {"channels": (32, 64, 64), "attention_levels": (False, True, True), "num_head_channels": 32,
             "num_res_blocks": 1, "norm_num_groups": 32}

NETS = [
    ("basic_unet_2d", "BasicUNet", channels(2), IMAGE), ("basic_unet_3d", "BasicUNet", channels(3), VOLUME),
    ("basic_unetplusplus_2d", "BasicUNetPlusPlus", channels(2), IMAGE),
    ("unet_residual_2d", "UNet", {**channels(2), "channels": (16, 32, 64, 128), "strides": (2, 2, 2), "num_res_units": 2},
     IMAGE),
    ("unet_residual_3d", "UNet", {**channels(3), "channels": (16, 32, 64), "strides": (2, 2), "num_res_units": 2}, VOLUME),
    ("segresnet_2d", "SegResNet", channels(2), IMAGE), ("segresnet_3d", "SegResNet", channels(3), VOLUME),
    ("segresnet_vae", "SegResNetVAE", {"input_image_size": (32, 32, 32), "in_channels": 1, "out_channels": 2}, VOLUME),
    ("segresnet_ds", "SegResNetDS", {**channels(3), "init_filters": 16, "dsdepth": 2}, VOLUME),
    ("dynunet_2d", "DynUNet", {**channels(2), **DYNAMIC}, IMAGE),
    ("dynunet_3d", "DynUNet", {**channels(3), **DYNAMIC, "res_block": True}, VOLUME),
    ("unetr", "UNETR", {"in_channels": 1, "out_channels": 2, "img_size": 32, "feature_size": 16, "hidden_size": 96,
     "mlp_dim": 192, "num_heads": 4}, VOLUME),
    ("swin_unetr", "SwinUNETR", {"in_channels": 1, "out_channels": 2, "feature_size": 12}, (1, 1, 64, 64, 64)),
    ("swin_unetr_2d", "SwinUNETR", {"in_channels": 1, "out_channels": 2, "feature_size": 24, "spatial_dims": 2,
     "use_v2": True}, IMAGE),
    ("attention_unet_2d", "AttentionUnet", {**channels(2), "channels": (16, 32, 64, 128), "strides": (2, 2, 2)}, IMAGE),
    ("attention_unet_3d", "AttentionUnet", {**channels(3), "channels": (16, 32, 64), "strides": (2, 2)}, VOLUME),
    ("vnet", "VNet", channels(3), VOLUME),
    ("highresnet", "HighResNet", channels(3), VOLUME),
    ("flexible_unet", "FlexibleUNet", {"in_channels": 1, "out_channels": 2, "backbone": "efficientnet-b0",
     "spatial_dims": 2}, (1, 1, 96, 96)),
    ("mednext", "MedNeXt", {**channels(3), "init_filters": 16, "encoder_expansion_ratio": 2, "decoder_expansion_ratio": 2,
     "bottleneck_expansion_ratio": 2, "kernel_size": 3, "deep_supervision": False, "use_residual_connection": True,
     "blocks_down": (1, 1, 1, 1), "blocks_bottleneck": 1, "blocks_up": (1, 1, 1, 1), "norm_type": "group",
     "global_resp_norm": False}, VOLUME),
    ("monai_densenet_3d", "DenseNet121", channels(3), VOLUME),
    ("monai_resnet_3d", "resnet18", {"spatial_dims": 3, "n_input_channels": 1, "num_classes": 3}, VOLUME),
    ("monai_senet_2d", "SEResNet50", {"spatial_dims": 2, "in_channels": 1, "num_classes": 3}, IMAGE),
    ("monai_efficientnet_3d", "EfficientNetBN", {"model_name": "efficientnet-b0", "spatial_dims": 3, "in_channels": 1,
     "pretrained": False, "num_classes": 3}, VOLUME),
    ("monai_vit_3d", "ViT", {"in_channels": 1, "img_size": (32, 32, 32), "patch_size": (8, 8, 8), "hidden_size": 96,
     "mlp_dim": 192, "num_layers": 3, "num_heads": 4, "classification": True}, VOLUME),
    ("global_net", "GlobalNet", {"image_size": (32, 32, 32), "spatial_dims": 3, "in_channels": 1,
     "num_channel_initial": 8, "depth": 3}, VOLUME),
    ("reg_unet", "RegUNet", {"spatial_dims": 3, "in_channels": 1, "num_channel_initial": 8, "depth": 3,
     "out_channels": 3}, VOLUME),
    ("patch_discriminator", "PatchDiscriminator", {"spatial_dims": 2, "channels": 32, "in_channels": 1}, IMAGE),
]

ENTRIES = ([Entry("MONAI", name, network, (cls, config, shape), gpu_batch=2) for name, cls, config, shape in NETS]
           + [Entry("MONAI", f"monai_autoencoder_kl_{part}", latent, ("AutoencoderKL", LATENT, part, shape), gpu_batch=2)
              for part, shape in (("encoder", VOLUME), ("decoder", (1, 4, 8, 8, 8)))]
           + [Entry("MONAI", f"diffusion_unet_{dims}d", denoiser, ({**channels(dims, 1), **DIFFUSION}, shape), gpu_batch=1)
              for dims, shape in ((2, (1, 1, 32, 32)), (3, (1, 1, 16, 16, 16)))])
