"""No forged instance gives a verdict: names, ranks and lengths are those the check makes itself."""

import json

import pytest
import torch

from attnverify.chapters import registry
from attnverify.checking import sampling
from attnverify.checking.ball_comparison import compare
from attnverify.checking.certify import certify
from attnverify.checking.check import Inequality
from attnverify.checking.instance_shapes import require_instance, signature
from attnverify.checking.search import Settings
from attnverify.support.errors import InputError
from attnverify.support.seeds import generator
from attnverify.verification import certificate_export, replay

CHECKS = {id: registry.checks_of(id) for id in registry}

INEQUALITIES = [
    pytest.param(check, id=f"{id}/{name}")
    for id, checks in CHECKS.items()
    for name, check in checks.items()
    if isinstance(check, Inequality)
]
REGISTRY = pytest.mark.parametrize("check", INEQUALITIES)
SOME = pytest.mark.parametrize("check", INEQUALITIES[::40])  # what is asked of all alike


def made(check, index=0):
    """An instance of the check's own making."""
    free = sampling.parameters(check.sizes[index], 1, generator(0, "forge"), spread=False)
    return sampling.single(check.build(**free), 0)


def stretched(instance, at, length):
    """The instance with the lengths ``at`` (array, axis) changed to ``length`` by repetition."""
    out = dict(instance)
    for name, axis in at:
        entries = torch.arange(length) % out[name].shape[axis]
        out[name] = out[name].index_select(axis, entries)
    return out


def axes(check):
    return {(n, i): length for n, ls in signature(check).items() for i, length in enumerate(ls)}


@REGISTRY
def test_what_the_check_makes_is_accepted(check):
    for index in range(len(check.sizes)):
        require_instance(check, made(check, index))
    for owner in (check, *(twin.check for twin in check.twins)):
        for make in owner.extremal:
            require_instance(owner, make())


@SOME
def test_a_missing_or_an_added_name_is_refused(check):
    instance = made(check)
    for name, value in instance.items():
        rest = {k: v for k, v in instance.items() if k != name}
        with pytest.raises(InputError, match=f"^{name}: got no array"):
            compare(check, rest)
        with pytest.raises(InputError, match=f"^{name}: got no array"):
            compare(check, {**rest, name + "_": value})
    with pytest.raises(InputError, match="^forged: got an array"):
        compare(check, {**instance, "forged": torch.zeros(1, dtype=torch.float64)})


@SOME
def test_a_wrong_rank_is_refused(check):
    instance = made(check)
    for name, value in instance.items():
        lower = [value[0], value.flatten()[0]] if value.ndim else []
        for wrong in (value[None], value[..., None], *lower):
            with pytest.raises(InputError, match=f"^{name}: got shape"):
                compare(check, {**instance, name: wrong})


@REGISTRY
def test_lengths_that_must_be_equal_or_are_fixed_are_held_to_it(check):
    """Every single length changed alone, to one more, twice as much, and to a broadcast 1."""
    instance = made(check)
    letters = [length.letter for length in axes(check).values()]
    for (name, axis), length in axes(check).items():
        given = instance[name].shape[axis]
        for other in {given + 1, 2 * given, 1} - {given}:
            forged = stretched(instance, [(name, axis)], other)
            alone = not length.fixed and letters.count(length.letter) == 1
            if alone and other >= length.least:
                require_instance(check, forged)
                continue
            with pytest.raises(InputError, match="got shape .*expected shape"):
                compare(check, forged)


@REGISTRY
def test_a_free_length_changes_with_all_its_equals_and_not_below_the_smallest(check):
    instance, found = made(check), axes(check)
    for letter in {length.letter for length in found.values() if not length.fixed}:
        same = [at for at, length in found.items() if length.letter == letter]
        if not {name for name, axis in same if axis == 0} & {few for few, _ in check.divides}:
            require_instance(check, stretched(instance, same, 70))
        least = found[same[0]].least
        if least > 1:
            with pytest.raises(InputError, match="got shape"):
                compare(check, stretched(instance, same, least - 1))


@REGISTRY
def test_sizes_tell_independent_lengths_apart(check):
    """No two letters whose lengths differ by a constant, or by a factor, wherever they are made.

    Such lengths may depend on each other in a way that the signature does not see.
    """
    instances = [made(check, i) for i in range(len(check.sizes))] + [m() for m in check.extremal]
    free = {length.letter: at for at, length in axes(check).items() if not length.fixed}
    lengths = {k: [x[name].shape[axis] for x in instances] for k, (name, axis) in free.items()}
    for one, a in lengths.items():
        for other, b in lengths.items():
            if one < other:
                pairs = list(zip(a, b, strict=True))
                assert len({x - y for x, y in pairs}) > 1, (one, other, pairs)
                assert len({x / y for x, y in pairs}) > 1, (one, other, pairs)


