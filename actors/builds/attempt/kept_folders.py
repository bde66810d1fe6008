"""Folders that a job keeps for later builds: laid in before its command, kept after it passed.

See engine.md, "Kept folders". Nothing of this fails a job: its log says what could not be done.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from actors import vms
from storage import NewKeptFolder, error_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.settings import CacheSettings
    from storage import Build, Job, KeptFolder, Storage

_MOST_FILES = 200_000


class JobFolders:
    """The folders of one job. Blocks.

    ``free`` returns the bytes that the host has for them.
    """

    def __init__(
        self,
        storage: Storage,
        build: Build,
        job: Job,
        settings: CacheSettings,
        *,
        timeout: float,
        free: Callable[[], int],
    ) -> None:
        self._storage = storage
        self._build = build
        self._job = job
        self._settings = settings
        self._timeout = timeout
        self._free = free

    def lay(self, connection: vms.Connection) -> list[str]:
        """Lay what is kept into the VM; return a line for each folder. Raises ConnectionLost and VmLost."""
        return [f"{path}: {self._lay(connection, path, name)}" for path, name in self._wanted()]

    def keep(self, connection: vms.Connection) -> list[str]:
        """Keep the folders as they are in the VM; return a line for each. Raises ConnectionLost and VmLost."""
        return [f"{path}: {self._keep(connection, path, name)}" for path, name in self._wanted()]

    def _wanted(self) -> list[tuple[str, str]]:
        return list(self._job.keep.items()) if self._settings.folders_bytes else []

    def _lay(self, connection: vms.Connection, path: str, name: str) -> str:
        kept = self._find(path, name)
        if kept is None:
            return "nothing is kept yet"
        try:
            laid = vms.lay_folder(connection, path, [self._tar(kept)], timeout=self._timeout)
        except (vms.ConnectionLost, vms.VmLost):
            raise
        except (vms.VmError, OSError) as error:
            return f"what is kept could not be laid in: {error}"
        if not laid:
            return "what is kept is not laid in, as there is something already"
        self._storage.kept_folders.use(kept)
        return f"laid in as {kept.left_by} left it, {kept.file_size:,} bytes"

    def _keep(self, connection: vms.Connection, path: str, name: str) -> str:
        storage, settings, build = self._storage, self._settings, self._build
        try:
            fingerprint = vms.fingerprint_of(connection, path, timeout=self._timeout)
            if fingerprint is None:
                return "not kept, as there is no such folder"
            known = self._find(path, name)
            if known is not None and known.fingerprint == fingerprint:
                return "unchanged"
            if self._free() < settings.folder_bytes:
                return "not kept, as the host's disk is nearly full"
            packed = vms.pack_folder(
                connection, path, most_files=_MOST_FILES, most_bytes=settings.folder_bytes, timeout=self._timeout
            )
            uuid, size = storage.kept_folders.write(packed)
        except (vms.ConnectionLost, vms.VmLost):
            raise
        except vms.VmError as error:
            return f"not kept: {error}"
        except OSError as error:
            return f"not kept: {error_reason(error)}"
        storage.kept_folders.keep(
            NewKeptFolder(
                organization_id=build.organization_id,
                pipeline_id=build.pipeline_id,
                scope=self._scope(path, name),
                branch=build.branch or "",
                origin=self._origin,
                left_by=f"{self._job.step_key} of {build.pipeline_slug} #{build.number}",
                fingerprint=fingerprint,
                uuid=uuid,
                file_size=size,
            )
        )
        return f"kept, {size:,} bytes"

    def _scope(self, path: str, name: str) -> str:
        """Return what shares a folder: pipelines of the organization by a name, else one pipeline by its path."""
        return f"name/{name}" if name else f"pipeline/{self._build.pipeline_id}/{path}"

    def _find(self, path: str, name: str) -> KeptFolder | None:
        """Return what is kept for the build's branch, else for the default branch.

        An untrusted build has its own alone, so that it neither reads nor poisons the repository's. So do builds that
        may have limited secrets, which share theirs.
        """
        build, origin = self._build, self._origin
        branches = dict.fromkeys((build.branch or "", *([] if build.untrusted else [self._default_branch()])))
        found = (
            self._storage.kept_folders.find(build.organization_id, self._scope(path, name), branch, origin)
            for branch in branches
        )
        return next((each for each in found if each is not None), None)

    @cached_property
    def _origin(self) -> str:
        return self._build.untrusted_origin or self._storage.job_secrets.shared_with(self._build)

    def _default_branch(self) -> str:
        pipeline = self._storage.pipelines.by_id(self._build.pipeline_id)
        return "" if pipeline is None else pipeline.default_branch

    def _tar(self, kept: KeptFolder) -> vms.FileBytes:
        return vms.FileBytes(self._storage.kept_folders.path(kept), kept.file_size)
