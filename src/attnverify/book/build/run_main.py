"""Run a module's main() as a command, and end without taking its memory apart.

    python -m attnverify.book.build.run_main MODULE ARGUMENTS...

A book that was read is some million objects; to free them one by one as Python does when it ends
takes seconds, and the system takes them back at once.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

from attnverify.runtime.workers import end_with_parent


def leave(code: int) -> NoReturn:
    """End this process with an exit code, with the usual clean-up but without freeing memory."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def code_of(main: Callable[[], object]) -> int:
    """The exit code with which a command would end."""
    try:
        result = main()
    except SystemExit as end:
        result = end.code
    except BaseException:
        traceback.print_exc()
        return 1
    if result is None or isinstance(result, int):
        return result or 0
    print(result, file=sys.stderr)
    return 1


if __name__ == "__main__":
    end_with_parent()  # a build that was killed has left its lock to the next one
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=end_with_parent)
    module = sys.argv.pop(1)
    leave(code_of(lambda: import_module(module).main()))
