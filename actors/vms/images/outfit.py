"""What a pulled image lacks of what a VM needs, installed by the image's own package manager.

That runs in a VM of the tree itself, as closed in as any job. Until there is an sshd, a shell script answers in its
place: it greets as an sshd does, and is a shell from then on.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from actors.vms.guest import script
from actors.vms.images.host import apt_options
from actors.vms.provider import VmError, VmSpec
from actors.vms.sandbox.provider import SandboxProvider, SandboxSettings
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from actors.vms.images.tree import Tree
    from actors.vms.sandbox.userns import IdMap

__all__ = ["end_all", "outfitted"]

_VM = "outfit"
_GREETER = b"#!/bin/sh\necho SSH-\nexec /bin/sh\n"
_SILENCE_SECONDS = 600.0
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class _Only:
    """The one tree that VMs start from here."""

    root: Path

    def path(self, name: str) -> Path:
        """Return it, whatever it is called."""
        del name
        return self.root


@contextmanager
def outfitted(
    tree: Tree, packages: Iterable[str], folder: Path, settings: SandboxSettings, progress: Callable[[str], None]
) -> Iterator[IO[bytes]]:
    """Give the tar of the tree with the packages installed; the VM keeps what it has in ``folder``.

    Raises VmError where they cannot be installed.
    """
    tree.put("usr/sbin", "sshd", _GREETER)
    provider = SandboxProvider(folder, _Only(tree.path), tree.idmap, SystemClock(), settings)
    try:
        provider.create(VmSpec(_VM, _VM))
        with provider.connect(_VM).socket as connection, connection.makefile("rb") as said:
            connection.settimeout(_SILENCE_SECONDS)
            said.readline()
            options = "\n".join(apt_options())
            connection.sendall(script("outfit", packages=" ".join(sorted(packages)), options=options).encode())
            _await(said, progress)
            yield said
    finally:
        provider.destroy(_VM)


def end_all(folder: Path, idmap: IdMap) -> None:
    """End what a dead process has left running in a folder that it gave to `outfitted`."""
    provider = SandboxProvider(folder, _Only(folder), idmap, SystemClock())
    for vm_id in provider.list():
        provider.destroy(vm_id)


def _await(said: IO[bytes], progress: Callable[[str], None]) -> None:
    """Return when the packages are installed and the tar follows. Raises VmError."""
    lines: list[str] = []
    try:
        for line in said:
            text = line.decode(errors="replace").strip()
            if text == "fitted":
                return
            if text == "failed":
                break
            progress(text)
            lines.append(text)
    except TimeoutError:
        lines.append(f"it said nothing for {_SILENCE_SECONDS:g} s")
    raise VmError("; ".join(lines[-_LAST_LINES:]) or "it said nothing")
