"""Collection of a job's artifacts from its VM into the storage (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from actors.ir.globs import Globs
from actors.vms import CommandTimeout, VmError, download_files, list_files
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from actors.settings import ArtifactSettings
    from actors.vms import Connection, DownloadedFile
    from storage import ArtifactFiles, Clock, NewArtifact

__all__ = ["ArtifactStore", "Collected", "collect"]

_MAX_NAMES = 5


@dataclass(slots=True)
class Collected:
    """The collected files by path, ``bytes`` in all, and remarks on the files that are not kept."""

    files: dict[str, NewArtifact] = field(default_factory=dict)
    bytes: int = 0
    remarks: list[str] = field(default_factory=list)

    def keep(self, file: NewArtifact) -> None:
        """Add a collected file."""
        self.files[file.path] = file
        self.bytes += file.file_size

    def notice(self) -> str:
        """Return the notice for the job's log: a summary, then one line per remark."""
        files = f"{len(self.files):,} file{'' if len(self.files) == 1 else 's'}"
        return "\n".join([f"artifacts: {files}, {self.bytes:,} bytes", *self.remarks])


@immutable
class ArtifactStore:
    """The place for a build's files, with ``room`` bytes left."""

    files: ArtifactFiles
    build_uuid: str
    room: int


def collect(
    connection: Connection, globs: Sequence[str], store: ArtifactStore, settings: ArtifactSettings, clock: Clock
) -> Collected:
    """Collect the files that the globs match in a VM's workspace, within the limits of the settings.

    An error of the VM or of the host's disk costs the files that are not complete by then, and adds a remark.
    """
    collected = Collected()
    deadline = clock.monotonic() + settings.timeout
    too_large: list[str] = []
    try:
        wanted = _matching(connection, globs, settings, collected)
        while wanted:
            left = max(0.001, deadline - clock.monotonic())
            wanted, refused = _take(
                download_files(connection, sorted(wanted), max_bytes=store.room, timeout=left), wanted, store, collected
            )
            too_large += refused
    except CommandTimeout:
        collected.remarks.append(f"the rest is not kept: it took more than {settings.timeout:g} s")
    except (VmError, OSError) as error:
        collected.remarks.append(f"not all is kept: {error_reason(error)}")
    if too_large:
        collected.remarks.append(
            f"not kept, because of the limit of {store.room:,} bytes for all: {_listed(too_large)}"
        )
    return collected


def _matching(
    connection: Connection, globs: Sequence[str], settings: ArtifactSettings, collected: Collected
) -> set[str]:
    """Return the paths that the globs match."""
    pattern = Globs(globs)
    found: set[str] = set()
    nameless = 0
    for name in list_files(connection, timeout=settings.timeout):
        path = name.decode(errors="replace")
        if not pattern.match(path):
            continue
        if path.encode() != name:
            nameless += 1
        elif len(found) < settings.max_files:
            found.add(path)
        elif path not in found:
            collected.remarks.append(f"only the first {settings.max_files:,} files are kept")
            break
    if nameless:
        collected.remarks.append(f"not kept, because their names are not UTF-8: {nameless:,}")
    if not found and not collected.remarks:
        collected.remarks.append(f"no file in the workspace matches {_listed(globs)}")
    return found


def _take(
    packed: Generator[DownloadedFile], wanted: set[str], store: ArtifactStore, collected: Collected
) -> tuple[set[str], list[str]]:
    """Write the wanted files of a tar, up to the first that is too large.

    Returns the paths that are still to be requested, and the one that is too large, if any.
    """
    missing = set(wanted)
    with closing(packed):
        for file in packed:
            original = collected.files.get(file.same_as or "")
            if file.path not in missing or (file.same_as is not None and original is None):
                continue
            missing.remove(file.path)
            if collected.bytes + (original or file).file_size > store.room:
                return missing, [file.path]
            if original is None:
                collected.keep(store.files.write(store.build_uuid, file.path, file.chunks))
            else:
                shared = store.files.link(store.files.path(store.build_uuid, original.uuid), store.build_uuid)
                collected.keep(replace(original, uuid=shared, path=file.path))
    if missing:
        collected.remarks.append(
            f"not kept, because they changed or were removed meanwhile: {_listed(sorted(missing))}"
        )
    return set(), []


def _listed(names: Sequence[str]) -> str:
    """Format the first few names for a message."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:_MAX_NAMES]) + more
