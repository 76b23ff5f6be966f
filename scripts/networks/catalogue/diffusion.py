"""diffusers: transformers of diffusion, U-Nets and ControlNets of other designs, and autoencoders of images and video.

All are small: two blocks of each kind, a hundred or so channels.
"""
from .entry import Entry
from .named import TIMESTEP

STEP = (TIMESTEP, (1,))


def denoiser(name, config, inputs, constants=()):
    import diffusers
    from .named import called
    return called(getattr(diffusers, name)(**config), inputs, {"return_dict": False, **dict(constants)})


def half(name, config, part, inputs):
    """An autoencoder's encoder or decoder, with the convolutions next to it."""
    import diffusers
    from .named import called
    from .wrap import Flat
    net = getattr(diffusers, name)(**config)

    def encode(net, x):
        y = net._encode(x) if hasattr(net, "_encode") else net.encode(x, return_dict=False)[0]
        return getattr(y, "parameters", y)

    def decode(net, z):
        return net.decode(z, return_dict=False)
    _, tensors = called(net, inputs)
    return Flat(net, encode if part == "encoder" else decode), tensors


def flux_ids():
    import torch
    image = torch.zeros(64, 3)
    image[:, 1], image[:, 2] = torch.arange(64) // 8, torch.arange(64) % 8
    return {"img_ids": image, "txt_ids": torch.zeros(16, 3)}


def flux(name, config, inputs):
    return denoiser(name, config, inputs, flux_ids())


def pixart():
    return denoiser("PixArtTransformer2DModel",
                    {"num_attention_heads": 4, "attention_head_dim": 32, "in_channels": 4, "out_channels": 8, "num_layers": 2,
                     "cross_attention_dim": 128, "sample_size": 32, "patch_size": 2, "caption_channels": 64,
                     "use_additional_conditions": False},
                    {"hidden_states": (1, 4, 32, 32), "encoder_hidden_states": (1, 20, 64), "timestep": STEP},
                    {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}})


HEADS = {"num_attention_heads": 4, "attention_head_dim": 32}
BLOCKS = {"num_layers": 2, **HEADS}
TEXT = (1, 20, 64)
CROSS = ("CrossAttnDownBlock2D", "DownBlock2D")
SDXL = {"sample_size": 32, "block_out_channels": (64, 128), "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"), "layers_per_block": 2, "cross_attention_dim": 96,
        "attention_head_dim": (2, 4), "use_linear_projection": True, "transformer_layers_per_block": (1, 2)}
VIDEO_UNET = {"sample_size": 16, "block_out_channels": (32, 64), "cross_attention_dim": 64, "layers_per_block": 1}

