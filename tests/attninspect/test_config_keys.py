"""Every key of a config.json changed: the folder's model is the one that transformers loads.

The folder is written, and one number of ``inspect`` is compared with the forward pass of the model
that AutoModel loads from the same folder in float64: equal, or refused in one line.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

import attnverify as av
import modelzoo
from attninspect.families import FAMILIES
from attnverify.support.errors import InputError, RunError

IDS = [3, 4, 5, 4, 7, 8]
# Some softmaxes and norms compute in float32: 2^-24 a step, some 100 steps of up to 16 terms.
NEAR = 2.0**-13
ENCODERS = ("albert", "bert", "camembert", "distilbert", "electra", "ernie", "roberta")
ENCODERS += ("xlm-roberta",)
LABELS = {"0": "a", "1": "b", "2": "c"}
#: Keys with values that their kind does not suggest, and keys that no class or another one has.
MORE = {
    "rope_parameters": [
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
        {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0},
        {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
        {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        | {"rope_theta": 100.0, "original_max_position_embeddings": 8},
        {"rope_type": "yarn", "factor": 4.0, "rope_theta": 100.0, "attention_factor": 0.5},
        {"sliding_attention": {"rope_type": "default", "rope_theta": 10.0}}
        | {"full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0}},
    ],
    "rope_scaling": [{"type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 3.0}],
    "rope_theta": [100.0, 0, "x"],
    "layer_types": [
        ["full_attention", "sliding_attention"],
        ["sliding_attention", "full_attention"],
        ["full_attention"],
        ["chunked_attention", "conv"],
    ],
    "sliding_window": [2, 4, None],
    "architectures": [["GPT2LMHeadModel"], ["T5EncoderModel", "BertModel"], "x", []],
    "model_type": ["ministral", "llama", "bert", "qwen2", "no_such_type"],
    "dense_act_fn": ["gelu", "silu"],
    "is_gated_act": [True, False],
    "feed_forward_proj": ["gated-silu", "gelu", "gated-gelu", "other-gelu"],
    "position_embedding_type": ["absolute", "relative_key"],
    "is_causal": [False, True],
    "head_dim": [2, 8, 3, None],
    "num_key_value_heads": [1, 3, 2, 0],
    "pruned_heads": [{"0": [1]}, {}],
    "id2label": [LABELS],
    "num_labels": [3, 0],
    "torch_dtype": ["bfloat16", "float16", "no_such"],
    "dtype": ["bfloat16"],
    "no_rope_layers": [[1, 1], [0, 1], [0]],
    "no_rope_layer_interval": [1, 2, 0],
    "embedding_size": [12, 5],
    "logits_scaling": [3.0],
    "gradient_checkpointing": [True],
    "finetuning_task": ["mrpc"],
    "summary_type": ["mean"],
    "output_past": [True],
    "use_bidirectional_attention": [True],
    "tie_word_embeddings": [True, False],
    "initializer_range": [0.5],
    "per_layer_config": [{"0": {"intermediate_size": 9}}],
    "attribute_map": [{"hidden_act": "initializer_range"}],
    "pretraining_tp": [2],
    "_attn_implementation": ["sdpa"],
    "scale_attn_weights": [False],
}
ACTIVATION = "hidden_act", "hidden_activation", "activation", "activation_function"
BARE = {"t5": "AutoModelForTextEncoding", "mt5": "AutoModelForTextEncoding", "vit": "AutoModel"}


def others(key, value):
    """Values of a key other than the one it has."""
    if key in MORE:
        return MORE[key]
    if key in ACTIVATION:
        return ["relu", "gelu_pytorch_tanh", "sigmoid", "no_such"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value or 1]
    if isinstance(value, float):
        return [2 * value + 0.25]
    if isinstance(value, list):
        return [value[::-1], [*value, *value]]
    return ["x", 2, True]


def cases():
    """The first case of each family, as its config.json states it."""
    transformers = pytest.importorskip("transformers")
    found = {}
    for name, options in modelzoo.CASES.values():
        family = getattr(transformers, name).model_type
        found.setdefault(family, {"model_type": family, **options})
    return found


def variants(body):
    """A configuration with each key of its class, its aliases and MORE changed in turn."""
    import transformers

    kind = transformers.CONFIG_MAPPING[body["model_type"]]
    options = {key: value for key, value in body.items() if key != "model_type"}
    known = json.loads(kind(**options).to_json_string(use_diff=False))
    for key in sorted({*known, *kind.attribute_map, *MORE}):
        values = others(key, body.get(key, known.get(kind.attribute_map.get(key, key))))
        for value in values if key in known else values[:1]:
            yield key, value


def auto_of(config):
    """The class with a head that gives a logit, or without one where there is none."""
    import transformers

    causal = config.model_type not in ENCODERS or getattr(config, "is_decoder", False)
    name = BARE.get(config.model_type, f"AutoModelFor{'CausalLM' if causal else 'MaskedLM'}")
    return getattr(transformers, name)


def own_number(place: Path, body) -> tuple[dict, float] | None:
    """The folder written with weights, a number of its model, and that number by transformers.

    None where transformers has no such model, or one of its default size, many billions of numbers.
    """
    import transformers

    file = place / "config.json"
    file.write_text(json.dumps(body))
    try:
        config = transformers.AutoConfig.from_pretrained(place)
        if config.hidden_size > 100:
            return None
        torch.manual_seed(0)
        auto = auto_of(config)
        modelzoo.shaken(auto.from_config(config)).float().save_pretrained(place)
        file.write_text(json.dumps(body))
        model = auto.from_pretrained(place, dtype=torch.float64)
        if hasattr(model.config, "num_experts_per_tok"):
            model.set_experts_implementation("eager")  # the others take no float64
        model.config.use_cache = False
        with torch.no_grad():
            output = model(ids_or_pixels(body))
            first = getattr(output, "logits", output[0])
    except Exception:
        return None
    number = "coordinate" if config.model_type in BARE else "logit"
    return {number: 3}, float(first[0, -1, 3])


def ids_or_pixels(body):
    pixels = body["model_type"] == "vit"
    return modelzoo.inputs("vit", batch=1).double() if pixels else torch.tensor([IDS])


def outcome(place: Path, body) -> str:
    """Of one configuration: equal, refused, wrong or not a model of transformers."""
    own = own_number(place, body)
    number, expected = own or ({"coordinate": 3}, None)
    try:
        found = av.inspect(place, ids_or_pixels(body), scalar=number, brief=True).scalar["value"]
    except (InputError, RunError) as error:
        assert "\n" not in str(error) and len(str(error)) < 1200, str(error)
        return "refused" if own else "no model, refused"
    if expected is None:
        return "no model"
    return "equal" if abs(found - expected) <= NEAR * max(1, abs(expected)) else "wrong"


#: What published folders hold beside the sizes of their models, by the name of one of them.
PUBLISHED = json.loads(Path(__file__).with_name("published_configs.json").read_text())


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_of_published_folders(name, tmp_path):
    """Old ones and those of trainers, which no class reads, stand in the way of nothing."""
    body = PUBLISHED[name]
    assert outcome(tmp_path, {**cases()[body["model_type"]], **body}) == "equal"


#: Those that went wrong: Ministral, the activation of T5 beside its name, and sizes in other words.
WRONG = [
    ("mistral", {"layer_types": ["full_attention", "sliding_attention"]}, "refused"),
    ("t5", {"feed_forward_proj": "relu", "dense_act_fn": "gelu"}, "equal"),
    ("mistral", {"pretraining_tp": 2, "sliding_window": 2}, "equal"),
    ("smollm3", {"no_rope_layers": [0, 1]}, "equal"),
    ("bert", {"chunk_size_feed_forward": 2, "return_dict": False, "is_decoder": True}, "equal"),
    ("roberta", {"pad_token_id": None}, "no model, refused"),
    ("falcon", {"num_ln_in_parallel_attn": 2, "head_dim": 2}, "no model, refused"),
    ("olmo3", {"layer_types": ["chunked_attention", "conv"]}, "no model, refused"),
]


@pytest.mark.parametrize(("family", "keys", "expected"), WRONG)
def test_a_model_is_the_one_that_transformers_loads(family, keys, expected, tmp_path):
    assert outcome(tmp_path, {**cases()[family], **keys}) == expected


def test_an_adapter_beside_a_model_is_not_left_out(tmp_path):
    """With PEFT, transformers would add it to the weights."""
    modelzoo.model("gpt2").save_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="^model: got adapter_config.json in .*merge_and_unload"):
        av.inspect(tmp_path, IDS)


@pytest.mark.full  # some 2,800 folders in all, a third of a second each
@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_of_a_family(family, tmp_path, capsys):
    body, counts = cases()[family], Counter[str]()
    for key, value in variants(body):
        found = outcome(tmp_path, {**body, key: value})
        assert found != "wrong", f"{key} {value}"
        counts[found] += 1
    with capsys.disabled():
        print(f"\n{family}: {counts.total()} variants, {dict(counts)}")
    assert counts["equal"] >= 40
