"""What a model's config.json may hold, and the configuration that ``transformers`` makes of it.

All of it is read as ``transformers`` reads it, by the class that AutoConfig picks, so the model of
a folder is the one that AutoModel would load. Refused by name is what brings other code, other
files or weights of another format, and what the adapters do not describe.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from attninspect.families import require_family
from attnverify.support.errors import require, shown

REFUSED = ("quantization_config", "compression_config", "auto_map", "trust_remote_code")
REFUSED += ("custom_pipelines", "attn_implementation", "kernel_config", "use_kernels")
REFUSED += ("experts_implementation", "_experts_implementation", "fusion_config")
REFUSED += ("configuration_files", "transformers_weights", "per_layer_config")
PREFIX = "_attn_implementation"
WRITTEN = "_attn_implementation_autoset"  # by transformers itself for a while; it says nothing
#: Options with the values that the adapters describe. transformers 5 reads the first no more.
ONLY: dict[str, Any] = {
    **{"position_embedding_type": "absolute", "is_causal": True, "add_cross_attention": False},
    **{"slow_but_exact": False, "num_shared_experts": 1},
}
#: What a run returns beside its result, and in which pieces it is made: the numbers are the same.
SAME = {"return_dict": True, "output_hidden_states": False, "output_attentions": False}
SAME |= {"chunk_size_feed_forward": 0}
#: Of these transformers makes modules or names one by one, so many of them would take minutes.
LAYERS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
GROUPS = ("num_hidden_groups", "inner_group_num")  # of layers, each of so many
MOST, LABELS = 512, 2**16
#: Of which class a model without its head is, where it is not AutoModel.
BARE = dict.fromkeys(("t5", "mt5"), "AutoModelForTextEncoding")


def checked(body: Any) -> dict[str, Any]:
    """The configuration, if it may be given to transformers; InputError (``model``) otherwise."""
    require(isinstance(body, dict), "model", f"{shown(body)} as config.json", "a JSON object")
    for key, value in body.items():
        foreign = key in REFUSED or (key.startswith(PREFIX) and key != WRITTEN)
        given = f"{key} in config.json"
        expected = "a folder without it: weights as numbers, and no other code than transformers'"
        require(not foreign or value is None, "model", given, expected)
        good = key not in ONLY or (type(value) is type(ONLY[key]) and value == ONLY[key])
        given = f"{key} {shown(value)} in config.json"
        require(good, "model", given, f"{ONLY.get(key)!r} alone")
    require_family(body.get("model_type"), "config.json")
    counted = (*LAYERS, *GROUPS, "num_labels")
    counts = {key: body[key] for key in counted if type(body.get(key)) is int}
    groups = math.prod(counts.get(key, 1) for key in GROUPS)
    few = max(groups, *(counts.get(key, 0) for key in LAYERS)) <= MOST
    few = few and counts.get("num_labels", 0) <= LABELS
    require(few, "model", f"{counts} in config.json", f"at most {MOST} layers, {LABELS} labels")
    return body


def made(body: dict[str, Any], transformers: ModuleType) -> Any:
    """The configuration that AutoConfig makes of a checked config.json, which it sees alone."""
    with TemporaryDirectory() as place:
        Path(place, "config.json").write_text(json.dumps({**body, **SAME}))
        return transformers.AutoConfig.from_pretrained(place)
