"""What the README and the docstring of the package show runs as shown."""

import re
import tomllib

from attnverify.support.extras import INSTALL, MODELS, hint
from places import ROOT


def test_the_examples_of_the_readme_run(capsys):
    text = (ROOT / "README.md").read_text()
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(code, names)  # the project's own README; the second goes on from the first
    # 12 layers of width 48: sums of about 2000 terms of size 1 agree to far better than 1e-9
    value, lengths = capsys.readouterr().out.splitlines()
    assert float(re.findall(r"[\d.]+e-\d+|0\.", value)[0]) < 1e-9
    assert len(re.findall(r"\d+\.\d+", lengths)) == 3  # two layers of weights by hand


def test_every_command_of_the_readme_exists():
    from attnverify import cli

    commands = {c.name or c.callback.__name__ for c in cli.app.registered_commands}
    used = set(re.findall(r"bin/attnverify (\w+)", (ROOT / "README.md").read_text()))
    assert used == commands


def test_every_hint_at_an_extra_is_the_one_that_works():
    """The package is on no index: what a message or a page says is true in a clone."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [ROOT / "README.md", *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    code = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("src/**/*.py"))
    assert not re.findall(r"attnverify\[\w+\]", text + code)
    shown = re.findall(re.escape(INSTALL).replace(r"\{\}", r"(\w+)"), text)
    assert {MODELS} == set(shown) <= set(known)
    assert hint("models") == "pip install -e '.[models]' in the folder of your clone"