DENOISERS = [
    ("dit", "DiTTransformer2DModel", {**BLOCKS, "in_channels": 4, "out_channels": 8, "sample_size": 32, "patch_size": 2},
     {"hidden_states": (1, 4, 32, 32), "timestep": STEP, "class_labels": ("tokens", (1,), 1000)}),
    ("sd3", "SD3Transformer2DModel", {"num_layers": 2, "attention_head_dim": 64, "num_attention_heads": 4, "sample_size": 32,
     "in_channels": 16, "out_channels": 16, "joint_attention_dim": 96, "caption_projection_dim": 256,
     "pooled_projection_dim": 64, "pos_embed_max_size": 32},
     {"hidden_states": (1, 16, 32, 32), "encoder_hidden_states": (1, 77, 96), "pooled_projections": (1, 64),
      "timestep": STEP}),
    ("sd35", "SD3Transformer2DModel", {"num_layers": 2, "attention_head_dim": 64, "num_attention_heads": 4, "sample_size": 32,
     "in_channels": 16, "out_channels": 16, "joint_attention_dim": 96, "caption_projection_dim": 256,
     "pooled_projection_dim": 64, "pos_embed_max_size": 32, "qk_norm": "rms_norm", "dual_attention_layers": (0,)},
     {"hidden_states": (1, 16, 32, 32), "encoder_hidden_states": (1, 77, 96), "pooled_projections": (1, 64),
      "timestep": STEP}),
    ("sana", "SanaTransformer2DModel", {**BLOCKS, "in_channels": 8, "out_channels": 8, "num_cross_attention_heads": 4,
     "cross_attention_head_dim": 32, "cross_attention_dim": 128, "caption_channels": 64, "sample_size": 32, "patch_size": 1},
     {"hidden_states": (1, 8, 32, 32), "encoder_hidden_states": TEXT, "timestep": STEP}),
    ("auraflow", "AuraFlowTransformer2DModel", {**HEADS, "sample_size": 32, "patch_size": 2, "in_channels": 4,
     "num_mmdit_layers": 1, "num_single_dit_layers": 2, "joint_attention_dim": 64, "caption_projection_dim": 128,
     "out_channels": 4, "pos_embed_max_size": 256},
     {"hidden_states": (1, 4, 32, 32), "encoder_hidden_states": TEXT, "timestep": STEP}),
    ("cogview3plus", "CogView3PlusTransformer2DModel", {**BLOCKS, "patch_size": 2, "in_channels": 4, "out_channels": 4,
     "text_embed_dim": 64, "time_embed_dim": 64, "condition_dim": 32, "pos_embed_max_size": 32, "sample_size": 16},
     {"hidden_states": (1, 4, 32, 32), "encoder_hidden_states": TEXT, "timestep": STEP, "original_size": (1, 2),
      "target_size": (1, 2), "crop_coords": (1, 2)}),
    ("cogvideox", "CogVideoXTransformer3DModel", {**BLOCKS, "in_channels": 4, "out_channels": 4, "time_embed_dim": 64,
     "text_embed_dim": 64, "sample_width": 16, "sample_height": 16, "sample_frames": 9, "patch_size": 2,
     "temporal_compression_ratio": 4, "max_text_seq_length": 20},
     {"hidden_states": (1, 3, 4, 16, 16), "encoder_hidden_states": TEXT, "timestep": STEP}),
    ("wan", "WanTransformer3DModel", {**BLOCKS, "in_channels": 16, "out_channels": 16, "text_dim": 64, "freq_dim": 64,
     "ffn_dim": 256, "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "rope_max_seq_len": 32},
     {"hidden_states": (1, 16, 2, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT}),
    ("latte", "LatteTransformer3DModel", {**BLOCKS, "in_channels": 4, "out_channels": 8, "sample_size": 16, "patch_size": 2,
     "cross_attention_dim": 128, "caption_channels": 64, "video_length": 4, "norm_elementwise_affine": False,
     "attention_bias": True, "activation_fn": "gelu-approximate", "norm_type": "ada_norm_single"},
     {"hidden_states": (1, 4, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT}),
    ("stable_audio", "StableAudioDiTModel", {"sample_size": 64, "in_channels": 16, "out_channels": 16, **BLOCKS,
     "num_key_value_attention_heads": 2, "cross_attention_dim": 64, "cross_attention_input_dim": 64,
     "global_states_input_dim": 128, "time_proj_dim": 64},
     {"hidden_states": (1, 16, 64), "timestep": (1,), "encoder_hidden_states": TEXT, "global_hidden_states": (1, 1, 128)}),
    ("hunyuan_video", "HunyuanVideoTransformer3DModel", {**HEADS, "in_channels": 4, "out_channels": 4, "num_layers": 1,
     "num_single_layers": 2, "num_refiner_layers": 1, "patch_size": 2, "patch_size_t": 1, "guidance_embeds": False,
     "text_embed_dim": 64, "pooled_projection_dim": 32, "rope_axes_dim": (8, 12, 12)},
     {"hidden_states": (1, 4, 2, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT,
      "encoder_attention_mask": ("kept", (1, 20)), "pooled_projections": (1, 32)}),
    ("prior", "PriorTransformer", {**BLOCKS, "embedding_dim": 64, "num_embeddings": 20, "additional_embeddings": 4},
     {"hidden_states": (1, 64), "timestep": STEP, "proj_embedding": (1, 64), "encoder_hidden_states": (1, 20, 64)}),
    ("unet2d_linear_projection", "UNet2DConditionModel", SDXL,
     {"sample": (1, 4, 32, 32), "timestep": STEP, "encoder_hidden_states": (1, 77, 96)}),
    ("unet2d_scale_shift", "UNet2DModel", {"sample_size": 32, "block_out_channels": (32, 64, 64), "layers_per_block": 2,
     "resnet_time_scale_shift": "scale_shift", "attention_head_dim": 16,
     "down_block_types": ("ResnetDownsampleBlock2D", "AttnDownBlock2D", "DownBlock2D"),
     "up_block_types": ("UpBlock2D", "AttnUpBlock2D", "ResnetUpsampleBlock2D")},
     {"sample": (1, 3, 32, 32), "timestep": STEP}),
    ("unet2d_skip", "UNet2DModel", {"sample_size": 32, "block_out_channels": (32, 64), "layers_per_block": 1,
     "down_block_types": ("SkipDownBlock2D", "AttnSkipDownBlock2D"), "up_block_types": ("AttnSkipUpBlock2D", "SkipUpBlock2D")},
     {"sample": (1, 3, 32, 32), "timestep": STEP}),
    ("unet2d_simple_cross_attention", "UNet2DConditionModel", {"sample_size": 32, "block_out_channels": (32, 64),
     "layers_per_block": 1, "cross_attention_dim": 64, "attention_head_dim": 16, "only_cross_attention": False,
     "down_block_types": ("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
     "mid_block_type": "UNetMidBlock2DSimpleCrossAttn",
     "up_block_types": ("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"), "resnet_time_scale_shift": "scale_shift",
     "act_fn": "gelu"},
     {"sample": (1, 4, 32, 32), "timestep": STEP, "encoder_hidden_states": TEXT}),
    ("unet1d", "UNet1DModel", {"sample_size": 128, "in_channels": 2, "out_channels": 2, "extra_in_channels": 64,
     "block_out_channels": (32, 64, 64), "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
     "up_block_types": ("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip")},
     {"sample": (1, 2, 128), "timestep": STEP}),
    ("unet3d_condition", "UNet3DConditionModel", {**VIDEO_UNET, "attention_head_dim": 8,
     "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"), "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D")},
     {"sample": (1, 4, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT}),
    ("unet_spatio_temporal", "UNetSpatioTemporalConditionModel", {**VIDEO_UNET, "num_attention_heads": (2, 4),
     "in_channels": 8, "out_channels": 4, "projection_class_embeddings_input_dim": 96, "addition_time_embed_dim": 32,
     "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
     "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal")},
     {"sample": (1, 4, 8, 16, 16), "timestep": STEP, "encoder_hidden_states": (1, 1, 64), "added_time_ids": (1, 3)}),
    ("stable_cascade", "StableCascadeUNet", {"in_channels": 4, "out_channels": 4, "timestep_ratio_embedding_dim": 32,
     "patch_size": 1, "conditioning_dim": 64, "block_out_channels": (64, 128), "num_attention_heads": (0, 4),
     "down_num_layers_per_block": (2, 2), "up_num_layers_per_block": (2, 2), "down_blocks_repeat_mappers": (1, 1),
     "up_blocks_repeat_mappers": (1, 1), "block_types_per_layer": (("SDCascadeResBlock", "SDCascadeTimestepBlock"),
     ("SDCascadeResBlock", "SDCascadeTimestepBlock", "SDCascadeAttnBlock")), "clip_text_pooled_in_channels": 64,
     "switch_level": (False,), "dropout": (0.0, 0.0), "kernel_size": 3},
     {"sample": (1, 4, 32, 32), "timestep_ratio": ("unit", (1,)), "clip_text_pooled": (1, 1, 64)}),
]
ADAPTERS = [
    ("uvit", "UVit2DModel", {"hidden_size": 128, "cond_embed_dim": 64, "micro_cond_encode_dim": 32,
     "micro_cond_embed_dim": 160, "encoder_hidden_size": 64, "vocab_size": 128, "codebook_size": 120, "in_channels": 64,
     "block_out_channels": 64, "num_res_blocks": 1, "downsample": True, "upsample": True, "block_num_heads": 4,
     "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256, "sample_size": 16},
     {"input_ids": ("tokens", (1, 16, 16), 120), "encoder_hidden_states": TEXT, "pooled_text_emb": (1, 64),
      "micro_conds": (1, 5)}, None),
    ("controlnet_sd3", "SD3ControlNetModel", {"num_layers": 2, "attention_head_dim": 64, "num_attention_heads": 2,
     "sample_size": 32, "in_channels": 8, "joint_attention_dim": 96, "caption_projection_dim": 128,
     "pooled_projection_dim": 64, "pos_embed_max_size": 32},
     {"hidden_states": (1, 8, 32, 32), "controlnet_cond": (1, 8, 32, 32), "encoder_hidden_states": (1, 77, 96),
      "pooled_projections": (1, 64), "timestep": STEP},
     {}),
    ("t2i_adapter", "T2IAdapter", {"in_channels": 3, "channels": [32, 64, 128], "num_res_blocks": 2,
     "downscale_factor": 8, "adapter_type": "full_adapter"}, {"x": (1, 3, 128, 128)}, None),
    ("t2i_adapter_light", "T2IAdapter", {"in_channels": 3, "channels": [64, 128, 128], "num_res_blocks": 2,
     "downscale_factor": 8, "adapter_type": "light_adapter"}, {"x": (1, 3, 128, 128)}, None),
]


def adapter(name, config, inputs):
    import diffusers
    from .named import called
    return called(getattr(diffusers, name)(**config), inputs)


WAN = {"base_dim": 24, "z_dim": 16, "dim_mult": [1, 2, 2], "num_res_blocks": 1, "temperal_downsample": [False, True]}
HALVES = [
    ("asymmetric_kl", "AsymmetricAutoencoderKL", {"down_block_out_channels": (32, 64), "layers_per_down_block": 1,
     "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
     "up_block_out_channels": (32, 64), "layers_per_up_block": 1, "norm_num_groups": 16}, (1, 3, 64, 64), (1, 4, 32, 32)),
    ("autoencoder_dc", "AutoencoderDC", {"in_channels": 3, "latent_channels": 8, "attention_head_dim": 16,
     "encoder_block_types": ("ResBlock", "EfficientViTBlock"), "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
     "encoder_block_out_channels": (32, 64), "decoder_block_out_channels": (32, 64), "encoder_layers_per_block": (1, 1),
     "decoder_layers_per_block": (1, 1), "encoder_qkv_multiscales": ((), (5,)), "decoder_qkv_multiscales": ((), (5,)),
     "downsample_block_type": "pixel_unshuffle", "upsample_block_type": "pixel_shuffle", "decoder_norm_types": "rms_norm",
     "decoder_act_fns": "silu"}, (1, 3, 64, 64), (1, 8, 16, 16)),
    ("vq", "VQModel", {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2,
     "up_block_types": ("UpDecoderBlock2D",) * 2, "latent_channels": 4, "num_vq_embeddings": 64, "norm_num_groups": 16,
     "norm_type": "spatial"}, None, None),
    ("temporal", "AutoencoderKLTemporalDecoder", {"block_out_channels": (32, 64), "layers_per_block": 1,
     "down_block_types": ("DownEncoderBlock2D",) * 2}, None, (4, 4, 16, 16)),
    ("wan", "AutoencoderKLWan", WAN, (1, 3, 5, 32, 32), (1, 16, 2, 8, 8)),
    ("qwen_image", "AutoencoderKLQwenImage", WAN, (1, 3, 1, 32, 32), (1, 16, 1, 8, 8)),
    ("cogvideox", "AutoencoderKLCogVideoX", {"block_out_channels": (32, 32, 64, 64), "latent_channels": 4,
     "layers_per_block": 1, "norm_num_groups": 8, "temporal_compression_ratio": 4,
     "down_block_types": ("CogVideoXDownBlock3D",) * 4, "up_block_types": ("CogVideoXUpBlock3D",) * 4},
     (1, 3, 5, 32, 32), (1, 4, 2, 8, 8)),
    ("hunyuan_video", "AutoencoderKLHunyuanVideo", {"block_out_channels": (32, 32, 64, 64), "latent_channels": 4,
     "layers_per_block": 1, "norm_num_groups": 16}, (1, 3, 5, 32, 32), (1, 4, 2, 4, 4)),
    ("ltx_video", "AutoencoderKLLTXVideo", {"latent_channels": 8, "block_out_channels": (16, 32, 32, 64),
     "decoder_block_out_channels": (16, 32, 32, 64), "layers_per_block": (1, 1, 1, 1, 1),
     "decoder_layers_per_block": (1, 1, 1, 1, 1)}, (1, 3, 9, 64, 64), (1, 8, 2, 2, 2)),
    ("mochi", "AutoencoderKLMochi", {"latent_channels": 4, "encoder_block_out_channels": (32, 32, 32, 32),
     "decoder_block_out_channels": (32, 32, 32, 32), "layers_per_block": (1, 1, 1, 1, 1), "out_channels": 3,
     "in_channels": 15, "act_fn": "silu"}, None, (1, 4, 2, 4, 4)),
    ("cosmos", "AutoencoderKLCosmos", {"latent_channels": 4, "encoder_block_out_channels": (16, 32, 32, 64),
     "decode_block_out_channels": (16, 32, 32, 64), "attention_resolutions": (8,), "resolution": 64, "num_layers": 1,
     "patch_size": 4, "patch_type": "haar", "spatial_compression_ratio": 4, "temporal_compression_ratio": 4},
     (1, 3, 9, 32, 32), (1, 4, 3, 8, 8)),
    ("magvit", "AutoencoderKLMagvit", {"latent_channels": 4, "block_out_channels": [32, 32, 64, 64], "layers_per_block": 1,
     "norm_num_groups": 16}, (1, 3, 9, 64, 64), (1, 4, 2, 8, 8)),
    ("oobleck", "AutoencoderOobleck", {"encoder_hidden_size": 32, "downsampling_ratios": [2, 4, 4], "channel_multiples":
     [1, 2, 4], "decoder_channels": 32, "decoder_input_channels": 16, "audio_channels": 2}, (1, 2, 2048), (1, 16, 64)),
]


def temporal(config, shape):
    """Stable Video Diffusion's decoder: frames, and how many are of one clip."""
    import diffusers
    import torch
    from .wrap import Flat
    net = diffusers.AutoencoderKLTemporalDecoder(**config)
    return (Flat(net, lambda net, z: net.decode(z, num_frames=shape[0], return_dict=False)), {"latent": torch.randn(shape)})


def network(name, maker, arguments):
    return Entry("diffusers", name, maker, arguments, gpu_batch=1)


ENTRIES = ([network(name, denoiser, (cls, config, inputs)) for name, cls, config, inputs in DENOISERS]
           + [network("pixart", pixart, ())]
           + [network("ltx_video", denoiser, ("LTXVideoTransformer3DModel", {
               **BLOCKS, "in_channels": 16, "out_channels": 16, "cross_attention_dim": 128, "caption_channels": 64},
               {"hidden_states": (1, 128, 16), "encoder_hidden_states": TEXT, "timestep": STEP,
                "encoder_attention_mask": ("ones", (1, 20))}, (("num_frames", 2), ("height", 8), ("width", 8))))]
           + [network("flux", flux, ("FluxTransformer2DModel", {
               **HEADS, "patch_size": 1, "in_channels": 16, "num_layers": 1, "num_single_layers": 2,
               "joint_attention_dim": 64, "pooled_projection_dim": 32, "guidance_embeds": False,
               "axes_dims_rope": (8, 12, 12)},
               {"hidden_states": (1, 64, 16), "encoder_hidden_states": (1, 16, 64), "pooled_projections": (1, 32),
                "timestep": ("unit", (1,))}))]
           + [network(name, denoiser if constants is not None else adapter, (cls, config, inputs))
              for name, cls, config, inputs, constants in ADAPTERS]
           + [network("vae_temporal_decoder", temporal, (
               {"block_out_channels": (32, 64), "layers_per_block": 1, "down_block_types": ("DownEncoderBlock2D",) * 2},
               (4, 4, 16, 16)))]
           + [network(f"vae_{name}_{part}", half, (cls, config, part, {"x": shape}))
              for name, cls, config, image, latent in HALVES if name != "temporal"
              for part, shape in (("encoder", image), ("decoder", latent)) if shape])
