"""A module as it comes: wrappers and weights that are refused, dtypes, visible attention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from attninspect.load import CONFIG, FLOATS, Folder
from attnverify.support.errors import InputError, require, shown

DTYPES = {
    str(each).removeprefix("torch."): each
    for each in (torch.float32, torch.float64, torch.bfloat16)
}
COARSE_NOTE = (
    "the model runs in bfloat16, of unit roundoff 2^-8: bounds are as wide, so a small mistake of "
    "an adapter would not show, and tokens that differ by less than an eighth count as equal"
)
DEQUANTIZED = "full precision: load it without quantization, or dequantize it (model.dequantize())"
COMPUTED = (
    "a plain weight: torch.nn.utils.parametrize.remove_parametrizations(module, 'weight'), "
    "torch.nn.utils.remove_weight_norm(module) or prune.remove(module, 'weight')"
)
OWN = "its own"  # attention that is no implementation among several
KINDS = {"attn": "attention", "experts": "experts"}  # of which transformers has several


def make_visible(model: Any) -> dict[str, str]:
    """Ask for the implementations that show what they do; the ones that it came with."""
    config: Any = getattr(model, "config", None)
    came = {
        kind: str(getattr(config, f"_{kind}_implementation"))
        for kind in KINDS
        if getattr(config, f"_{kind}_implementation", None) is not None
        and hasattr(model, f"set_{kind}_implementation")
    }
    for each in model.modules():
        part: Any = cast(Any, each)
        if isinstance(part, nn.MultiheadAttention):
            part.register_forward_pre_hook(with_weights, with_kwargs=True)
            part.batch_first = True  # the same function; inputs are turned (Inputs)
        if type(part).__name__ == "GptOssExperts":
            vars(part)["_apply_gate"] = Method(cast(Any, each)._apply_gate)
        if type(part).__name__ == "FalconMLP":  # the layer adds to its result in place
            part.register_forward_hook(lambda module, args, output: output.clone())
        if type(part).__name__ == "FalconAttention" and came.get("attn") != "eager":
            part.register_forward_pre_hook(_added_once, with_kwargs=True)
        if hasattr(part, "reorder_and_upcast_attn"):  # the same function, in the dtype of the run
            cast(Any, each).reorder_and_upcast_attn = False
    if isinstance(model, nn.TransformerEncoder):
        model.use_nested_tensor = False
    choose(model, dict.fromkeys(came, "eager"))
    return came


def choose(model: Any, implementations: Mapping[str, str]) -> None:
    """Set implementations of KINDS; raises InputError for one that the model has not."""
    for kind, name in implementations.items():
        if getattr(model.config, f"_{kind}_implementation") == name:
            continue
        try:
            getattr(model, f"set_{kind}_implementation")(name)
        except ValueError as error:
            given = f"no {name} {KINDS[kind]} ({error})"
            raise InputError(f"model: got {given}, expected it") from error
        if model.config.model_type == "falcon":  # its setter does nothing
            model.config._attn_implementation = name


class Method(nn.Module):
    """A method in the place of itself, which hooks can look at."""

    def __init__(self, method: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = method


def _added_once(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Take ALiBi out of Falcon's mask, of a model whose own attention does not add it once more.

    A bias is 0 or above, what the mask hides is below.
    """
    if kwargs.get("alibi") is None or cast(Any, module).config._attn_implementation != "eager":
        return args, kwargs
    mask = kwargs["attention_mask"]
    return args, {**kwargs, "attention_mask": mask.where(mask < 0, 0.0)}


def forget(model: nn.Module) -> None:
    """Reset rotations that follow the longest text so far: a run must not depend on others."""
    for part in model.modules():
        if getattr(part, "rope_type", None) == "dynamic":
            start: Any = part.original_inv_freq
            part.register_buffer("inv_freq", start.clone(), persistent=False)
            part.max_seq_len_cached = part.original_max_seq_len


def precision(dtype: Any) -> torch.dtype | None:
    """A dtype by its name or as torch has it, None as it is; raises InputError."""
    found = DTYPES.get(str(dtype).removeprefix("torch."))
    known = f"one of {', '.join(DTYPES)} or None"
    require(dtype is None or found is not None, "dtype", repr(dtype), known)
    return found


