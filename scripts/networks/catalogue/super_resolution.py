"""spandrel: super-resolution and restoration of images."""
from .entry import Entry


def restorer(name, config, shape):
    import torch
    from .named import resolved
    from .wrap import Flat
    return Flat(resolved("spandrel", f"architectures.{name}")(**config)), {"image": torch.randn(shape)}


SMALL = (1, 3, 48, 48)
WINDOWS = {"img_size": 48, "window_size": 8, "depths": [2, 2], "embed_dim": 60, "num_heads": [6, 6], "mlp_ratio": 2}

NETS = [
    ("esrgan", "ESRGAN.ESRGAN", {"num_filters": 64, "num_blocks": 3, "scale": 4}, SMALL),
    ("esrgan_x2", "ESRGAN.ESRGAN", {"in_nc": 12, "num_filters": 64, "num_blocks": 2, "scale": 4, "shuffle_factor": 2}, (1, 3, 64, 64)),
    ("srvgg_compact", "Compact.Compact", {"num_feat": 64, "num_conv": 16, "upscale": 4}, (1, 3, 64, 64)),
    ("swinir", "SwinIR.SwinIR", {**WINDOWS, "upscale": 4, "upsampler": "pixelshuffle", "resi_connection": "1conv"}, SMALL),
    ("swin2sr", "Swin2SR.Swin2SR", {**WINDOWS, "upscale": 2, "upsampler": "pixelshuffledirect"}, SMALL),
    ("hat", "HAT.HAT", {**WINDOWS, "img_size": 48, "upscale": 2, "upsampler": "pixelshuffle", "compress_ratio": 3,
     "squeeze_factor": 30, "overlap_ratio": 0.5}, SMALL),
    ("dat", "DAT.DAT", {"img_size": 48, "embed_dim": 60, "split_size": [8, 16], "depth": [2, 2], "num_heads": [6, 6],
     "expansion_factor": 2, "upscale": 2}, SMALL),
    ("nafnet", "NAFNet.NAFNet", {"width": 32, "middle_blk_num": 2, "enc_blk_nums": [1, 1, 2], "dec_blk_nums": [1, 1, 1]},
     (1, 3, 96, 96)),
    ("rcan", "RCAN.RCAN", {"n_resgroups": 2, "n_resblocks": 3, "scale": 2}, SMALL),
    ("span", "SPAN.SPAN", {"num_in_ch": 3, "num_out_ch": 3, "feature_channels": 48, "upscale": 4}, (1, 3, 64, 64)),
    ("plksr", "PLKSR.PLKSR", {"dim": 48, "n_blocks": 6, "upscaling_factor": 4}, (1, 3, 64, 64)),
    ("realplksr", "PLKSR.RealPLKSR", {"dim": 64, "n_blocks": 6, "upscaling_factor": 4}, (1, 3, 64, 64)),
    ("safmn", "SAFMN.SAFMN", {"dim": 36, "n_blocks": 4, "upscaling_factor": 4}, (1, 3, 64, 64)),
    ("omnisr", "OmniSR.OmniSR", {"num_feat": 64, "res_num": 2, "up_scale": 4}, (1, 3, 64, 64)),
    ("drunet", "DRUNet.DRUNet", {"in_nc": 3, "out_nc": 3, "nc": [32, 64, 128, 256], "nb": 2}, (1, 3, 64, 64)),
    ("dncnn", "DnCNN.DnCNN", {"in_nc": 3, "out_nc": 3, "nb": 10, "mode": "DnCNN"}, (1, 3, 96, 96)),
    ("scunet", "SCUNet.SCUNet", {"in_nc": 3, "config": [1, 1, 1, 1, 1, 1, 1], "dim": 64}, (1, 3, 64, 64)),
    ("mixdehazenet", "MixDehazeNet.MixDehazeNet", {"depths": [1, 1, 2, 1, 1]}, (1, 3, 64, 64)),
    ("atd", "ATD.ATD", {"img_size": 64, "embed_dim": 48, "depths": [2, 2], "num_heads": [4, 4], "window_size": 8,
     "category_size": 64, "num_tokens": 32, "reducted_dim": 8, "upscale": 2, "upsampler": "pixelshuffledirect"}, (1, 3, 64, 64)),
    ("realcugan", "RealCUGAN.UpCunet2x", {}, (1, 3, 64, 64)),
    ("fbcnn", "FBCNN.FBCNN", {"nb": 1}, (1, 3, 64, 64)),
]
ENTRIES = [Entry("spandrel", name, restorer, (cls, config, shape), gpu_batch=2) for name, cls, config, shape in NETS]
