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
from actors.vms.images.host import apt_options
from actors.vms.images.process import TICK
from actors.vms.images.tree import has_program
from actors.vms.provider import VmError, VmSpec
from actors.vms.sandbox.settings import SandboxSettings
from storage import SystemClock

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from actors.vms.images.room import Room
    from actors.vms.images.tree import Tree
    from actors.vms.sandbox.provider import SandboxProvider
    from actors.vms.sandbox.userns import IdMap

__all__ = ["end_all", "outfitted"]

_VM = "outfit"
_MANAGERS = ("apt-get", "apk")
_GREETER = b"#!/bin/sh\necho SSH-\nexec /bin/sh\n"
_SILENCE_SECONDS = 600.0
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class _Only:
    """The only tree that VMs start from here."""

    root: Path

    def path(self, name: str) -> Path:
        """Return the tree for any name."""
        del name
        return self.root


@contextmanager
def outfitted(
    tree: Tree, packages: Iterable[str], folder: Path, settings: SandboxSettings, room: Room
) -> Iterator[IO[bytes]]:
    """Yield the tar of the tree with the packages installed; the VM keeps its files in ``folder``.

    Raises VmError if they cannot be installed, and what the room's check raises.
    """
    if not any(has_program(tree.path, manager) for manager in _MANAGERS):
        message = f"it has neither {' nor '.join(_MANAGERS)}"
        raise VmError(message)
    tree.put("usr/sbin", "sshd", _GREETER)
    provider = _provider(folder, tree.path, tree.idmap, settings)
    try:
        provider.create(VmSpec(_VM, _VM))
        with provider.connect(_VM).socket as connection, io.BufferedReader(_Answers(connection, room)) as said:
            said.readline()
            options = "\n".join(apt_options())
            connection.sendall(script("outfit", packages=" ".join(sorted(packages)), options=options).encode())
            _await(said, room)
            yield said
    finally:
        provider.destroy(_VM)


def end_all(folder: Path, idmap: IdMap) -> None:
    """End the VMs that a dead process left in the folder of its call of `outfitted`."""
    provider = _provider(folder, folder, idmap, SandboxSettings())
    for vm_id in provider.list():
        provider.destroy(vm_id)


def _provider(folder: Path, root: Path, idmap: IdMap, settings: SandboxSettings) -> SandboxProvider:
    # Imported late, because few commands on images pull one.
    from actors.vms.sandbox.provider import SandboxProvider  # noqa: PLC0415

    return SandboxProvider(folder, _Only(root), idmap, SystemClock(), settings)


class _Answers(io.RawIOBase):
    """Reader of a VM's socket that checks, while it waits, if the pull may go on."""

    def __init__(self, connection: socket.socket, room: Room) -> None:
        self._connection = connection
        self._room = room

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # BufferedReader passes nothing else
        """Read the next bytes; 0 is the end. Raises TimeoutError, and what the room's check raises."""
        deadline = time.monotonic() + _SILENCE_SECONDS
        while True:
            self._room.check()
            if select.select([self._connection], [], [], TICK)[0]:
                return self._connection.recv_into(buffer)
            if time.monotonic() > deadline:
                raise TimeoutError


def _await(said: IO[bytes], room: Room) -> None:
    """Return when the packages are installed and the tar follows. Raises VmError."""
    lines: list[str] = []
    try:
        for line in said:
            text = line.decode(errors="replace").strip()
            if text == "fitted":
                return
            if text == "failed":
                break
            room.options.progress(text)
            lines = [*lines, text][-_LAST_LINES:]
    except TimeoutError:
        lines.append(f"it said nothing for {_SILENCE_SECONDS:g} s")
    raise VmError("; ".join(lines) or "it said nothing")
