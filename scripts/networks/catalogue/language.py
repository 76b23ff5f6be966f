"""transformers: more encoders, decoders and both together, of three layers of 128 columns."""
from .entry import Entry
from .transformers import TEXT, padded_tokens

HEADED = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA = {**TEXT, **HEADED, "num_key_value_heads": 2, "max_position_embeddings": 64, "use_cache": False}


def encoder(name, config):
    import transformers
    from .wrap import Flat
    net = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**config))
    return (Flat(net, lambda net, ids, mask: net(input_ids=ids, attention_mask=mask).last_hidden_state),
            padded_tokens(2, 24))


def causal(name, config):
    import transformers
    from .wrap import Flat
    stem = name.removesuffix("Text")
    settings = getattr(transformers, f"{name}Config")(**config)
    net = getattr(transformers, f"{stem}LMHeadModel" if hasattr(transformers, f"{stem}LMHeadModel") else f"{stem}ForCausalLM")(settings)
    return (Flat(net, lambda net, ids, mask: net(input_ids=ids, attention_mask=mask, use_cache=False).logits),
            padded_tokens(2, 20))


def translator(name, config):
    """Encoder and decoder, whose tokens are others."""
    import torch
    import transformers
    from .wrap import Flat
    net = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**config))
    return (Flat(net, lambda net, ids, mask, answer: net(input_ids=ids, attention_mask=mask, decoder_input_ids=answer,
                                                         use_cache=False).last_hidden_state),
            {**padded_tokens(2, 20), "answer": torch.randint(3, 1000, (2, 12))})


PLAIN = {**TEXT, "pad_token_id": 0}
ENCODERS = {
    "DistilBert": {"vocab_size": 1000, "dim": 128, "n_layers": 3, "n_heads": 4, "hidden_dim": 512, "pad_token_id": 0},
    "Albert": {**PLAIN, "embedding_size": 64}, "XLMRoberta": {**PLAIN, "max_position_embeddings": 64},
    "Deberta": {**PLAIN, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 32},
    "DebertaV2": {**PLAIN, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 32,
                  "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    "MPNet": PLAIN, "ConvBert": {**PLAIN, "embedding_size": 128}, "SqueezeBert": {**PLAIN, "embedding_size": 128},
    "RoFormer": {**PLAIN, "embedding_size": 128, "max_position_embeddings": 64},
    "MobileBert": {**PLAIN, "embedding_size": 64, "intra_bottleneck_size": 64, "true_hidden_size": 64},
    "ModernBert": {**PLAIN, **HEADED, "cls_token_id": 1, "sep_token_id": 2, "max_position_embeddings": 64,
                   "local_attention": 8, "global_attn_every_n_layers": 3, "attn_implementation": "sdpa"},
    "Funnel": {"vocab_size": 1000, "d_model": 128, "n_head": 4, "d_head": 32, "d_inner": 256, "block_sizes": [1, 1]},
    "XLNet": {"vocab_size": 1000, "d_model": 128, "n_layer": 3, "n_head": 4, "d_inner": 256},
    "Esm": {**PLAIN, "mask_token_id": 3, "position_embedding_type": "rotary", "token_dropout": False},
    "RemBert": {**PLAIN, "input_embedding_size": 64, "output_embedding_size": 64},
    "Ernie": PLAIN,
    "NomicBert": {**PLAIN, "max_position_embeddings": 64},
}
CAUSAL = {
    "Phi": LLAMA, "Phi3": LLAMA, "Qwen3": {**LLAMA, "head_dim": 32}, "Gemma": {**LLAMA, "head_dim": 32},
    "Gemma2": {**LLAMA, "head_dim": 32, "sliding_window": 8}, "Gemma3Text": {**LLAMA, "head_dim": 32, "sliding_window": 8},
    "Olmo2": LLAMA, "StableLm": LLAMA, "Starcoder2": LLAMA, "Cohere": LLAMA, "Granite": LLAMA, "SmolLM3": LLAMA,
    "Nemotron": LLAMA, "Glm4": {**LLAMA, "head_dim": 32}, "Persimmon": {**TEXT, **HEADED, "max_position_embeddings": 64},
    "GPTNeoX": {**TEXT, **HEADED, "max_position_embeddings": 64},
    "GPTNeo": {"vocab_size": 1000, "hidden_size": 128, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
               "attention_types": [[["global", "local"], 1]], "window_size": 8, **HEADED},
    "GPTJ": {"vocab_size": 1000, "n_embd": 128, "n_layer": 3, "n_head": 4, "n_positions": 64, "rotary_dim": 16, **HEADED},
    "OPT": {**{k: v for k, v in TEXT.items() if k != "intermediate_size"}, **HEADED, "ffn_dim": 256,
            "max_position_embeddings": 64, "word_embed_proj_dim": 128},
    "Bloom": {"vocab_size": 1000, "hidden_size": 128, "n_layer": 3, "n_head": 4, **HEADED},
    "Falcon": {**{k: v for k, v in TEXT.items() if k != "intermediate_size"}, **HEADED, "alibi": True},
    "Mpt": {"vocab_size": 1000, "d_model": 128, "n_layers": 3, "n_heads": 4, "max_seq_len": 64},
}
SEQ2SEQ = {"vocab_size": 1000, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 64,
           "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
T5 = {"vocab_size": 1000, "d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
      "decoder_start_token_id": 0}
TRANSLATORS = {"Bart": SEQ2SEQ, "Pegasus": SEQ2SEQ, "Marian": SEQ2SEQ, "T5": T5, "UMT5": {**T5, "feed_forward_proj": "gated-gelu"}}

ENTRIES = [Entry("transformers", name.lower(), maker, (name, config), convolutional=False)
           for maker, models in ((encoder, ENCODERS), (causal, CAUSAL), (translator, TRANSLATORS))
           for name, config in models.items()]
