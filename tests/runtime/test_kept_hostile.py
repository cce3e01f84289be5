"""What is kept is input: a piece or an entry that was changed is what it was, or is done again.

800 valid entries of the store, each changed in one way and sealed with the right digest, and 400
pieces of a campaign, cut or with one byte changed, go through the functions that read them. A
change to an entry that could have been found so, such as another error of an identity, is taken;
no outcome, check, twin or derivation ever differs from what the run would find.
"""

import copy
import json
import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnverify.checking import gather
from attnverify.checking.search import Settings
from attnverify.derivation import notebook_sources, run_cells
from attnverify.runtime import campaign
from attnverify.runtime.cache import Store, opened, sealed
from attnverify.runtime.tasks import Task
from attnverify.support.errors import InputError, RunError
from attnverify.topics import registry
from attnverify.verification import derived_evidence, reuse

CLAIM = "norms.submultiplicative"  # an inequality and an identity that sample
SMALL = Settings(samples=20, restarts=2, steps=2)
QUIET = settings(max_examples=400, derandomize=True, database=None, deadline=None)
WRONG = [
    None,
    True,
    False,
    "fail",
    -1,
    10**9,
    1e300,
    0.5,
    "x",
    "\ud800",
    [],
    {},
    [[]],
    float("nan"),
    float("inf"),
]
CHANGES = st.tuples(
    st.sampled_from(["leaf", "count", "drop", "double", "extra", "swap", "deep", "whole"]),
    st.integers(0, 2**32),
)
SEEN: Counter = Counter()


def places(value, at=()):
    """Where every part of a piece of JSON stands."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def part(value, at):
    for key in at:
        value = value[key]
    return value


def changed(valid, how: str, seed: int):
    """The valid value with one change, drawn by the seed."""
    draw, value = random.Random(seed), copy.deepcopy(valid)
    if how == "whole":
        return draw.choice([*WRONG, [value], {"result": value}, type(valid)()])
    inner = [at for at in places(value) if at]
    wanted = {"count": int, "double": list, "extra": dict}.get(how, object)
    here = [at for at in inner if type(part(value, at)) is wanted or wanted is object]
    at = draw.choice(here or inner)
    there, key = part(value, at[:-1]), at[-1]
    if how in ("leaf", "count"):
        there[key] = draw.choice(WRONG)
    elif how == "drop":
        del there[key]
    elif how == "double":
        there[key] = there[key] * 2
    elif how == "extra":
        there[key] = {**there[key], "more": 1} if isinstance(there[key], dict) else [there[key]]
    elif how == "swap":
        there[key] = copy.deepcopy(part(value, draw.choice(inner)))
    else:
        there[key] = [[[[there[key]]]]]
    return value


@pytest.fixture(scope="module")
def kept():
    """Tasks with what they find, as the store holds it."""
    task = Task(
        CLAIM,
        gather.gather_from,
        (registry.home, CLAIM, SMALL, ["sampled", "certified", "decided"]),
    )
    source = notebook_sources.load("norms", None)
    proofs = Task("notebook norms", run_cells.run, (source, registry))
    found = [(task, gather.gather_from(*task.arguments)), (proofs, run_cells.run(source))]
    return [(task, json.loads(json.dumps(reuse._value(piece))), piece) for task, piece in found]


def same(one, other) -> bool:
    """Whether two pieces say the same, but for ratios, times and the words beside them."""
    if isinstance(one, run_cells.NotebookRun):
        return one.source == other.source and not one.error and told(one) == told(other)
    keys = ("kind", "check", "outcome", "limits")
    records = [[[getattr(r, k) for k in keys] for r in each.records] for each in (one, other)]
    twins = [[(t.check, t.twin, t.rejected, t.factor) for t in each.twins] for each in (one, other)]
    sampled = [[r.instances for r in e.records if r.kind == "sampled"] for e in (one, other)]
    return records[0] == records[1] and twins[0] == twins[1] and sampled[0] == sampled[1]


def told(done) -> dict:
    """What a notebook's run shows of every claim."""
    claims = dict.fromkeys(entry.claim for entry in done.entries)
    found = {claim: derived_evidence.records(claim, done) for claim in claims}
    return {c: ([r.outcome for r in rs], len(ts)) for c, (rs, ts) in found.items()}


