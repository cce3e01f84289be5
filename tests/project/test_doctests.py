"""Every public name shows how it is used, and its example gives what it shows."""

import doctest
import inspect

import pytest

import attnverify


@pytest.mark.parametrize("name", ["", *attnverify.PUBLIC])
def test_examples_of_public_names_give_what_they_show(name):
    """A module's functions are tried with it; "" stands for the package."""
    shown = getattr(attnverify, name) if name else attnverify
    finder = doctest.DocTestFinder(recurse=inspect.ismodule(shown) and shown is not attnverify)
    own, *others = sorted(
        finder.find(shown, name or "attnverify", globs={}), key=lambda t: len(t.name)
    )
    assert own.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for each in (own, *others):
        runner.run(each, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
