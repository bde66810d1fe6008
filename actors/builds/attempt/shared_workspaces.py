"""The workspace that a job takes, and the one that it leaves (engine.md, "Shared workspaces")."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from actors import vms
from storage import EdgeKind, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage import Build, Job, Storage


class WorkspaceMissing(Exception):
    """The workspace that a job takes is not there; the message says whose it is."""


def maker_of_workspace(storage: Storage, job: Job) -> Job | None:
    """Return the job whose workspace a job takes; None if it takes the source.

    A job that was skipped leaves the workspace as it would have got it.
    """
    edge = next((each for each in storage.jobs.edges_to(job.id) if each.workspace), None)
    while edge is not None:
        maker = storage.jobs.get(edge.from_id)
        if maker is None or maker.state is not JobState.SKIPPED:
            return maker
        before = storage.jobs.edges_to(maker.id)
        edge = next((each for each in before if each.workspace or each.kind is EdgeKind.BUILDS_IN), None)
    return None


def content_taken(storage: Storage, build: Build, job: Job) -> tuple[bool, str | None]:
    """Return whether a job takes the workspace of another one, and a hash of the content, if it is known."""
    maker = maker_of_workspace(storage, job)
    if maker is None:
        return False, None
    found = storage.workspaces.find(build.uuid, maker.uuid)
    return True, None if found is None else found.content


class SharedWorkspace:
    """The workspace of a job that shares one. Blocks.

    ``free`` returns the bytes that the host has for it.
    """

    def __init__(self, storage: Storage, build: Build, job: Job, *, timeout: float, free: Callable[[], int]) -> None:
        self._storage = storage
        self._build = build
        self._job = job
        self._timeout = timeout
        self._free = free

    def lay(self, connection: vms.Connection) -> str | None:
        """Lay what another job has left; return a line about it, None for the source.

        Raises WorkspaceMissing, WorkspaceNotShared, ConnectionLost and VmLost.
        """
        maker = maker_of_workspace(self._storage, self._job)
        if maker is None:
            return None
        found = self._storage.workspaces.find(self._build.uuid, maker.uuid)
        if found is None:
            message = f'the step "{maker.name}" left no workspace'
            raise WorkspaceMissing(message)
        vms.lay_workspace(connection, [vms.FileBytes(found.path, found.size)], timeout=self._timeout)
        return f'the workspace is as "{maker.name}" left it, {found.size:,} bytes'

    def keep(self, connection: vms.Connection, *, hashed: bool) -> None:
        """Keep the workspace for others, unless an earlier process did; with a hash if ``hashed``.

        Raises OSError, also while the host has no room for it, WorkspaceNotShared, ConnectionLost and VmLost.
        """
        workspaces, build, job = self._storage.workspaces, self._build.uuid, self._job.uuid
        if workspaces.find(build, job) is not None:
            return
        content = vms.workspace_hash(connection, timeout=self._timeout) if hashed else None
        packed = vms.pack_workspace(connection, most_bytes=self._job.shape.disk_gb << 30, timeout=self._timeout)
        workspaces.write(build, job, self._while_there_is_room(packed), content)

    def discard(self) -> None:
        """Forget what an earlier attempt has left."""
        self._storage.workspaces.discard(self._build.uuid, self._job.uuid)

    def _while_there_is_room(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if self._free() < len(chunk):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield chunk
