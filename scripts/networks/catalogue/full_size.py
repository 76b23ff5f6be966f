"""Networks at the sizes at which people run them on a GPU."""
import dataclasses

from . import diffusers, segmentation, timm, torchvision
from .entry import Entry

DDPM = (128, 128, 256, 256, 512, 512)
STABLE_DIFFUSION = (320, 640, 1280, 1280)
NNUNET = (32, 64, 128, 256, 512, 512, 512)

ENTRIES = [dataclasses.replace(entry, name=f"{entry.name}.full") for entry in (
    Entry("torchvision", "resnet50", torchvision.classifier, ("resnet50", 224), gpu_batch=32),
    Entry("torchvision", "vgg16_bn", torchvision.classifier, ("vgg16_bn", 224), gpu_batch=8),
    Entry("torchvision", "deeplabv3_resnet50", torchvision.segmentation, ("deeplabv3_resnet50", 224), gpu_batch=8),
    Entry("timm", "resnet50_gn", timm.classifier, ("resnet50_gn", 224), gpu_batch=32),
    Entry("timm", "convnext_tiny", timm.classifier, ("convnext_tiny", 224), gpu_batch=32),
    Entry("dynamic-network-architectures", "nnunet_2d", segmentation.nnunet, ("PlainConvUNet", 2, NNUNET, (512, 512)),
          gpu_batch=12),
    Entry("diffusers", "unet2d_ddpm_256", diffusers.unconditional, (DDPM, 4, 256, 2, 2), gpu_batch=1),
    Entry("diffusers", "autoencoder_kl_decoder", diffusers.autoencoder,
          ("decoder", (128, 256, 512, 512), 2, 64), gpu_batch=1),
    Entry("diffusers", "unet2d_condition_sd15", diffusers.conditional, (STABLE_DIFFUSION, 768, 64, 2, 2),
          large=True, gpu_batch=1))]
