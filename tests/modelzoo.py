"""Small models of every family with random weights, biases and norms included."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn

SMALL = {
    "vocab_size": 23,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**SMALL, "num_attention_heads": 6, "num_key_value_heads": 2}
GPT2 = {"vocab_size": 23, "n_embd": 15, "n_head": 5, "n_layer": 2, "n_positions": 16}
GPT2 |= {"bos_token_id": 1, "eos_token_id": 2}
DISTIL = {"vocab_size": 23, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 17}
BLOOM = {"vocab_size": 23, "hidden_size": 12, "n_layer": 2, "n_head": 3}
FALCON = {
    **{"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"ffn_hidden_size": 17, "max_position_embeddings": 16},
}
SERIES = {**FALCON, "multi_query": False, "parallel_attn": False, "bias": True}
NEW = {**FALCON, "num_attention_heads": 6, "num_kv_heads": 2, "new_decoder_architecture": True}
T5 = {
    **{"vocab_size": 23, "d_model": 12, "d_kv": 5, "d_ff": 17, "num_layers": 2, "num_heads": 3},
    **{"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6},
}
ROUTED = {"num_local_experts": 5, "num_experts_per_tok": 2}
SINKS = {
    **{**GROUPED, **ROUTED, "num_experts_per_tok": 3, "head_dim": 4, "sliding_window": 3},
    "rope_parameters": {
        **{"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "truncate": False},
        "original_max_position_embeddings": 4,
    },
}
AFMOE = {
    **{**GROUPED, "head_dim": 6, "sliding_window": 3, "global_attn_every_n_layers": 2},
    **{"num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2},
    **{"num_shared_experts": 1, "moe_intermediate_size": 7, "route_scale": 1.5},
}
ONE = {**SMALL, "num_attention_heads": 1, "num_key_value_heads": 1}
GEMMA = {"head_dim": 4, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]}
OPT = {k: v for k, v in SMALL.items() if k != "intermediate_size"} | {"ffn_dim": 17}
PIXELS = {k: v for k, v in SMALL.items() if k not in ("vocab_size", "max_position_embeddings")}

#: Name to (class of the configuration, its options).
CASES = {
    "afmoe": ("AfmoeConfig", {**AFMOE, "mup_enabled": True}),
    "afmoe, dense, biases": (
        "AfmoeConfig",
        {**AFMOE, "num_dense_layers": 2, "attention_bias": True},
    ),
    "gpt2": ("GPT2Config", GPT2),
    "gpt2, scaled by depth": (
        "GPT2Config",
        {**GPT2, "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"},
    ),
    "llama": ("LlamaConfig", GROUPED),
    "llama, biases, one head": (
        "LlamaConfig",
        {
            **SMALL,
            "num_attention_heads": 1,
            "num_key_value_heads": 1,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    "bert": ("BertConfig", SMALL),
    "bert, one layer": ("BertConfig", {**SMALL, "num_hidden_layers": 1, "hidden_act": "silu"}),
    "mistral": ("MistralConfig", {**GROUPED, "sliding_window": 3, "head_dim": 4}),
    "qwen2": ("Qwen2Config", {**GROUPED, "num_key_value_heads": 3}),
    "qwen3": ("Qwen3Config", {**GROUPED, "num_key_value_heads": 1, "head_dim": 4}),
    "gpt_neox": ("GPTNeoXConfig", SMALL),
    "gpt_neox, in series": (
        "GPTNeoXConfig",
        {**SMALL, "use_parallel_residual": False, "attention_bias": False},
    ),
    "phi": ("PhiConfig", {**SMALL, "num_key_value_heads": 1, "partial_rotary_factor": 0.5}),
    "phi, norms of heads": ("PhiConfig", {**SMALL, "qk_layernorm": True}),
    "roberta": ("RobertaConfig", SMALL),
    "xlm-roberta": ("XLMRobertaConfig", {**SMALL, "pad_token_id": 1}),
    "camembert": ("CamembertConfig", {**SMALL, "pad_token_id": 1}),
    "electra": ("ElectraConfig", SMALL),
    "electra, narrow": ("ElectraConfig", {**SMALL, "embedding_size": 5}),
    "ernie": ("ErnieConfig", {**SMALL, "use_task_id": True}),
    "distilbert": ("DistilBertConfig", DISTIL),
    "albert": ("AlbertConfig", {**SMALL, "embedding_size": 5, "num_hidden_layers": 3}),
    "albert, groups": (
        "AlbertConfig",
        {**SMALL, "embedding_size": 5, "num_hidden_layers": 4, "num_hidden_groups": 2},
    ),
    "bloom": ("BloomConfig", BLOOM),
    "bloom, stream normalized": (
        "BloomConfig",
        {**BLOOM, "apply_residual_connection_post_layernorm": True},
    ),
    "falcon": ("FalconConfig", FALCON),
    "falcon, in series": ("FalconConfig", SERIES),
    "falcon, alibi": ("FalconConfig", {**SERIES, "alibi": True}),
    "falcon, grouped": ("FalconConfig", {**NEW, "bias": True}),
    "falcon, grouped, one norm": ("FalconConfig", {**NEW, "num_ln_in_parallel_attn": 1}),
    "mixtral": ("MixtralConfig", {**GROUPED, **ROUTED}),
    "mixtral, one expert": (
        "MixtralConfig",
        {**SMALL, **ROUTED, "num_key_value_heads": 1, "num_experts_per_tok": 1},
    ),
    "gpt_oss": ("GptOssConfig", SINKS),
    "gpt_oss, clamped": ("GptOssConfig", {**SINKS, "swiglu_limit": 0.5, "attention_bias": False}),
    "t5": ("T5Config", T5),
    "t5, gated": ("T5Config", {**T5, "feed_forward_proj": "gated-gelu"}),
    "mt5": ("MT5Config", T5),
    "gemma": ("GemmaConfig", {**GROUPED, "head_dim": 4}),
    "gemma, biases, one head": (
        "GemmaConfig",
        {**ONE, "head_dim": 6, "attention_bias": True, "hidden_act": "gelu_pytorch_tanh"},
    ),
    # Scores here are some 10, so a cap of 3 matters.
    "gemma2": (
        "Gemma2Config",
        {**GROUPED, **GEMMA, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 5},
    ),
    "gemma2, biases, no cap": (
        "Gemma2Config",
        {**SMALL, **GEMMA, "num_key_value_heads": 1, "attention_bias": True}
        | {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3": ("Gemma3TextConfig", {**GROUPED, **GEMMA, "query_pre_attn_scalar": 5}),
    "gemma3, biases, two ways": (
        "Gemma3TextConfig",
        {**SMALL, **GEMMA, "num_key_value_heads": 3, "attention_bias": True}
        | {"use_bidirectional_attention": True, "sliding_window": 6},
    ),
    "olmo2": ("Olmo2Config", GROUPED),
    "olmo2, biases": ("Olmo2Config", {**SMALL, "num_key_value_heads": 1, "attention_bias": True}),
    "olmo3": ("Olmo3Config", {**GROUPED, "sliding_window": 3, "layer_types": GEMMA["layer_types"]}),
    "smollm3": ("SmolLM3Config", {**GROUPED, "no_rope_layers": [1, 0]}),
    "opt": ("OPTConfig", OPT),
    "opt, norms after, narrow": (
        "OPTConfig",
        {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 5},
    ),
    "opt, no biases, narrow": (
        "OPTConfig",
        {**OPT, "enable_bias": False, "layer_norm_elementwise_affine": False}
        | {"word_embed_proj_dim": 7, "activation_function": "gelu"},
    ),
    "phi3": ("Phi3Config", GROUPED),
    "phi3, part rotated": (
        "Phi3Config",
        {**SMALL, "num_key_value_heads": 1, "sliding_window": 3}
        | {"rope_parameters": {"partial_rotary_factor": 0.5, "rope_type": "default"}},
    ),
    "vit": ("ViTConfig", {**PIXELS, "image_size": 8, "patch_size": 4}),
}

#: A vocabulary for models of this folder, one word a line in vocab.txt.
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "path", "##s", "are", "short", "."]
MORE_WORDS = [*WORDS, *(f"word{i}" for i in range(12))]


def saved_bert(folder: Path, **changes):
    """A BERT with random weights, saved in ``folder`` with WORDS as its vocabulary."""
    from transformers import BertConfig, BertModel

    sizes = {
        "vocab_size": len(WORDS),
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 9,
        "initializer_range": 0.4,
    }
    torch.manual_seed(0)
    model = BertModel(BertConfig(**{**sizes, **changes}), add_pooling_layer=False).eval()
    with torch.no_grad():  # biases and norms start at 0 and 1, which would hide mistakes
        for value in model.parameters():
            value += 0.1 * torch.randn(value.shape)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return model


def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight moved: biases and norms start at 0 and 1, which would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in model.parameters():
            value += 0.3 * torch.randn(value.shape, generator=generator)
    return model.eval()


def model(case: str, seed: int = 0, **changes):
    """A model of a case, float32."""
    import transformers  # takes seconds, which only tests of models should pay

    name, options = CASES[case]
    torch.manual_seed(seed)
    config = getattr(transformers, name)(**{**options, **changes})
    auto = "AutoModelForTextEncoding" if name.endswith("T5Config") else "AutoModel"
    made = shaken(getattr(transformers, auto).from_config(config), seed)
    if hasattr(config, "num_experts_per_tok"):
        made.set_experts_implementation("eager")  # the others take no float64
    return made


def headed(case: str, auto: str, seed: int = 0, **changes):
    """A model of a case with a head, float32."""
    import transformers

    name, options = CASES[case]
    torch.manual_seed(seed)
    config = getattr(transformers, name)(**{**options, **changes})
    return shaken(getattr(transformers, auto).from_config(config), seed)


def inputs(case: str, batch: int = 2, tokens: int = 7, seed: int = 0) -> torch.Tensor:
    """Token ids, or pixels for a vision model."""
    generator = torch.Generator().manual_seed(seed)
    if case == "vit":
        return torch.randn(batch, 3, 8, 8, generator=generator)
    return torch.randint(3, 23, (batch, tokens), generator=generator)


def single_norms(model) -> bool:
    """Whether the norms compute in float32 whatever the model's dtype."""
    return hasattr(model.config, "rms_norm_eps") or model.config.model_type in ("t5", "mt5")


