"""What is kept is input: a damaged piece of a campaign is done again, and raises nothing."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnverify.runtime import campaign
from attnverify.runtime.cache import opened, sealed
from attnverify.runtime.tasks import Task
from attnverify.support.errors import InputError

QUIET = settings(max_examples=400, derandomize=True, database=None, deadline=None)


def toy() -> campaign.Campaign:
    result = {"outcome": "pass", "ratio": 0.9, "notes": ["a", "b"]}
    return campaign.Campaign("toy", {}, [Task("a", dict, (result,))])


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
        assert found is None or found == valid

    test()


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
