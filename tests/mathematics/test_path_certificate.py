"""A certificate of the largest paths holds for a second program, and an altered one does not."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest
import torch

import attnverify as av
import modelzoo
import recheck_paths
from attnverify.mathematics.path_certificate import certificate
from attnverify.support.errors import InputError
from places import ROOT

TOOL = ROOT / "tools" / "recheck_paths.py"


@pytest.fixture(scope="module")
def body():
    """Of 81 paths, with bounds of few columns, so that nodes are left open."""
    net = av.SelfAttentionNetwork.random(4, 2, 4, skip=True, scale=0.7, seed=0)
    X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = av.paths.largest(net, (1, 2), 5, X=X, columns=4)
    assert found.certified and 1 < found.nodes
    return certificate(found, net, (1, 2), X=X)


@pytest.mark.parametrize(("skip", "columns"), [(True, None), (True, 9), (False, 9)])
def test_certificates_hold(skip, columns):
    net = av.SelfAttentionNetwork.random(4, 3, 6, skip=skip, scale=0.6, seed=1)
    X = torch.randn(3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    C = torch.randn(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = av.paths.largest(net, C, 4, X=X, columns=columns)
    recheck_paths.check(json.loads(json.dumps(certificate(found, net, C, X=X))))
    levels = {len(suffix) for suffix in found.frontier}
    assert levels if columns is None else len(levels) > 1


def less(text: str, factor: float = 0.99) -> str:
    return (factor * float.fromhex(text)).hex()


def smaller_bound(body):
    """Of a node whose energy is known up to rounding, as every node's of the last level is."""
    node = max(body["frontier"], key=lambda node: len(node[0]))
    node[1] = less(node[1])


def other_weight(body):
    body["layers"][1]["heads"][0]["V"][0][0] = (2.0).hex()


def worse_path(body):
    """Another path, with its own contribution, in place of the first: that is unlisted now."""
    net = av.SelfAttentionNetwork.random(4, 2, 4, skip=True, scale=0.7, seed=0)
    X = torch.tensor([[float.fromhex(e) for e in row] for row in body["X"]], dtype=torch.float64)
    more = av.paths.largest(net, (1, 2), 6, X=X)
    body["paths"][0] = list(more.paths[5])
    body["contributions"][0] = more.contributions[5].hex()


ALTERED = {
    "a node left out": (lambda body: body["frontier"].pop(3), "paths end in no node"),
    "a node twice": (lambda body: body["frontier"].append(body["frontier"][3]), "of another"),
    "a child too": (lambda b: b["frontier"].append([[0, *b["frontier"][0][0]], "0x1p9"]), "paths"),
    "a bound smaller": (smaller_bound, "too small"),
    "a contribution": (
        lambda body: body["contributions"].__setitem__(0, less(body["contributions"][0])),
        "contributes something else",
    ),
    "a path left out": (lambda b: (b["paths"].pop(0), b["contributions"].pop(0)), "is larger than"),
    "a worse path": (worse_path, "is larger than|may be larger"),
    "a path twice": (
        lambda b: (b["paths"].append(b["paths"][0]), b["contributions"].append("0x1p0")),
        "paths that are none",
    ),
    "less unseen": (lambda b: b.update(unseen=(0.0).hex()), "larger than what is unseen"),
    "more unseen": (lambda b: b.update(unseen=less(b["unseen"], 1.2)), "may be larger"),
    "less energy": (lambda b: b["energy"].__setitem__(1, less(b["energy"][0])), "energy of all"),
    "more energy": (
        lambda b: b["energy"].__setitem__(0, less(b["energy"][1], 1.01)),
        "energy of all",
    ),
    "an error above all": (
        lambda b: b.update(error=(1e9).hex(), unseen=(1e9).hex()),
        "above a hundredth",
    ),
    "no paths": (lambda b: b.update(paths=[], contributions=[]), "above a hundredth"),
    "another network": (other_weight, "contributes something else"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_certificate_is_rejected(name, body):
    alter, words = ALTERED[name]
    altered = copy.deepcopy(body)
    alter(altered)
    with pytest.raises(recheck_paths.RejectedError, match=words):
        recheck_paths.check(altered)


def test_the_command_needs_nothing_of_the_package(body, tmp_path):
    file = tmp_path / "paths.json"
    for change, code in (
        ({}, 0),
        ({"unseen": (0.0).hex()}, 1),
        ({"unseen": "nan"}, 1),
        ({"paths": 3}, 1),
    ):
        file.write_text(json.dumps({**body, **change}), encoding="utf-8")
        call = [sys.executable, "-I", str(TOOL), str(file)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert done.stdout.startswith(("rejected: ", "The certificate holds.")[1 - code])
    assert "import attnverify" not in TOOL.read_text(encoding="utf-8")


def test_networks_with_more_than_attention_are_refused():
    trace = av.trace(modelzoo.model("bert"), modelzoo.inputs("bert", batch=1))
    found = av.paths.largest(trace, (0, 1), 2)
    with pytest.raises(InputError, match="subject: got maps of tokens beside the attention"):
        certificate(found, trace, (0, 1))
