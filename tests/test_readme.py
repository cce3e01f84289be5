"""What the README and the docstring of the package show runs as shown."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_example_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(code, {})  # the project's own README
    # 12 layers of width 48: sums of about 2000 terms of size 1 agree to far better than 1e-9
    (value,) = re.findall(r"[\d.]+e-\d+|0\.", capsys.readouterr().out)
    assert float(value) < 1e-9


def test_every_command_of_the_readme_exists():
    from attnverify import cli

    commands = {c.name or c.callback.__name__ for c in cli.app.registered_commands}
    used = set(re.findall(r"bin/attnverify (\w+)", (ROOT / "README.md").read_text()))
    assert used == commands
