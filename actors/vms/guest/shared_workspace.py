"""A job's workspace as a tar, packed in its VM and laid into another (engine.md, "Shared workspaces").

As of kept folders, the host never looks into such a tar, and a mount in which all else is read-only bounds its effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.guest import in_workspace, script
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.vms.ssh.connection import Connection
    from actors.vms.ssh.files import FileBytes

_GB = 2**30
_ANSWER_BYTES = 1 << 16


class WorkspaceNotShared(VmError):
    """A workspace cannot be packed or laid; the message says why. Another attempt would not help."""


def workspace_hash(connection: Connection, *, timeout: float) -> str:
    """Return what changes with the names, modes and contents in a workspace, but for ``.git``.

    Raises WorkspaceNotShared, ConnectionLost and CommandTimeout.
    """
    done = connection.run(in_workspace(script("hash_workspace")), timeout=timeout)
    if done.exit_code != 0:
        raise WorkspaceNotShared(f"the workspace cannot be read: {_reason(done.stderr, done.exit_code)}")
    return done.stdout.decode(errors="replace").split()[0]


def pack_workspace(connection: Connection, *, most_bytes: int, timeout: float) -> Iterator[bytes]:
    """Yield the tar of a workspace; errors are those of `workspace_hash`, also for too many bytes."""
    left = most_bytes
    with connection.transfer(in_workspace(script("pack_workspace")), timeout=timeout) as packed:
        for chunk in packed:
            left -= len(chunk)
            if left < 0:
                raise WorkspaceNotShared(f"the workspace has more than {most_bytes / _GB:.0f} GB")
            yield chunk
    if packed.exit_code != 0:
        raise WorkspaceNotShared(f"the workspace cannot be packed: {_reason(packed.stderr, packed.exit_code)}")


def lay_workspace(connection: Connection, tar: Iterable[bytes | FileBytes], *, timeout: float) -> None:
    """Make a VM's workspace what a tar has, and nothing else; errors are those of `workspace_hash`."""
    with connection.transfer(in_workspace(script("lay_workspace")), stdin=tar, timeout=timeout) as laying:
        done = laying.complete(_ANSWER_BYTES)
    if done.exit_code != 0:
        raise WorkspaceNotShared(f"the workspace cannot be laid: {_reason(done.stderr, done.exit_code)}")


def _reason(stderr: bytes, exit_code: int) -> str:
    return stderr.decode(errors="replace").strip()[-300:] or f"exit code {exit_code}"
