"""What is taken from a model's config.json: known sizes and options, each of its kind.

Only these keys reach ``transformers``; all others are left where they are. A key that would bring
other code, weights of another format or another computation is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attnverify.inspection.families import require_family
from attnverify.support.errors import InputError, require, shown

REFUSED = ("quantization_config", "compression_config", "auto_map", "trust_remote_code")
REFUSED += ("custom_pipelines", "attn_implementation", "kernel_config", "use_kernels")
REFUSED += ("experts_implementation", "_experts_implementation", "fusion_config")
PREFIX = "_attn_implementation"
WRITTEN = "_attn_implementation_autoset"  # by transformers itself for a while; it says nothing


class Kind(NamedTuple):
    """What a value must be, and that in words; passed: whether it is given to transformers."""

    holds: Callable[[Any], bool]
    words: str
    passed: bool = True


def whole(most: int, least: int = 1) -> Kind:
    words = f"a whole number from {least} to {most}"
    return Kind(lambda v: type(v) is int and least <= v <= most, words)


def number(least: float | int, most: float | int) -> Kind:
    words = f"a number from {least:g} to {most:g}"
    return Kind(lambda v: type(v) in (int, float) and least <= v <= most, words)


def word(*known: str) -> Kind:
    return Kind(lambda v: isinstance(v, str) and v in known, f"one of {', '.join(known)}")


def optional(kind: Kind) -> Kind:
    return Kind(lambda v: v is None or kind.holds(v), f"{kind.words}, or null")


def listed(kind: Kind, most: int) -> Kind:
    def holds(v: Any) -> bool:
        return isinstance(v, list) and len(v) <= most and all(map(kind.holds, v))

    return Kind(holds, f"a list of at most {most}, each {kind.words}")


def only(value: Any) -> Kind:
    """The only value of an option with which the adapters describe the model correctly."""
    return Kind(lambda v: type(v) is type(value) and v == value, f"{value!r} alone", passed=False)


FLAG = Kind(lambda v: type(v) is bool, "true or false")
ORDER = FLAG._replace(passed=False)  # of operations that give the same numbers
#: Sizes above those of published models, at which a model without weights is still made at once.
LAYERS, HEADS = whole(512), whole(1024)
WIDTH, INNER, HEAD = whole(2**16), whole(2**19), whole(2**13)
VOCABULARY, POSITIONS = whole(2**22), whole(2**24)
EPSILON = number(0, 1)
ACTIVATIONS = (
    *("gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python"),
    *("gelu_pytorch_tanh", "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6"),
    *("sigmoid", "silu", "swish", "tanh"),
)
ACTIVATION = word(*ACTIVATIONS)
TYPES = word("default", "linear", "dynamic", "yarn", "longrope", "llama3")
ROTARY = {
    **{"rope_type": TYPES, "type": TYPES, "rope_theta": number(1, 1e12)},
    **{"factor": number(1, 1e6), "partial_rotary_factor": number(0, 1)},
    **{"original_max_position_embeddings": POSITIONS, "truncate": FLAG},
    **dict.fromkeys(("short_factor", "long_factor"), listed(number(1e-6, 1e6), 2**13)),
    **dict.fromkeys(("low_freq_factor", "high_freq_factor", "beta_fast"), number(1e-6, 1e6)),
    **dict.fromkeys(("beta_slow", "mscale", "mscale_all_dim"), number(1e-6, 1e6)),
    "attention_factor": optional(number(1e-6, 1e6)),
}


def _rotary(v: Any) -> bool:
    known = isinstance(v, dict) and all(name in ROTARY for name in v)
    return known and all(ROTARY[name].holds(value) for name, value in v.items())


SCALING = optional(Kind(_rotary, f"an object of numbers with keys among {', '.join(ROTARY)}"))
KINDS = ("full_attention", "sliding_attention")
TYPED = f"{SCALING.words.removesuffix(', or null')}, or one for each of {', '.join(KINDS)}"


def _rotary_by_type(v: Any) -> bool:
    """Options of all layers, or of each of their types."""
    typed = isinstance(v, dict) and 0 < len(v) and set(v) <= set(KINDS)
    return all(map(SCALING.holds, v.values())) if typed else SCALING.holds(v)


SIZES = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
}


def _labels(v: Any) -> bool:
    known = isinstance(v, dict) and set(v) == {str(i) for i in range(len(v))}
    return known and 1 <= len(v) <= 2**16 and all(isinstance(name, str) for name in v.values())


LABELS = {"id2label": Kind(_labels, "names of classes under 0, 1, 2, ... in order")}
ANY = {
    **LABELS,
    "tie_word_embeddings": FLAG,
    "is_causal": only(True),
    "add_cross_attention": only(False),
}
WORDS = {**ANY, "pad_token_id": optional(whole(2**22, -1))}
TEXT = {**SIZES, **WORDS, "vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS}
ENCODER = {
    **TEXT,
    "type_vocab_size": whole(2**10),
    "hidden_act": ACTIVATION,
    "layer_norm_eps": EPSILON,
    "is_decoder": FLAG,
    "position_embedding_type": only("absolute"),
}
ROBERTA = {**ENCODER, "pad_token_id": whole(2**22, 0)}
ROTATED = {
    **TEXT,
    "hidden_act": ACTIVATION,
    "rope_theta": number(1, 1e12),
    "rope_scaling": SCALING,
    "rope_parameters": SCALING,
}
GROUPED = {**ROTATED, "num_key_value_heads": optional(HEADS)}
LLAMA = {**GROUPED, "rms_norm_eps": EPSILON, "head_dim": optional(HEAD)}
FIXED_BY_FALCON = ("hidden_act", "intermediate_size")
WINDOW = {"sliding_window": optional(whole(2**31))}
ROUTED = {"num_local_experts": whole(2**12), "num_experts_per_tok": whole(2**8)}
LAYER_TYPES = {"layer_types": optional(listed(word(*KINDS), 512))}
QWEN = {
    **LLAMA,
    **WINDOW,
    **LAYER_TYPES,
    "use_sliding_window": FLAG,
    "max_window_layers": whole(1024, 0),
}
CAP = optional(number(1e-3, 1e6))
GEMMA = {**LLAMA, "head_dim": HEAD, "attention_bias": FLAG}
GEMMA |= {"use_bidirectional_attention": optional(FLAG)}
GEMMA2 = {**GEMMA, **WINDOW, **LAYER_TYPES, "hidden_activation": ACTIVATION}
GEMMA2 |= {"query_pre_attn_scalar": whole(2**20), "final_logit_softcapping": CAP}
#: By family: every key that is read, and what its value must be.
KEYS: dict[str, dict[str, Kind]] = {
    "afmoe": {
        **{**LLAMA, **WINDOW, **LAYER_TYPES, "attention_bias": FLAG, "mup_enabled": FLAG},
        **{"moe_intermediate_size": INNER, "num_dense_layers": whole(512, 0)},
        **{"num_experts": whole(2**12), "num_experts_per_tok": whole(2**8)},
        **{"num_shared_experts": only(1)._replace(passed=True), "route_scale": number(0, 1e6)},
        "global_attn_every_n_layers": whole(512),
    },
    "albert": {
        **ENCODER,
        "embedding_size": WIDTH,
        "num_hidden_groups": LAYERS,
        "inner_group_num": LAYERS,
    },
    "bert": ENCODER,
    "bloom": {
        **WORDS,
        **{"hidden_size": WIDTH, "n_head": HEADS, "n_layer": LAYERS, "vocab_size": VOCABULARY},
        **{"layer_norm_epsilon": EPSILON, "apply_residual_connection_post_layernorm": FLAG},
        "slow_but_exact": only(False),
    },
    "distilbert": {
        **WORDS,
        **{"dim": WIDTH, "n_heads": HEADS, "n_layers": LAYERS, "hidden_dim": INNER},
        **{"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS},
        "activation": ACTIVATION,
    },
    "falcon": {
        **{name: kind for name, kind in ROTATED.items() if name not in FIXED_BY_FALCON},
        **{"layer_norm_epsilon": EPSILON, "ffn_hidden_size": optional(INNER), "bias": FLAG},
        **{"alibi": FLAG, "new_decoder_architecture": FLAG, "multi_query": FLAG},
        **{"parallel_attn": FLAG, "num_kv_heads": optional(HEADS), "activation": ACTIVATION},
        "num_ln_in_parallel_attn": optional(whole(2)),
    },
    "gemma": GEMMA,
    "gemma2": {**GEMMA2, "attn_logit_softcapping": CAP},
    "gemma3_text": {
        **GEMMA2,
        "attn_logit_softcapping": only(None),
        "sliding_window_pattern": whole(1024),
        "rope_local_base_freq": number(1, 1e12),
        "rope_parameters": Kind(_rotary_by_type, TYPED),
    },
    "gpt2": {
        **WORDS,
        **{"n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS, "n_inner": optional(INNER)},
        **{"vocab_size": VOCABULARY, "n_positions": POSITIONS, "layer_norm_epsilon": EPSILON},
        **{"activation_function": ACTIVATION, "scale_attn_weights": FLAG},
        **{"scale_attn_by_inverse_layer_idx": FLAG, "reorder_and_upcast_attn": ORDER},
    },
    "gpt_neox": {
        **ROTATED,
        **{"layer_norm_eps": EPSILON, "use_parallel_residual": FLAG, "attention_bias": FLAG},
        **{"rotary_pct": number(0, 1), "rotary_emb_base": number(1, 1e12)},
        "partial_rotary_factor": number(0, 1),
    },
    "gpt_oss": {
        **{**QWEN, **ROUTED, "hidden_act": only("silu"), "attention_bias": FLAG},
        **{"swiglu_alpha": number(0, 1e3), "swiglu_limit": number(0, 1e6)},
    },
    "llama": {**LLAMA, "attention_bias": FLAG, "mlp_bias": FLAG},
    "mistral": {**LLAMA, **WINDOW},
    "mixtral": {**LLAMA, **WINDOW, **ROUTED},
    "olmo2": {**LLAMA, "attention_bias": FLAG},
    "opt": {
        **WORDS,
        **{name: kind for name, kind in SIZES.items() if name != "intermediate_size"},
        **{"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "ffn_dim": INNER},
        **{"activation_function": ACTIVATION, "word_embed_proj_dim": optional(WIDTH)},
        **dict.fromkeys(("do_layer_norm_before", "_remove_final_layer_norm"), FLAG),
        **dict.fromkeys(("enable_bias", "layer_norm_elementwise_affine"), FLAG),
    },
    "phi": {
        **GROUPED,
        **{"layer_norm_eps": EPSILON, "qk_layernorm": FLAG},
        "partial_rotary_factor": number(0, 1),
    },
    "phi3": {
        **LLAMA,
        **WINDOW,
        "original_max_position_embeddings": POSITIONS,
        "partial_rotary_factor": number(0, 1),
    },
    "qwen2": QWEN,
    "qwen3": {**QWEN, "attention_bias": FLAG},
    "roberta": ROBERTA,
    "t5": {
        **WORDS,
        **{"d_model": WIDTH, "num_heads": HEADS, "num_layers": LAYERS, "d_ff": INNER},
        **{"d_kv": HEAD, "vocab_size": VOCABULARY, "layer_norm_epsilon": EPSILON},
        "feed_forward_proj": word(*ACTIVATIONS, *(f"gated-{name}" for name in ACTIVATIONS)),
        "relative_attention_num_buckets": whole(2**12, 4),
        "relative_attention_max_distance": whole(2**24),
        "is_decoder": only(False),
    },
    "vit": {
        **SIZES,
        **LABELS,
        **{"hidden_act": ACTIVATION, "layer_norm_eps": EPSILON, "qkv_bias": FLAG},
        **{"image_size": whole(2**14), "patch_size": whole(2**14), "num_channels": whole(2**10)},
    },
    "xlm-roberta": ROBERTA,
}
#: What these sizes are called by a family that has its own names.
NAMES = {
    "bloom": {"heads": "n_head", "layers": "n_layer"},
    "gpt2": {"width": "n_embd", "heads": "n_head", "layers": "n_layer"},
    "distilbert": {"width": "dim", "heads": "n_heads", "layers": "n_layers"},
    "t5": {"width": "d_model", "heads": "num_heads", "layers": "num_layers"},
}
#: Of which class a model without its head is, where it is not AutoModel.
BARE = {"t5": "AutoModelForTextEncoding"}
#: Other names under which a size may stand in config.json.
ALSO = {
    "bloom": {
        **{"n_embed": "hidden_size", "num_attention_heads": "n_head"},
        "num_hidden_layers": "n_layer",
    },
}
USUAL = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
}


def cleaned(body: Any) -> dict[str, Any]:
    """The keys that are read, with ``model_type``; raises InputError (argument ``model``)."""
    require(isinstance(body, dict), "model", f"{shown(body)} as config.json", "a JSON object")
    for key, value in body.items():
        foreign = key in REFUSED or (key.startswith(PREFIX) and key != WRITTEN)
        given = f"{key} in config.json"
        expected = "a folder without it: weights as numbers, and no other code than transformers'"
        require(not foreign or value is None, "model", given, expected)
    family = require_family(body.get("model_type"), "config.json", KEYS)
    kinds, body = KEYS[family], _renamed(body, ALSO.get(family, {}))
    for key, kind in kinds.items():
        if key in body:
            given = f"{key} {shown(body[key])} in config.json"
            require(kind.holds(body[key]), "model", given, kind.words)
    found = {key: body[key] for key, kind in kinds.items() if kind.passed and key in body}
    _require_sizes(family, found)
    return {"model_type": family, **found}


def _renamed(body: dict[str, Any], also: Mapping[str, str]) -> dict[str, Any]:
    """The configuration with sizes under the names that their family has."""
    for other, name in also.items():
        if other in body:
            given = f"{other} {shown(body[other])} and {name} {shown(body.get(name))}"
            same = name not in body or body[name] == body[other]
            require(same, "model", f"{given} in config.json", "one of them, or equal ones")
            body = {**body, name: body[other]}
    return body


def _require_sizes(family: str, found: Mapping[str, Any]) -> None:
    """Sizes that must be stated, and that fit each other."""
    names = {**USUAL, **NAMES.get(family, {})}
    others = ("vocab_size", "num_local_experts", "num_experts", "num_experts_per_tok")
    for name in [*names.values(), *(name for name in others if name in KEYS[family])]:
        require(name in found, "model", f"no {name} in config.json", KEYS[family][name].words)
    width, heads, layers = (found[names[name]] for name in USUAL)
    if found.get("head_dim") is None and "d_kv" not in KEYS[family]:
        _require_divides("the width", width, "heads", heads)
    key_heads = found.get("num_key_value_heads") or found.get("num_kv_heads") or heads
    _require_divides("heads", heads, "key heads", key_heads)
    for name in {"num_local_experts", "num_experts"} & KEYS[family].keys():
        chosen, experts = found["num_experts_per_tok"], found[name]
        given = f"{chosen} of {experts} experts a token in config.json"
        require(chosen <= experts, "model", given, "not more than there are")
    groups, inner = found.get("num_hidden_groups", 1), found.get("inner_group_num", 1)
    given = f"{groups} groups of {inner} for {layers} layers in config.json"
    require(groups <= layers and layers * inner <= 512, "model", given, "at most 512 layers")
    image, patch = found.get("image_size", 224), found.get("patch_size", 16)
    given = f"patches of {patch} in images of {image} in config.json"
    require(patch <= image <= 1024 * patch, "model", given, "1 to 1024 patches a side")
    types = found.get("layer_types")
    if types is not None and len(types) != layers:
        raise InputError(f"model: got {len(types)} layer_types in config.json, expected {layers}")


def _require_divides(whole: str, total: int, parts: str, count: int) -> None:
    given = f"{whole} {total} with {count} {parts} in config.json"
    require(total % count == 0, "model", given, f"{parts} that divide it")
