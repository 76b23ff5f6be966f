"""transformers: language, vision and speech, of small configurations."""
from .entry import Entry

TEXT = {"vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 512}
VISION = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 384,
          "image_size": 96, "patch_size": 16}


def padded_tokens(batch, length):
    """Token numbers, and a mask in which each text of the batch but the first ends early."""
    import torch
    mask = torch.ones(batch, length, dtype=torch.int64)
    for i in range(1, batch):
        mask[i, length - 3 * i:] = 0
    return {"tokens": torch.randint(0, 1000, (batch, length)), "mask": mask}


def encoder(name):
    import transformers
    from .wrap import Flat
    config = getattr(transformers, f"{name}Config")(**TEXT, pad_token_id=0)
    net = getattr(transformers, f"{name}Model")(config)
    return (Flat(net, lambda net, ids, mask: net(input_ids=ids, attention_mask=mask, return_dict=False)),
            padded_tokens(2, 24))


def causal(name, options):
    import transformers
    from .wrap import Flat
    config = getattr(transformers, f"{name}Config")(**dict(options), use_cache=False, bos_token_id=1, eos_token_id=2)
    net = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config)
    return (Flat(net, lambda net, ids, mask: net(input_ids=ids, attention_mask=mask, use_cache=False).logits),
            padded_tokens(2, 20))


def t5(length):
    import transformers
    from .wrap import Flat
    net = transformers.T5EncoderModel(transformers.T5Config(vocab_size=1000, d_model=128, d_kv=32, d_ff=256, num_layers=3,
                                                            num_heads=4))
    return (Flat(net, lambda net, ids, mask: net(input_ids=ids, attention_mask=mask, return_dict=False)),
            padded_tokens(2, length))


def vision(name, options):
    import transformers
    from .wrap import Flat, image
    net = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**dict(options)))
    return Flat(net, lambda net, x: net(pixel_values=x, return_dict=False)), image(dict(options)["image_size"], batch=2)


def segformer(size):
    import transformers
    from .wrap import Flat, image
    net = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=5))
    return Flat(net, lambda net, x: net(pixel_values=x).logits), image(size)


def clip():
    import torch
    import transformers
    from .wrap import Flat
    text = {**TEXT, "max_position_embeddings": 24, "projection_dim": 64, "bos_token_id": 0, "eos_token_id": 999}
    net = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config={**VISION, "projection_dim": 64},
                                                         projection_dim=64))
    tokens = torch.randint(1, 999, (2, 24))
    tokens[:, -3] = 999
    return (Flat(net, lambda net, ids, x: [net(input_ids=ids, pixel_values=x)[k] for k in
                                           ("logits_per_image", "text_embeds", "image_embeds")]),
            {"tokens": tokens, "image": torch.randn(2, 3, 96, 96)})


def whisper():
    import torch
    import transformers
    from .wrap import Flat
    config = transformers.WhisperConfig(vocab_size=1000, d_model=96, encoder_layers=2, decoder_layers=2,
                                        encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=256,
                                        decoder_ffn_dim=256, max_source_positions=100, num_mel_bins=80, pad_token_id=0,
                                        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    net = transformers.WhisperModel(config).encoder
    return Flat(net, lambda net, x: net(x, return_dict=False)), {"spectrum": torch.randn(1, 80, 200)}


def wav2vec():
    import torch
    import transformers
    from .wrap import Flat
    net = transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(**TEXT, conv_dim=(64,) * 7, num_conv_pos_embeddings=16,
                                                                 num_conv_pos_embedding_groups=4))
    return Flat(net, lambda net, x: net(x).last_hidden_state), {"sound": torch.randn(1, 8000)}


GPT2 = (("vocab_size", 1000), ("n_embd", 128), ("n_layer", 3), ("n_head", 4), ("n_positions", 64))
LLAMA = (*TEXT.items(), ("num_key_value_heads", 2), ("max_position_embeddings", 64))

ENTRIES = (
    [Entry("transformers", name.lower(), encoder, (name,), convolutional=False)
     for name in ("Bert", "Roberta", "Electra")]
    + [Entry("transformers", name.lower(), causal, (name, options), convolutional=False)
       for name, options in (("GPT2", GPT2), ("Llama", LLAMA), ("Mistral", LLAMA), ("Qwen2", LLAMA))]
    + [Entry("transformers", "t5_encoder", t5, (20,), convolutional=False),
       Entry("transformers", "vit", vision, ("ViT", tuple(VISION.items())), convolutional=False),
       Entry("transformers", "dinov2", vision, ("Dinov2", tuple(VISION.items())), convolutional=False),
       Entry("transformers", "segformer_b0", segformer, (128,), convolutional=False),
       Entry("transformers", "clip", clip, convolutional=False),
       Entry("transformers", "whisper_encoder", whisper, convolutional=False),
       Entry("transformers", "wav2vec2", wav2vec, convolutional=False)])