def visible(model):
    """The model with the attention that shows its matrices.

    Falcon's with ALiBi is left hidden: the visible one adds the bias twice.
    """
    if hasattr(model.config, "num_experts_per_tok"):
        model.set_experts_implementation("eager")
    if model.config.model_type != "falcon":
        model.set_attn_implementation("eager")
    elif not model.config.alibi:
        model.config._attn_implementation = "eager"
    return model


def loaded(model, folder: Path, dtype=torch.bfloat16):
    """The model as ``transformers`` loads it from a folder of its weights in a dtype."""
    import copy

    copy.deepcopy(model).to(dtype).save_pretrained(folder)
    return type(model).from_pretrained(folder, dtype=dtype)


def reference(model, arguments, dtype=None):
    """The model's own output in ``dtype``, with the attention that shows its matrices."""
    import copy

    own = copy.deepcopy(model)
    own = visible(own if dtype is None else own.to(dtype))
    given = {k: v.to(own.dtype) if v.is_floating_point() else v for k, v in arguments.items()}
    with torch.no_grad():
        return own(**given).last_hidden_state


def encoder(norm_first: bool = False, batch_first: bool = True, **options) -> nn.TransformerEncoder:
    """A stack of torch's own layers."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        12, 3, 17, batch_first=batch_first, norm_first=norm_first, dropout=0.1, **options
    )
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(12), enable_nested_tensor=False)
    return shaken(stack)
