"""transformers: more networks of vision, of vision with language, and of sound."""
from .entry import Entry
from .transformers import TEXT, VISION


def model(name, config, inputs, picked=(), constants=()):
    """A model of transformers by its class; its configuration's fields may be configurations of other classes."""
    import transformers
    from .named import called

    def built(fields):
        parts = dict(fields)
        cls = parts.pop("config")
        return getattr(transformers, cls)(**{k: built(v) if isinstance(v, dict) and "config" in v else v
                                             for k, v in parts.items()})
    return called(getattr(transformers, name)(built(config)), inputs, dict(constants), picked)


def masked_autoencoder():
    """ViT-MAE: which patches are masked is an input (noise that is sorted)."""
    return model("ViTMAEForPreTraining", {"config": "ViTMAEConfig", **VISION, "decoder_hidden_size": 64,
                                          "decoder_num_hidden_layers": 2, "decoder_num_attention_heads": 4,
                                          "decoder_intermediate_size": 128},
                 {"pixel_values": (1, 3, 96, 96), "noise": ("unit", (1, 36))}, ("logits",))


def sam_decoder():
    """SAM's decoder of masks: embeddings of an image, of points and of masks."""
    import torch
    import transformers
    from .wrap import Flat
    net = transformers.SamModel(transformers.SamConfig(
        vision_config={"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 128},
        mask_decoder_config={"num_hidden_layers": 2})).mask_decoder
    return (Flat(net, lambda net, image, place, sparse, dense: net(image, place, sparse, dense, multimask_output=True)[:2]),
            {"image": torch.randn(1, 256, 8, 8), "place": torch.randn(1, 256, 8, 8), "points": torch.randn(1, 1, 3, 256),
             "masks": torch.randn(1, 256, 8, 8)})


PIXELS = {"pixel_values": (1, 3, 96, 96)}
LAST = ("last_hidden_state",)
BACKBONE = {"config": "ResNetConfig", "embedding_size": 32, "hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 1, 1],
            "layer_type": "basic", "out_features": ["stage4"]}
DETR = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_queries": 10, "num_labels": 5}
OWN = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": BACKBONE}
SWIN = {"config": "SwinConfig", "image_size": 96, "embed_dim": 32, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 4],
        "window_size": 3, "patch_size": 4, "out_features": ["stage1", "stage2", "stage3", "stage4"]}
DINO = {"config": "Dinov2Config", **{k: v for k, v in VISION.items() if k != "patch_size"}, "patch_size": 14, "image_size": 112,
        "out_features": ["stage1", "stage2", "stage3"], "reshape_hidden_states": False, "apply_layernorm": True}
