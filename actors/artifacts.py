"""Collection of a job's artifacts from its VM into the storage (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from actors.globs import Globs
from actors.vms import CommandTimeout, VmError, list_files, pack

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from actors.settings import ArtifactSettings
    from actors.vms import Connection, Packed
    from storage import ArtifactFiles, Clock, NewArtifact

__all__ = ["Harvest", "Store", "collect"]

_SHOWN = 5


@dataclass(slots=True)
class Harvest:
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


@dataclass(frozen=True, slots=True)
class Store:
    """The place for a build's files, with ``room`` bytes left."""

    files: ArtifactFiles
    build_uuid: str
    room: int


def collect(
    connection: Connection, globs: Sequence[str], store: Store, settings: ArtifactSettings, clock: Clock
) -> Harvest:
    """Collect the files that the globs match in a VM's workspace, within the limits of the settings.

    An error of the VM or of the host's disk costs the files that are not complete by then, and adds a remark.
    """
    harvest = Harvest()
    deadline = clock.monotonic() + settings.timeout
    too_large: list[str] = []
    try:
        wanted = _matching(connection, globs, settings, harvest)
        while wanted:
            left = max(0.001, deadline - clock.monotonic())
            wanted, refused = _take(
                pack(connection, sorted(wanted), max_bytes=store.room, timeout=left), wanted, store, harvest
            )
            too_large += refused
    except CommandTimeout:
        harvest.remarks.append(f"the rest is not kept: it took more than {settings.timeout:g} s")
    except (VmError, OSError) as error:
        harvest.remarks.append(f"not all is kept: {error}")
    if too_large:
        harvest.remarks.append(f"not kept, since all together may have {store.room:,} bytes: {_listed(too_large)}")
    return harvest


def _matching(connection: Connection, globs: Sequence[str], settings: ArtifactSettings, harvest: Harvest) -> set[str]:
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
            harvest.remarks.append(f"only {settings.max_files:,} files are kept, the first that were found of more")
            break
    if nameless:
        harvest.remarks.append(f"not kept, since their names are not UTF-8: {nameless:,}")
    if not found and not harvest.remarks:
        harvest.remarks.append(f"no file in the workspace matches {_listed(globs)}")
    return found


def _take(packed: Generator[Packed], wanted: set[str], store: Store, harvest: Harvest) -> tuple[set[str], list[str]]:
    """Write the wanted files of a tar, up to the first that is too large.

    Returns the paths that are still to be requested, and the one that is too large, if any.
    """
    missing = set(wanted)
    with closing(packed):
        for file in packed:
            original = harvest.files.get(file.same_as or "")
            if file.path not in missing or (file.same_as is not None and original is None):
                continue
            missing.remove(file.path)
            if harvest.bytes + (original or file).file_size > store.room:
                return missing, [file.path]
            if original is None:
                harvest.keep(store.files.write(store.build_uuid, file.path, file.blocks))
            else:
                shared = store.files.link(store.files.path(store.build_uuid, original.uuid), store.build_uuid)
                harvest.keep(replace(original, uuid=shared, path=file.path))
    if missing:
        harvest.remarks.append(f"not kept, since they changed or went meanwhile: {_listed(sorted(missing))}")
    return set(), []


def _listed(names: Sequence[str]) -> str:
    """Format the first few names for a message."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:_SHOWN]) + more