@pytest.mark.parametrize("which", [0, 1])
def test_a_changed_entry_of_the_store_changes_no_evidence(kept, tmp_path, which):
    task, valid, piece = kept[which]
    store, key = Store(tmp_path), {"a": 1}
    assert reuse.read_piece(task, valid, registry) == piece

    @QUIET
    @given(CHANGES)
    def test(change):
        store.put(key, changed(valid, *change))
        found = reuse.read_piece(task, store.get(key), registry)
        SEEN[(task.name, change[0], "again" if found is None else "taken")] += 1
        assert found is None or same(found, piece)
        json.dumps(found and reuse._value(found), allow_nan=False)

    test()
    again = sum(n for (name, _, what), n in SEEN.items() if (name, what) == (task.name, "again"))
    assert again > 200


def toy(possible: campaign.Possible = lambda number, found: True) -> campaign.Campaign:
    result = {"outcome": "pass", "ratio": 0.9, "notes": ["a", "b"]}
    return campaign.Campaign("toy", {}, [Task("a", dict, (result,))], possible)


def test_a_damaged_piece_is_none_and_raises_nothing(tmp_path):
    with campaign.ran(toy(), tmp_path, jobs=1) as results:
        (valid,) = results
    reader = campaign._Pieces(toy(), tmp_path)
    path = reader.path(0)
    whole = path.read_bytes()

    @QUIET
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255), st.booleans())
    def test(place, by, cut):
        changed = whole[:place]
        changed += b"" if cut else bytes([whole[place] ^ by]) + whole[place + 1 :]
        path.write_bytes(changed)
        found = reader.get(0)  # white space and a number's digits beyond a float's say nothing
        SEEN[("bytes", "cut" if cut else "flipped", "again" if found is None else "taken")] += 1
        assert found is None or found == valid

    test()


def test_a_result_that_its_piece_cannot_have_ends_the_run(tmp_path):
    with pytest.raises(RunError, match="^a: got a result that this piece cannot have$"):
        with campaign.ran(toy(lambda k, found: found == "y"), tmp_path, jobs=1):
            pass
    assert not (tmp_path / "000000.json").exists()


DEEP = "[" * 200_000 + "]" * 200_000


@pytest.mark.parametrize("what", ["deep", "a pipe", "a folder", "more fields", "a circle"])
def test_what_is_no_file_of_ours_is_none(tmp_path, what):
    head, path = {"format": "f"}, tmp_path / "file.json"
    if what == "a pipe":  # reading it would wait for a writer
        os.mkfifo(path)
    elif what == "a folder":
        path.mkdir()
    elif what == "a circle":
        path.symlink_to(path)
    else:
        body = {**sealed(head, "value", 1), "more": 2}
        path.write_text(json.dumps(body) if what == "more fields" else f'{{"value": {DEEP}}}')
    assert opened(path, head, "value", 1 << 20) is None


@pytest.mark.parametrize("what", ["deep", "a list", "a pipe", "a folder"])
def test_a_hostile_record_of_a_campaign_is_one_line(tmp_path, what):
    record = tmp_path / campaign.NAME
    if what == "a pipe":
        os.mkfifo(record)
    elif what == "a folder":
        record.mkdir()
    else:
        record.write_text(DEEP if what == "deep" else "[1]")
    with pytest.raises(InputError, match=r"^out: got [^\n]*campaign.json, which is [^\n]*$"):
        with campaign.ran(toy(), tmp_path, jobs=1) as results:
            list(results)
