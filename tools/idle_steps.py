"""Print the steps and neighbors of chapters that decide nothing, until no chapter waits.

python tools/idle_steps.py [CHAPTER ...]
"""

import sys

from attnverify.derivation import idle_steps, ledger, notebook_sources, run_cells, step_source


def listed(claim, made, step, _call, expected):
    """Print a step that the ledger would refuse; takes the place of the ledger's own rule."""
    call = step_source.caller()
    if not expected:
        why = idle_steps.rejected(made.name, step, call)
    else:
        why = ledger._same(step) and idle_steps.derived(made.name, step, call)
    counts[expected] += 1
    if why:
        idle[expected] += 1
        print(f"{claim}, {made.name!r}: {why}\n    {made.source}")


ledger._require_work = listed
chapters = sys.argv[1:] or sorted(idle_steps.WAITING)
idle_steps.WAITING[:] = []
for chapter in chapters:
    counts, idle = {True: 0, False: 0}, {True: 0, False: 0}
    print(run_cells.run(notebook_sources.load(chapter)).error[-1000:], end="")
    steps, neighbors = (f"{idle[kind]} of {counts[kind]}" for kind in (True, False))
    print(f"{chapter}: {steps} steps, {neighbors} neighbors")