WAVE = {**TEXT, "conv_dim": (64,) * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
SOUND = {"input_values": (1, 8000)}
PAIR = {"input_ids": ("tokens", (2, 20), 999), "pixel_values": (2, 3, 96, 96)}
TEXT_HALF = {**TEXT, "max_position_embeddings": 64, "projection_dim": 64}
WHISPER = {"vocab_size": 1000, "d_model": 96, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
           "decoder_attention_heads": 3, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_source_positions": 100,
           "num_mel_bins": 80, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}

MODELS = [
    ("hf_beit", "BeitModel", {"config": "BeitConfig", **VISION, "use_relative_position_bias": True}, PIXELS, LAST),
    ("hf_deit", "DeiTModel", {"config": "DeiTConfig", **VISION}, PIXELS, LAST),
    ("hf_swin", "SwinModel", SWIN, PIXELS, LAST),
    ("hf_swinv2", "Swinv2Model", {**SWIN, "config": "Swinv2Config"}, PIXELS, LAST),
    ("hf_convnext", "ConvNextModel", {"config": "ConvNextConfig", "hidden_sizes": [32, 64, 96, 128], "depths": [1, 1, 2, 1]},
     PIXELS, LAST),
    ("hf_resnet", "ResNetModel", {**BACKBONE, "layer_type": "bottleneck"}, PIXELS, LAST),
    ("hf_mobilevit", "MobileViTModel", {"config": "MobileViTConfig", "image_size": 96, "hidden_sizes": [32, 48, 64],
     "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96]}, PIXELS, LAST),
    ("hf_levit", "LevitModel", {"config": "LevitConfig", "image_size": 96, "hidden_sizes": [64, 96, 128],
     "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1]}, PIXELS, LAST),
    ("hf_focalnet", "FocalNetModel", {"config": "FocalNetConfig", "image_size": 96, "embed_dim": 32, "depths": [1, 1, 2, 1]},
     PIXELS, LAST),
    ("hf_hiera", "HieraModel", {"config": "HieraConfig", "image_size": [64, 64], "embed_dim": 32, "depths": [1, 1, 1],
     "num_heads": [1, 2, 4], "num_query_pool": 2, "query_stride": [2, 2], "masked_unit_size": [4, 4]},
     {"pixel_values": (1, 3, 64, 64)}, LAST),
    ("hf_pvt_v2", "PvtV2Model", {"config": "PvtV2Config", "image_size": 96, "depths": [1, 1, 1, 1]}, PIXELS, LAST),
    ("hf_swiftformer", "SwiftFormerModel", {"config": "SwiftFormerConfig", "depths": [1, 1, 2, 1], "embed_dims": [32, 48, 64, 96]},
     PIXELS, LAST),
    ("dinov2_registers", "Dinov2WithRegistersModel", {"config": "Dinov2WithRegistersConfig", **VISION, "num_register_tokens": 4},
     PIXELS, LAST),
    ("dinov3_vit", "DINOv3ViTModel", {"config": "DINOv3ViTConfig", **VISION, "num_register_tokens": 4}, PIXELS, LAST),
    ("dinov3_convnext", "DINOv3ConvNextModel", {"config": "DINOv3ConvNextConfig", "hidden_sizes": [32, 64, 96, 128],
     "depths": [1, 1, 2, 1]}, PIXELS, LAST),
    ("ijepa", "IJepaModel", {"config": "IJepaConfig", **VISION}, PIXELS, LAST),
    ("siglip_vision", "SiglipVisionModel", {"config": "SiglipVisionConfig", **VISION}, PIXELS, ("last_hidden_state", "pooler_output")),
    ("siglip", "SiglipModel", {"config": "SiglipConfig", "text_config": {**TEXT, "max_position_embeddings": 64},
     "vision_config": {**VISION, "hidden_size": 128, "num_attention_heads": 4}}, PAIR, ("logits_per_image",)),
    ("clipseg", "CLIPSegForImageSegmentation", {"config": "CLIPSegConfig", "text_config": {**TEXT_HALF, "eos_token_id": 999},
     "vision_config": {**VISION}, "projection_dim": 64, "extract_layers": [1, 2], "reduce_dim": 32, "decoder_intermediate_size": 64},
     {"input_ids": ("tokens", (1, 20), 999), "pixel_values": (1, 3, 96, 96)}, ("logits",)),
    ("owlvit", "OwlViTModel", {"config": "OwlViTConfig", "text_config": {**TEXT, "max_position_embeddings": 20},
     "vision_config": {**VISION}, "projection_dim": 64}, PAIR, ("logits_per_image",)),
    ("vilt", "ViltModel", {"config": "ViltConfig", **TEXT, "image_size": 96, "patch_size": 16, "max_position_embeddings": 40},
     {"input_ids": ("tokens", (1, 20), 999), "pixel_values": (1, 3, 96, 96)}, LAST),
    ("blip_vision", "BlipVisionModel", {"config": "BlipVisionConfig", **VISION}, PIXELS, LAST),
    ("sam_vision", "SamVisionModel", {"config": "SamVisionConfig", "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3,
     "image_size": 128, "global_attn_indexes": [2], "window_size": 4, "output_channels": 64}, {"pixel_values": (1, 3, 128, 128)}, LAST),
    ("vitdet", "VitDetModel", {"config": "VitDetConfig", "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3,
     "image_size": 96, "pretrain_image_size": 96, "window_size": 3, "window_block_indices": [0, 1], "residual_block_indices": [2],
     "use_relative_position_embeddings": True}, PIXELS, LAST),
    ("vitpose", "VitPoseForPoseEstimation", {"config": "VitPoseConfig", "use_simple_decoder": False, "backbone_config": {
     "config": "VitPoseBackboneConfig", "image_size": [96, 64], "hidden_size": 96, "num_hidden_layers": 2,
     "num_attention_heads": 3, "num_experts": 1, "out_indices": [2]}}, {"pixel_values": (1, 3, 96, 64)}, ("heatmaps",)),
    ("yolos", "YolosForObjectDetection", {"config": "YolosConfig", **VISION, "image_size": [96, 96], "num_detection_tokens": 10,
     "num_labels": 5}, PIXELS, ("logits", "pred_boxes")),
    ("detr", "DetrForObjectDetection", {"config": "DetrConfig", **DETR, **OWN}, PIXELS, ("logits", "pred_boxes")),
    ("conditional_detr", "ConditionalDetrForObjectDetection", {"config": "ConditionalDetrConfig", **DETR, **OWN}, PIXELS,
     ("logits", "pred_boxes")),
    ("deformable_detr", "DeformableDetrForObjectDetection", {"config": "DeformableDetrConfig", **DETR, **OWN, "backbone_config":
     {**BACKBONE, "out_features": ["stage2", "stage3", "stage4"]}, "num_feature_levels": 3}, PIXELS, ("logits", "pred_boxes")),
    ("mask2former", "Mask2FormerForUniversalSegmentation", {"config": "Mask2FormerConfig", "backbone_config": SWIN, "hidden_dim": 64,
     "feature_size": 64, "mask_feature_size": 64, "encoder_feedforward_dim": 128, "encoder_layers": 2, "decoder_layers": 3,
     "num_attention_heads": 4, "dim_feedforward": 128, "num_queries": 10, "num_labels": 5, "use_auxiliary_loss": False}, PIXELS,
     ("class_queries_logits", "masks_queries_logits")),
    ("upernet_hf_swin", "UperNetForSemanticSegmentation", {"config": "UperNetConfig", "backbone_config": SWIN, "hidden_size": 64,
     "use_auxiliary_head": False, "num_labels": 5}, PIXELS, ("logits",)),
    ("depth_anything", "DepthAnythingForDepthEstimation", {"config": "DepthAnythingConfig", "backbone_config": DINO, "reassemble_hidden_size": 96, "patch_size": 14,
     "neck_hidden_sizes": [16, 32, 64], "reassemble_factors": [4, 2, 1], "fusion_hidden_size": 32, "head_hidden_size": 16},
     {"pixel_values": (1, 3, 112, 112)}, ("predicted_depth",)),
    ("dpt", "DPTForDepthEstimation", {"config": "DPTConfig", **VISION, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "is_hybrid": False,
     "neck_hidden_sizes": [16, 32, 64, 64], "fusion_hidden_size": 32}, PIXELS, ("predicted_depth",)),
    ("glpn", "GLPNForDepthEstimation", {"config": "GLPNConfig", "depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 64, 96],
     "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 32}, PIXELS, ("predicted_depth",)),
    ("swin2sr_hf", "Swin2SRForImageSuperResolution", {"config": "Swin2SRConfig", "image_size": 32, "embed_dim": 48, "depths": [2, 2],
     "num_heads": [4, 4], "window_size": 8, "upscale": 2}, {"pixel_values": (1, 3, 32, 32)}, ("reconstruction",)),
    ("videomae", "VideoMAEModel", {"config": "VideoMAEConfig", **VISION, "image_size": 64, "num_frames": 4},
     {"pixel_values": (1, 4, 3, 64, 64)}, LAST),
    ("vivit", "VivitModel", {"config": "VivitConfig", **{k: v for k, v in VISION.items() if k != "patch_size"}, "image_size": 64,
     "num_frames": 4, "tubelet_size": [2, 16, 16]}, {"pixel_values": (1, 4, 3, 64, 64)}, LAST),
    ("timesformer", "TimesformerModel", {"config": "TimesformerConfig", **VISION, "image_size": 64, "num_frames": 4},
     {"pixel_values": (1, 4, 3, 64, 64)}, LAST),
    ("vjepa2", "VJEPA2Model", {"config": "VJEPA2Config", "crop_size": 64, "patch_size": 16, "frames_per_clip": 4, "hidden_size": 96,
     "num_attention_heads": 4, "num_hidden_layers": 2, "pred_hidden_size": 64, "pred_num_attention_heads": 4,
     "pred_num_hidden_layers": 2}, {"pixel_values_videos": (1, 4, 3, 64, 64)}, LAST),
    ("hubert", "HubertModel", {"config": "HubertConfig", **WAVE}, SOUND, LAST),
    ("wavlm", "WavLMModel", {"config": "WavLMConfig", **WAVE, "num_buckets": 32, "max_bucket_distance": 64}, SOUND, LAST),
    ("unispeech_sat", "UniSpeechSatModel", {"config": "UniSpeechSatConfig", **WAVE, "do_stable_layer_norm": True,
     "feat_extract_norm": "layer"}, SOUND, LAST),
    ("data2vec_audio", "Data2VecAudioModel", {"config": "Data2VecAudioConfig", **WAVE, "conv_pos_kernel_size": 7,
     "num_conv_pos_embeddings": 3}, SOUND, LAST),
    ("sew", "SEWModel", {"config": "SEWConfig", **WAVE, "conv_dim": (32,) * 7, "conv_stride": (5, 2, 2, 2, 2, 2, 2),
     "conv_kernel": (10, 3, 3, 3, 3, 2, 2)}, SOUND, LAST),
    ("wav2vec2_conformer", "Wav2Vec2ConformerModel", {"config": "Wav2Vec2ConformerConfig", **WAVE}, SOUND, LAST),
    ("wav2vec2_bert", "Wav2Vec2BertModel", {"config": "Wav2Vec2BertConfig", **{k: v for k, v in TEXT.items() if k != "vocab_size"},
     "feature_projection_input_dim": 80}, {"input_features": (1, 60, 80)}, LAST),
    ("audio_spectrogram", "ASTModel", {"config": "ASTConfig", **{k: v for k, v in VISION.items() if k != "image_size"},
     "max_length": 100, "num_mel_bins": 64}, {"input_values": (1, 100, 64)}, LAST),
    ("whisper", "WhisperModel", {"config": "WhisperConfig", **WHISPER}, {"input_features": (1, 80, 200),
     "decoder_input_ids": ("tokens", (1, 12), 999)}, LAST),
    ("speech_to_text", "Speech2TextModel", {"config": "Speech2TextConfig", **WHISPER, "input_feat_per_channel": 80,
     "input_channels": 1, "conv_channels": 96, "max_target_positions": 64}, {"input_features": (1, 120, 80),
     "decoder_input_ids": ("tokens", (1, 12), 999)}, LAST),
    ("moonshine", "MoonshineModel", {"config": "MoonshineConfig", "vocab_size": 1000, "hidden_size": 96, "intermediate_size": 192,
     "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2, "encoder_num_attention_heads": 4,
     "decoder_num_attention_heads": 4}, {"input_values": (1, 8000), "decoder_input_ids": ("tokens", (1, 12), 999)}, LAST),
    ("clap_audio", "ClapAudioModel", {"config": "ClapAudioConfig", "spec_size": 64, "num_mel_bins": 16, "window_size": 4,
     "patch_embeds_hidden_size": 32, "depths": [1, 1, 1], "num_attention_heads": [1, 2, 2], "hidden_size": 128, "patch_size": 4,
     "patch_stride": [4, 4], "projection_dim": 64, "enable_fusion": False, "num_hidden_layers": 3}, {"input_features": (1, 1, 256, 16)},
     LAST),
    ("dac_encoder", "DacModel", {"config": "DacConfig", "encoder_hidden_size": 16, "downsampling_ratios": [2, 4],
     "decoder_hidden_size": 64, "upsampling_ratios": [4, 2], "n_codebooks": 2, "codebook_size": 64, "codebook_dim": 4},
     {"input_values": (1, 1, 1024)}, ("audio_values",)),
    ("univnet", "UnivNetModel", {"config": "UnivNetConfig", "model_hidden_channels": 16, "model_in_channels": 16,
     "num_mel_bins": 20, "kernel_predictor_hidden_channels": 16}, {"input_features": (1, 12, 20), "noise_sequence": (1, 12, 16)},
     ("waveforms",)),
    ("patchtst", "PatchTSTForPrediction", {"config": "PatchTSTConfig", "num_input_channels": 3, "context_length": 64,
     "prediction_length": 16, "patch_length": 8, "patch_stride": 8, "d_model": 64, "num_hidden_layers": 2, "ffn_dim": 128,
     "num_attention_heads": 4, "norm_type": "layernorm", "scaling": "std"}, {"past_values": (2, 64, 3)}, ("prediction_outputs",)),
    ("patchtsmixer", "PatchTSMixerForPrediction", {"config": "PatchTSMixerConfig", "context_length": 64, "prediction_length": 16,
     "num_input_channels": 3, "patch_length": 8, "patch_stride": 8, "d_model": 32, "num_layers": 2}, {"past_values": (2, 64, 3)},
     ("prediction_outputs",)),
    ("decision_transformer", "DecisionTransformerModel", {"config": "DecisionTransformerConfig", "state_dim": 17, "act_dim": 4,
     "hidden_size": 64, "n_layer": 2, "n_head": 4, "max_ep_len": 64}, {"states": (1, 12, 17), "actions": (1, 12, 4),
     "returns_to_go": (1, 12, 1), "timesteps": ("tokens", (1, 12), 60), "attention_mask": ("ones", (1, 12))},
     ("state_preds", "action_preds")),
    ("perceiver", "PerceiverModel", {"config": "PerceiverConfig", "num_latents": 16, "d_latents": 64, "d_model": 48,
     "num_blocks": 1, "num_self_attends_per_block": 2, "num_self_attention_heads": 4, "num_cross_attention_heads": 4},
     {"inputs": (1, 40, 48)}, LAST),
]

CONVOLUTIONAL = {"hf_convnext", "hf_resnet", "dinov3_convnext", "dac_encoder", "univnet"}
ENTRIES = ([Entry("transformers", name, model, (cls, config, inputs, picked), convolutional=name in CONVOLUTIONAL,
                  gpu_batch=1 if name in ("univnet", "decision_transformer", "sam_decoder") else 2)
            for name, cls, config, inputs, picked in MODELS]
           + [Entry("transformers", "vit_mae", masked_autoencoder, convolutional=False, gpu_batch=1),
              Entry("transformers", "sam_mask_decoder", sam_decoder, convolutional=False, gpu_batch=1)])
