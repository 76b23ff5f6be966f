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

MORE_CONVOLUTIONAL = {
    "efficientvit_b0": 224, "efficientvit_m0": 224, "efficientvit_l1": 224, "fastvit_s12": 256, "repvit_m0_9": 224,
    "mobilenetv4_conv_medium": 224, "edgenext_small": 256, "convnextv2_pico": 224, "convnext_zepto_rms": 224,
    "convnext_femto_ols": 224, "focalnet_tiny_srf": 224, "poolformerv2_s12": 224, "ghostnetv2_100": 224, "ghostnetv3_100": 224,
    "rexnet_100": 224, "regnetz_b16": 224, "dm_nfnet_f0": 192, "nf_regnet_b0": 224, "resnest26d": 224, "hrnet_w18": 224,
    "dla46_c": 224, "dla60_res2net": 224, "ese_vovnet39b": 224, "selecsls42b": 224, "fbnetc_100": 224, "tinynet_a": 192,
    "darknet53": 224, "cspresnext50": 224, "cs3darknet_focus_s": 256, "xception41": 224, "gernet_s": 224, "gcresnet33ts": 256,
    "resnetblur50": 224, "resnet34d": 224, "seresnext26t_32x4d": 224, "resnet32ts": 256, "densenetblur121d": 224,
    "inception_v4": 299, "dpn68": 224, "efficientnet_lite0": 224, "efficientnet_cc_b0_4e": 224, "mambaout_femto": 224,
    "hgnetv2_b0": 224, "rdnet_tiny": 224, "convmixer_1024_20_ks9_p14": 112, "fasternet_t0": 224, "shvit_s1": 224,
    "mobilenetv1_100": 224, "mobilenet_edgetpu_v2_xs": 224, "convformer_s18": 224, "starnet_s2": 224}
MORE_OTHERS = {
    "vit_small_patch32_224": 224, "vit_relpos_small_patch16_224": 224, "vit_base_patch32_clip_quickgelu_224": 224,
    "vit_base_patch32_siglip_256": 256, "vit_little_patch16_reg1_gap_256": 256, "vit_tiny_r_s16_p8_224": 224,
    "vit_wee_patch16_reg1_gap_256": 256, "vitamin_small_224": 224, "flexivit_small": 240, "eva02_tiny_patch14_224": 224,
    "deit_tiny_distilled_patch16_224": 224, "crossvit_tiny_240": 240, "convit_tiny": 224, "coat_lite_tiny": 224, "coat_tiny": 224,
    "visformer_tiny": 224, "tnt_s_patch16_224": 224, "pit_ti_224": 224, "twins_pcpvt_small": 224, "twins_svt_small": 224,
    "nest_tiny": 224, "mvitv2_tiny": 224, "volo_d1_224": 224, "hiera_tiny_224": 224, "nextvit_small": 224, "fastvit_sa12": 256,
    "mobilevitv2_050": 256, "coatnext_nano_rw_224": 224, "maxxvit_rmlp_nano_rw_256": 256, "sequencer2d_s": 224,
    "tiny_vit_5m_224": 224, "swiftformer_xs": 224, "efficientformerv2_s0": 224, "pvt_v2_b1": 224, "levit_conv_128s": 224,
    "halonet26t": 256, "botnet26t_256": 256, "lambda_resnet26t": 256, "caformer_s18": 224, "swin_s3_tiny_224": 224,
    "swinv2_cr_tiny_ns_224": 224, "gmixer_24_224": 224, "gcvit_xxtiny": 224, "xcit_tiny_12_p8_224": 112,
    "bat_resnext26ts": 256, "vit_small_resnet26d_224": 224}

ENTRIES = ([Entry("timm", name, classifier, (name, size)) for name, size in CONVOLUTIONAL.items()]
           + [Entry("timm", name, classifier, (name, size), convolutional=False) for name, size in OTHERS.items()]
           + [Entry("timm", name, classifier, (name, size)) for name, size in MORE_CONVOLUTIONAL.items()]
           + [Entry("timm", name, classifier, (name, size), convolutional=False) for name, size in MORE_OTHERS.items()])