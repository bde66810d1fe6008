"""Collection of a job's artifacts from its VM into the storage (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import errno
import json
import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from actors.builds.outcome import JobFailure
from actors.ir.globs import Globs
from actors.vms import CommandTimeout, InvalidDownload, download_files, list_files
from storage import JobErrorCode, error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.settings import ArtifactSettings
    from actors.vms import Connection
    from storage import ArtifactFiles, Clock, NewArtifact

__all__ = ["ArtifactStore", "Collected", "Collection"]

_MAX_NAMES = 5
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(slots=True)
class Collected:
    """The collected files by path, ``bytes`` in all, and remarks on the files that are not kept.

    ``lacks`` says why files that the globs match are not among them.
    """

    files: dict[str, NewArtifact] = field(default_factory=dict)
    bytes: int = 0
    remarks: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    code: JobErrorCode = JobErrorCode.ARTIFACTS_INCOMPLETE

    def keep(self, file: NewArtifact) -> None:
        """Add a collected file."""
        self.files[file.path] = file
        self.bytes += file.file_size

    def notice(self) -> str:
        """Return the notice for the job's log: a summary, then one line per remark."""
        files = f"{len(self.files):,} file{'' if len(self.files) == 1 else 's'}"
        return "\n".join([f"artifacts: {files}, {self.bytes:,} bytes", *self.remarks, *self.lacks])

    @property
    def failure(self) -> JobFailure | None:
        """The failure of a job that promised files which are not kept (engine.md, "A job attempt", 5)."""
        if not self.lacks:
            return None
        return JobFailure(self.code, f"not all artifacts are kept: {'; '.join(self.lacks)}")


@immutable
class ArtifactStore:
    """The place for a build's files; ``free`` returns the bytes that the host has for them."""

    files: ArtifactFiles
    build_uuid: str
    free: Callable[[], int]


class Collection:
    """The collection of a job's artifacts, which another connection to its VM can continue.

    It ends by ``settings.timeout``, counted from its making.
    """

    def __init__(self, globs: Sequence[str], store: ArtifactStore, settings: ArtifactSettings, clock: Clock) -> None:
        self.collected = Collected()
        self._globs = globs
        self._store = store
        self._settings = settings
        self._clock = clock
        self._deadline = clock.monotonic() + settings.timeout
        self._wanted: dict[str, str] | None = None
        self._kept: dict[str, NewArtifact] = {}
        self._too_large: list[str] = []
        self._host_error: OSError | None = None

    def run(self, connection: Connection) -> Collected:
        """Collect what the globs match in the VM's workspace and is not collected yet.

        The result `lacks` what cannot be kept, such as files beyond a limit. Raises ConnectionLost, and OSError if the
        host cannot keep a file and there is time left: then run it again.
        """
        collected = self.collected
        try:
            if self._wanted is None:
                self._wanted = self._matching(connection)
            while self._wanted:
                self._take(connection, self._wanted)
        except CommandTimeout:
            if self._host_error is None:
                collected.lacks.append(f"it takes more than {self._settings.timeout:g} s (artifacts.timeout)")
            else:
                self._host_failed(self._host_error)
        except InvalidDownload as error:
            collected.lacks.append(str(error))
        except OSError as error:
            self._host_error = error
            if self._clock.monotonic() < self._deadline:
                raise
            self._host_failed(error)
        if self._too_large:
            collected.lacks.append(
                f"{_listed(self._too_large)} would be more than the {self._settings.max_bytes:,} bytes that a job may"
                " keep (artifacts.max_gb)"
            )
        return collected

    def discard(self) -> None:
        """Remove the files that are collected so far."""
        self._store.files.remove(self._store.build_uuid, [file.uuid for file in self.collected.files.values()])

    def _host_failed(self, error: OSError) -> None:
        full = error.errno in _DISK_FULL
        self.collected.code = JobErrorCode.DISK_FULL if full else JobErrorCode.INTERNAL_ERROR
        self.collected.lacks.append(f"the host cannot keep them: {error_reason(error)}")

    def _left(self) -> float:
        return max(0.001, self._deadline - self._clock.monotonic())

    def _matching(self, connection: Connection) -> dict[str, str]:
        r"""Return the paths that the globs match, with the names under which they are kept.

        A name that is not UTF-8 is kept with such bytes written as ``\xff``.
        """
        collected, most = self.collected, self._settings.max_files
        patterns = [(glob, Globs([glob])) for glob in self._globs]
        unmatched = set(self._globs)
        found: dict[str, str] = {}
        count = 0
        try:
            for raw in list_files(connection, timeout=self._left()):
                shown = raw.decode(errors="replace")
                if matching := {glob for glob, pattern in patterns if pattern.match(shown)}:
                    unmatched -= matching
                    count += 1
                    if len(found) < most:
                        found[raw.decode(errors="surrogateescape")] = raw.decode(errors="backslashreplace")
        except InvalidDownload as error:
            collected.lacks.append(str(error))
        if count > len(found):
            collected.lacks.append(f"{count:,} files match, and a job may keep {most:,} (artifacts.max_files)")
        if unmatched and not collected.lacks:
            missing = [glob for glob in self._globs if glob in unmatched]
            collected.remarks.append(f"no file in the workspace matches {_listed(missing)}")
        self._rename(found)
        return found

    def _rename(self, found: dict[str, str]) -> None:
        """Say which names are not UTF-8, and leave out those that are another file's name as they are written."""
        renamed = [path for path, name in found.items() if name != path]
        if renamed:
            names = _listed([found[path] for path in renamed])
            self.collected.remarks.append(f"bytes of names that are not UTF-8 are written as \\xff: {names}")
        for path in renamed:
            if found[path] in found:
                self.collected.lacks.append(f"{_listed([found.pop(path)])} is the name of two files")

    def _take(self, connection: Connection, wanted: dict[str, str]) -> None:
        """Write the wanted files of a tar, up to the first that is too large; the rest stays wanted.

        Raises OSError if the host has no room for a file, which stays wanted.
        """
        collected, store = self.collected, self._store
        packed = download_files(connection, sorted(wanted), max_bytes=self._settings.max_bytes, timeout=self._left())
        with closing(packed):
            for file in packed:
                original = self._kept.get(file.same_as or "")
                if file.path not in wanted or (file.same_as is not None and original is None):
                    continue
                size = (original or file).file_size
                if collected.bytes + size > self._settings.max_bytes:
                    self._too_large.append(wanted.pop(file.path))
                    return
                if original is not None:
                    shared = store.files.link(store.files.path(store.build_uuid, original.uuid), store.build_uuid)
                    kept = replace(original, uuid=shared, path=wanted[file.path])
                elif size <= store.free():
                    kept = store.files.write(store.build_uuid, wanted[file.path], file.chunks)
                else:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._host_error = None
                self._kept[file.path] = kept
                collected.keep(kept)
                del wanted[file.path]
        if wanted:
            collected.lacks.append(f"{_listed(sorted(wanted.values()))} changed or were removed meanwhile")
            wanted.clear()


def _listed(names: Sequence[str]) -> str:
    """Format the first few names for a message."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:_MAX_NAMES]) + more