@REGISTRY
def test_arrays_that_build_did_not_make_refute_nothing(check):
    """Any numbers in arrays of the right shapes: what build ensures, the hypotheses must ask."""
    random = generator(0, "any numbers")
    for scale in (0.3, 1.0, 3.0):
        instance = {
            name: scale * torch.randn(value.shape, generator=random, dtype=torch.float64)
            for name, value in made(check).items()
        }
        assert compare(check, instance).outcome != "fail"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.tensor([0, 1]), "u: got torch.int64"),
        ([0.0, 1.0], "u: got list"),
        (torch.tensor([0.0, torch.nan]), "u: got 1 NaN"),
        (torch.tensor([0.0, torch.inf]), "u: got 1 NaN or infinite"),
    ],
)
def test_only_finite_floats_are_compared(value, message):
    check = CHECKS["softmax.total-variation"]["variation"]
    with pytest.raises(InputError, match=message):
        compare(check, {"u": value, "e": torch.tensor([0.0, 1.0])})


FORGED = {
    "softmax.total-variation/variation": {"u": torch.tensor(0.0), "e": torch.tensor([2.0, -2.0])},
    "norms.diameter/triangle inequality": {"X": torch.ones(2), "Y": torch.ones(3, 3, 1)},
    "localization.asymmetric/xi": {"M": torch.ones(2)},
    "softmax.piecewise-linear/error": {"u": torch.ones(3, 3)},
    "softmax.piecewise-linear/largest mass": {"u": torch.zeros(1)},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_file_is_refused(name, tmp_path):
    """With a right digest, as anyone can make it; the arrays would be another formula."""
    file = tmp_path / "forged.json"
    replay.save(registry.home, file, *name.split("/"), FORGED[name])
    with pytest.raises(InputError, match="got shape .*expected shape"):
        replay.replay(registry, file)


@pytest.mark.parametrize(("keys", "queries"), [(3, 2), (2, 3), (4, 6)])
@pytest.mark.parametrize("name", ["one group", "stored matrices"])
def test_key_heads_that_do_not_divide_query_heads_are_refused(name, keys, queries, tmp_path):
    """Before the formulas see them, which repeat every key head for its query heads."""
    check = CHECKS["modern.grouped-keys"][name]
    assert isinstance(check, Inequality)
    instance, own = made(check, 1), ("W_K", "b_K", "W_V", "b_V")
    for array, value in instance.items():
        if array != "X" and array != "b_O":
            count = keys if array in own else queries
            instance[array] = value[:1].expand(count, *value.shape[1:]).contiguous()
    file = tmp_path / "forged.json"
    replay.save(registry.home, file, "modern.grouped-keys", name, instance)
    words = f"^W_K: got shape .{keys}, .*a first length that divides that of W_Q, {queries}$"
    with pytest.raises(InputError, match=words):
        replay.replay(registry, file)
    with pytest.raises(InputError, match=words):
        certificate_export.write_saved(registry, file, tmp_path / "certificate.json")
    assert not (tmp_path / "certificate.json").exists()


def test_a_forged_extremal_instance_is_refused():
    check = CHECKS["norms.diameter"]["triangle inequality"]
    forged = {"X": torch.ones(2, 2).double(), "Y": torch.ones(1, 2).double()}
    with pytest.raises(InputError, match="Y: got shape"):
        certify(check, Settings(), "t", [forged])


def save_as(file, **changes):
    """A replay file with changes to its body, and the digest that fits them."""
    arrays = {"u": torch.tensor([0.1, 0.0]).double(), "e": torch.tensor([0.3, 0.0]).double()}
    replay.save(registry.home, file, "softmax.total-variation", "variation", arrays)
    body = {**json.loads(file.read_text()), **changes}
    del body["sha256"]
    file.write_text(json.dumps({**body, "sha256": replay._digest(body)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"claim": ["softmax.total-variation"]},
        {"claim": "no.such-claim"},
        {"check": {}},
        {"check": "odds"},
        {"arrays": [1]},
        {"arrays": {"u": 1}},
        {"arrays": {"u": {"shape": 2, "values": []}}},
        {"arrays": {"u": {"shape": [-1], "values": ["0x1p0"]}}},
        {"arrays": {"u": {"shape": [0, 10**30], "values": []}}},
        {"arrays": {"u": {"shape": [3], "values": ["0x1p0"]}}},
        {"arrays": {"u": {"shape": [1], "values": ["0x1p9999"]}}},
        {"arrays": {"u": {"shape": [1], "values": [1]}}},
    ],
)
def test_a_malformed_file_is_refused_in_words(changes, tmp_path):
    file = tmp_path / "forged.json"
    save_as(file, **changes)
    with pytest.raises(InputError, match="got .*expected"):
        replay.replay(registry, file)


@pytest.mark.parametrize("text", ["[" * 100_000, "null", "", '{"format": "x"}', "\x00"])
def test_a_file_of_anything_is_refused_in_words(text, tmp_path):
    file = tmp_path / "forged.json"
    file.write_text(text)
    with pytest.raises(InputError, match="^file: got"):
        replay.replay(registry, file)