def dtype_of(folder: Folder) -> torch.dtype:
    """What ``transformers`` loads it in: as config.json says, else as its first weight is."""
    config = folder.config
    said = config.get("dtype") or config.get("torch_dtype") or listed(folder.dtypes[:1])
    known = tuple(FLOATS.values())
    require(said in known, "model", f"dtype {shown(said)} in {CONFIG}", f"one of {known}")
    return getattr(torch, said)


def unwrapped(model: Any) -> Any:
    """The model inside ``torch.compile``, a wrapper of distributed training, and PEFT's."""
    inside = dict(model.named_children()) if isinstance(model, nn.Module) else {}
    if len(inside) == 1 and inside.keys() <= {"_orig_mod", "module"}:
        return unwrapped(*inside.values())
    of_peft = type(model).__module__.startswith("peft.")
    return unwrapped(cast(Any, model).get_base_model()) if of_peft else model


def listed(dtypes: Collection[torch.dtype]) -> str:
    return " and ".join(sorted(str(each).removeprefix("torch.") for each in dtypes))


def notes_of(own: Collection[torch.dtype], run: Collection[torch.dtype]) -> tuple[str, ...]:
    """What was cast, and what a coarse dtype comes to."""
    new = max(run, key=lambda each: torch.finfo(each).bits)
    changed = {old: torch.finfo(old).bits < torch.finfo(new).bits for old in own if old not in run}
    notes = [
        f"weights {'promoted' if wider else 'rounded'} from {listed([old])} to {listed([new])}"
        for old, wider in sorted(changed.items(), key=str)
    ]
    return (*notes, *((COARSE_NOTE,) if torch.bfloat16 in run else ()))


def require_bounded(run: Collection[torch.dtype], own: Collection[torch.dtype]) -> None:
    """Raise InputError for float16, and for bfloat16 unless weights are: they would be others."""
    bad = torch.float16 in run or (torch.bfloat16 in run and torch.bfloat16 not in own)
    given = f"{listed(run)} for weights of {listed(own)}"
    expected = '"float32" or "float64", in which its roundings can be bounded'
    require(not bad, "dtype", given, expected)


def require_plain(model: nn.Module) -> None:
    """Raise InputError for weights that are not there as numbers: adapted, computed, packed."""
    for name, part in model.named_modules():
        place = f"{name}, a {type(part).__name__}" if name else f"a {type(part).__name__}"
        adapted = type(part).__module__.startswith("peft.")
        given, merged = f"{place} of peft beside a weight", "merged ones: model.merge_and_unload()"
        require(not adapted, "model", given, merged)
        old = any(hasattr(part, each) for each in ("weight_g", "weight_orig"))
        given = f"{place} whose weight is computed at each run, as by weight_norm"
        require(not (old or is_parametrized(part)), "model", given, COMPUTED)
        weight = getattr(part, "weight", None)
        packed = callable(weight) and not isinstance(weight, Tensor)  # torch.ao.nn.quantized
        if isinstance(weight, Tensor):  # a tensor type of torchao has a dequantize of its own
            own = type(weight).dequantize is not Tensor.dequantize
            packed = own or weight.is_quantized or not weight.is_floating_point()
        given = f"{place} with quantized weights"
        require(not packed and not hasattr(part, "qweight"), "model", given, DEQUANTIZED)
    require(any(True for _ in model.parameters()), "model", "no weights", "a model with some")


def require_numbers(model: nn.Module) -> None:
    """Raise InputError for weights that are not finite floats of a known format."""
    for name, weight in model.named_parameters():
        known = weight.dtype in (torch.float16, *DTYPES.values())
        given = f"{name} of dtype {weight.dtype}"
        require(known, "model", given, "weights of float64, float32, bfloat16 or float16")
        bad = int((~torch.isfinite(weight)).sum())
        require(bad == 0, "model", f"{bad} NaN or infinite entries in {name}", "finite weights")


def with_weights(module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}
