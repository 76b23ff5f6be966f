"""segmentation-models-pytorch, and dynamic-network-architectures, the networks of nnU-Net."""
from .entry import Entry


def segmenter(name, encoder, size, options=()):
    import segmentation_models_pytorch as smp
    from .wrap import Flat, image
    return Flat(getattr(smp, name)(encoder, encoder_weights=None, classes=3, **dict(options))), image(size)


def nnunet(name, axes, channels, size):
    import torch
    from dynamic_network_architectures.architectures import unet
    from .wrap import Flat, image
    nn = torch.nn
    conv, norm = {2: (nn.Conv2d, nn.InstanceNorm2d), 3: (nn.Conv3d, nn.InstanceNorm3d)}[axes]
    stages = len(channels)
    strides = (1,) + (2,) * (stages - 1)
    common = {"conv_bias": True, "norm_op": norm, "norm_op_kwargs": {"eps": 1e-5, "affine": True},
              "nonlin": nn.LeakyReLU, "nonlin_kwargs": {"inplace": True}, "deep_supervision": False}
    decoder = [2 if name == "PlainConvUNet" else 1] * (stages - 1)
    net = getattr(unet, name)(2, stages, channels, conv, 3, strides, 2, 4, decoder, **common)
    return Flat(net), image(size, channels=2)


ENTRIES = [
    Entry("segmentation-models-pytorch", f"{name.lower()}_{encoder.replace('timm-', '').replace('-', '_')}", segmenter,
          (name, encoder, size, options), open=free)
    for name, encoder, size, options, free in (
        ("Unet", "resnet34", 256, (), "nhw"),
        ("Unet", "resnet18", 192, (("decoder_attention_type", "scse"),), ""),
        ("UnetPlusPlus", "resnet18", 128, (), ""),
        ("FPN", "resnet34", 128, (), ""),
        ("PAN", "resnet18", 256, (), ""),
        ("MAnet", "resnet18", 128, (), ""),
        ("DeepLabV3", "resnet18", 128, (), ""),
        ("DeepLabV3Plus", "resnet34", 256, (), ""),
        ("Linknet", "resnet34", 256, (), ""),
        ("PSPNet", "resnet34", 192, (), ""),
        ("UPerNet", "resnet34", 128, (), ""),
        ("Segformer", "resnet18", 128, (), ""),
        ("Unet", "efficientnet-b0", 128, (), ""),
        ("Unet", "mobilenet_v2", 128, (), ""),
        ("Unet", "densenet121", 128, (), ""),
        ("Unet", "mit_b0", 128, (), ""),
        ("Unet", "tu-convnextv2_atto", 128, (), ""),
        ("UnetPlusPlus", "mobileone_s0", 128, (), ""),
        ("FPN", "mit_b0", 128, (), ""),
        ("FPN", "vgg11_bn", 128, (), ""),
        ("Linknet", "xception", 128, (), ""),
        ("DeepLabV3Plus", "mobilenet_v2", 128, (), ""),
        ("MAnet", "se_resnet50", 128, (), ""),
        ("PSPNet", "dpn68", 128, (), ""),
        ("Segformer", "mit_b0", 128, (), ""),
        ("UPerNet", "tu-swin_tiny_patch4_window7_224", 224, (("img_size", 224),), ""),
        ("DPT", "tu-vit_tiny_patch16_224", 224, (), ""))
] + [
    Entry("dynamic-network-architectures", "nnunet_2d", nnunet,
          ("PlainConvUNet", 2, (32, 64, 128, 256, 512, 512), (256, 256))),
    Entry("dynamic-network-architectures", "nnunet_2d_residual", nnunet,
          ("ResidualEncoderUNet", 2, (32, 64, 128, 256), (128, 128))),
    Entry("dynamic-network-architectures", "nnunet_3d", nnunet,
          ("PlainConvUNet", 3, (32, 64, 128, 256), (32, 64, 64)))]
