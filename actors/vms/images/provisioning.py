"""Install the programs that a VM needs and a pulled image lacks, with its own package manager.

This runs in a VM of the image's tree, confined like any job. The tree has no sshd yet, so a shell script takes its
place: it greets like an sshd and is a shell from then on.
"""

from __future__ import annotations

import io
import select
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from actors.vms.guest import script
from actors.vms.images.host_apt import apt_options
from actors.vms.images.tree import Tree, has_program
from actors.vms.images.watched_process import POLL_SECONDS
from actors.vms.provider import VmError, VmSpec
from actors.vms.sandbox.settings import SandboxSettings
from storage import SystemClock

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from actors.vms.images.pull_bounds import PullBounds
    from actors.vms.sandbox.provider import SandboxProvider
    from actors.vms.sandbox.userns import IdMap

__all__ = ["destroy_orphan_vms", "provisioned"]

_SANDBOX = "sandbox"
_VM = "provision"
_MANAGERS = ("apt-get", "apk")
_FAKE_SSHD = b"#!/bin/sh\necho SSH-\nexec /bin/sh\n"
_SILENCE_SECONDS = 600.0
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class _SingleImage:
    """The only tree that VMs start from here."""

    root: Path

    def path(self, name: str) -> Path:
        """Return the tree for any name."""
        del name
        return self.root


@contextmanager
def provisioned(
    tree: Tree, packages: Iterable[str], staging: Path, settings: SandboxSettings, bounds: PullBounds
) -> Iterator[IO[bytes]]:
    """Install the packages in a VM of the tree, with its files in the staging folder; yield the tar.

    Raises VmError if they cannot be installed, and what the check of the bounds raises.
    """
    if not any(has_program(tree.path, manager) for manager in _MANAGERS):
        message = f"it has neither {' nor '.join(_MANAGERS)}"
        raise VmError(message)
    tree.write_program("usr/sbin", "sshd", _FAKE_SSHD)
    folder = staging / _SANDBOX
    provider = _provider(folder, tree.path, tree.idmap, settings)
    try:
        provider.create(VmSpec(_VM, _VM))
        with provider.connect(_VM).socket as connection, io.BufferedReader(_GuestOutput(connection, bounds)) as output:
            output.readline()
            options = "\n".join(apt_options())
            connection.sendall(script("provision", packages=" ".join(sorted(packages)), options=options).encode())
            _await_installed(output, bounds)
            yield output
    finally:
        provider.destroy(_VM)
    Tree(folder, tree.idmap).remove()


def destroy_orphan_vms(staging: Path, idmap: IdMap) -> None:
    """Destroy the VMs that a dead process left in a staging folder."""
    folder = staging / _SANDBOX
    if not folder.exists():
        return
    provider = _provider(folder, folder, idmap, SandboxSettings())
    for vm_id in provider.list():
        provider.destroy(vm_id)


def _provider(folder: Path, root: Path, idmap: IdMap, settings: SandboxSettings) -> SandboxProvider:
    # Imported late, because few commands on images pull one.
    from actors.vms.sandbox.provider import SandboxProvider  # noqa: PLC0415

    return SandboxProvider(folder, _SingleImage(root), idmap, SystemClock(), settings)


class _GuestOutput(io.RawIOBase):
    """Reader of a VM's socket that checks, while it waits, if the pull may go on."""

    def __init__(self, connection: socket.socket, bounds: PullBounds) -> None:
        self._connection = connection
        self._bounds = bounds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes nothing else
        """Read the next bytes; 0 is the end. Raises TimeoutError, and what the check of the bounds raises."""
        deadline = time.monotonic() + _SILENCE_SECONDS
        while True:
            self._bounds.check()
            if select.select([self._connection], [], [], POLL_SECONDS)[0]:
                return self._connection.recv_into(buffer)
            if time.monotonic() > deadline:
                raise TimeoutError


def _await_installed(output: IO[bytes], bounds: PullBounds) -> None:
    """Return when the packages are installed and the tar follows. Raises VmError."""
    lines: list[str] = []
    try:
        for line in output:
            text = line.decode(errors="replace").strip()
            if text == "installed":
                return
            if text == "failed":
                break
            bounds.options.progress(text)
            lines = [*lines, text][-_LAST_LINES:]
    except TimeoutError:
        lines.append(f"the VM sent nothing for {_SILENCE_SECONDS:g} s")
    raise VmError("; ".join(lines) or "the VM sent nothing")
