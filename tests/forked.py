"""Processes of `ci-daemon` that need not import it first, which takes a second of the CPU or two.

One process for each of pytest's workers has imported what a service imports, and forks for each of them. That a
service starts without it is tested, among others, in `tests/e2e/recovery/test_faults.py`.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from multiprocessing.util import get_temp_dir
from pkgutil import walk_packages
from signal import Signals
from typing import IO, Any

import pytest

import storage

_IMPORTED = (
    "tests.forked",
    "ci_daemon.command",
    "ci_daemon.command.operation.serve",
    "ci_daemon.config.loading",
    "ci_daemon.host.notify",
    "ci_daemon.local.first_vm",
    "ci_daemon.service",
    "ci_daemon.submit.working_tree",
    "actors.notifications.announcing",
    "actors.vms.images.factory",
    "actors.vms.images.store",
    "actors.vms.sandbox.provider",
    "actors.vms.ssh.connection",
    "actors.vms.ssh.forwarding",
    "actors.vms.ssh.pipes",
    "api.console.routes",
    "api.later",
    "api.openapi.router",
    "cryptography.hazmat.primitives.kdf.hkdf",
    "encodings.idna",
    "jinja2",
    "rich.table",
    *(module.name for module in walk_packages(storage.__path__, "storage.") if ".migrations" not in module.name),
)
"""Modules that a service imports, or is about to when it first uses them."""


class Forked:
    """A Python module that runs as a program, with a part of what `subprocess.Popen` can do."""

    def __init__(
        self, module: str, arguments: Sequence[str], environ: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        streams = _Streams(stdout.fileno(), stderr.fileno())
        self.args = (module, *arguments)
        self._process = _context().Process(target=_run, args=(module, arguments, dict(environ), streams))
        self._process.start()

    @property
    def pid(self) -> int:
        """Its id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def send_signal(self, number: Signals) -> None:
        """Send it a signal, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it runs."""
        self.send_signal(Signals.SIGKILL)


class _Streams:
    """Standard output and error, which go along to the process that is made."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def __getstate__(self) -> list[Any]:
        return [DupFd(descriptor) for descriptor in self._descriptors]

    def __setstate__(self, passed: list[Any]) -> None:
        for stream, copy in enumerate(passed, start=1):
            descriptor = copy.detach()
            os.dup2(descriptor, stream)
            os.close(descriptor)


@cache
def _context() -> ForkServerContext:
    context = get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:  # the folder of its socket outlives the tests, and their temporary one
        patch.setattr(tempfile, "tempdir", "/var/tmp")
        get_temp_dir()
    context.set_forkserver_preload(list(_IMPORTED))
    return context


def _run(module: str, arguments: Sequence[str], environ: dict[str, str], _: _Streams) -> None:
    tempfile.tempdir = environ.get("TMPDIR")  # looked for, it would leave a file if this process is killed meanwhile
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
