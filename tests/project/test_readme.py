"""What the README and the docstring of the package show runs as shown."""

import re
import tomllib

from attnverify.support.extras import INSTALL, MODELS, hint
from places import ROOT


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    exec(code, {})  # the project's own README
    assert (tmp_path / "tokens.svg").is_file()  # the picture at its top
    # 12 layers of width 48: sums of about 2000 terms of size 1 agree to far better than 1e-9
    assert float(re.findall(r"[\d.]+e-\d+|0\.", capsys.readouterr().out)[0]) < 1e-9


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
