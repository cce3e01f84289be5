"""Kernels that are forked from a process which has imported the heavy packages already.

An ordinary kernel spends seconds on importing torch, sympy, scipy and matplotlib. Here the standard
library's fork server imports them once; every notebook gets a fork of it, and its kernel is a fork
of that: ipykernel as always, with an empty namespace of its own. Where the system cannot fork
(Windows) the kernels are ordinary ones.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from multiprocessing.context import BaseContext
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

#: Imported once. None of them starts a thread, which a fork would lose. Not the inline backend of
#: matplotlib: it connects to the shell that is there when it is imported. Nothing of the package,
#: or every chapter would depend on it, but what records files.
HEAVY = ["attnverify.runtime.recording", "torch", "sympy", "flint", "scipy.stats", "scipy.optimize"]
HEAVY += ["matplotlib.pyplot", "ipykernel.kernelapp"]
HEAVY += ["jupyter_cache.executors.utils", "myst_nb.core.read"]
INLINE = "module://matplotlib_inline.backend_inline"  # what ipykernel sets before anything else
CAN_FORK = "forkserver" in multiprocessing.get_all_start_methods()


def context() -> BaseContext:
    """The context that starts workers: as forks of one warm process where the system can fork."""
    if not CAN_FORK:
        return multiprocessing.get_context("spawn")
    warm = multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(HEAVY)
    return warm


class Forked:
    """A fork that runs a kernel, with the methods of ``subprocess.Popen`` that are asked for."""

    stdout = stderr = stdin = None

    def __init__(self, arguments: list[str], cwd: str | None, env: dict[str, str]) -> None:
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_serve, args=(arguments, cwd, env))
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self.pid is not None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _serve(arguments: list[str], cwd: str | None, env: dict[str, str]) -> None:
    """Run a kernel in this process, as ``python -m ipykernel_launcher`` does in a fresh one."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.set_event_loop_policy(None)
    asyncio.set_event_loop(asyncio.new_event_loop())
    os.environ.clear()
    os.environ.update(env)
    if cwd:
        os.chdir(cwd)
    sys.argv = ["ipykernel_launcher", *arguments]
    # What matplotlib reads when it is imported, which it was before this process began.
    matplotlib.rcParams["backend"] = os.environ.setdefault("MPLBACKEND", INLINE)
    IPKernelApp.clear_instance()
    IPKernelApp.launch_instance(arguments)


class ForkingProvisioner(LocalProvisioner):
    """Starts the kernel as a fork of this process."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> KernelConnectionInfo:
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        # Or the kernel thinks that somebody started it from a terminal.
        arguments.append(f"--IPKernelApp.parent_handle={os.getpid()}")
        process = Forked(arguments, options.get("cwd"), options.get("env") or dict(os.environ))
        self.process, self.pid = process, process.pid  # type: ignore[assignment]
        return self.connection_info


class ForkingKernelManager(AsyncKernelManager):
    """A kernel manager for nbclient whose kernels are forks of this process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.provisioner = ForkingProvisioner(
            kernel_id="", kernel_spec=self.kernel_spec, parent=self
        )
