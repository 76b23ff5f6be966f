"""timm: its own designs, the small ones of each family."""
from .entry import Entry


def classifier(name, size):
    import timm
    from .wrap import Flat, image
    return Flat(timm.create_model(name, pretrained=False)), image(size)


CONVOLUTIONAL = {
    "resnet50_gn": 224, "resnetv2_50x1_bit": 224, "convnext_atto": 224, "convnextv2_atto": 224,
    "tf_efficientnet_b0": 224, "tf_efficientnetv2_b0": 192, "regnety_002": 224, "mobilenetv4_conv_small": 224,
    "mobilenetv4_hybrid_medium": 224, "eca_nfnet_l0": 224, "nf_resnet50": 224, "ghostnet_100": 224,
    "hrnet_w18_small": 224,
    "repvgg_a0": 224, "mobileone_s0": 224, "res2net50_26w_4s": 224, "resnest14d": 224, "dla34": 224,
    "cspdarknet53": 224, "skresnet18": 224, "ese_vovnet19b_dw": 224, "fastvit_t8": 256, "edgenext_xx_small": 256,
    "inception_next_atto": 224, "starnet_s1": 224, "repghostnet_050": 224, "mixnet_s": 224, "lcnet_050": 224}
OTHERS = {
    "mixer_s32_224": 224, "resmlp_12_224": 224, "gmlp_s16_224": 224, "vit_tiny_patch16_224": 224,
    "deit3_small_patch16_224": 224,
    "beit_base_patch16_224": 224, "swin_tiny_patch4_window7_224": 224, "swinv2_tiny_window8_256": 256,
    "maxvit_pico_rw_256": 256,
    "coatnet_pico_rw_224": 224, "levit_128s": 224, "mobilevit_xxs": 256, "poolformer_s12": 224, "pvt_v2_b0": 224,
    "xcit_nano_12_p16_224": 224, "cait_xxs24_224": 224, "efficientformer_l1": 224, "davit_tiny": 224}

ENTRIES = ([Entry("timm", name, classifier, (name, size)) for name, size in CONVOLUTIONAL.items()]
           + [Entry("timm", name, classifier, (name, size), convolutional=False) for name, size in OTHERS.items()])
