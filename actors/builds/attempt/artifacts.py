"""Collection of a job's artifacts from its VM into the storage (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.artifact_links import Links, TooManyLinks
from actors.builds.outcome import JobFailure
from actors.ir.triggers import Globs
from storage import JobErrorCode, error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actors.builds.attempt.artifact_links import Reached, ReachedPath
    from actors.settings import ArtifactSettings
    from actors.vms import Connection
    from storage import ArtifactFiles, Clock, NewArtifact

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
        """The failure of a job that promised files which are not kept (engine.md, "The end")."""
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

    It ends by ``settings.timeout``, counted from its making. ``rest_of`` is told how many seconds each part of a file
    took and returns how many to rest then, which counts while there is more than half of that time left.
    """

    def __init__(
        self,
        globs: Sequence[str],
        store: ArtifactStore,
        settings: ArtifactSettings,
        clock: Clock,
        rest_of: Callable[[float], float] = lambda _seconds: 0.0,
    ) -> None:
        self.collected = Collected()
        self._globs = globs
        self._store = store
        self._settings = settings
        self._clock = clock
        self._rest_of = rest_of
        self._deadline = clock.monotonic() + settings.timeout
        self._wanted: dict[str, list[str]] | None = None
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
        except vms.CommandTimeout:
            if self._host_error is None:
                collected.lacks.append(f"it takes more than {self._settings.timeout:g} s (artifacts.timeout)")
            else:
                self._host_failed(self._host_error)
        except vms.InvalidDownload as error:
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

    def _matching(self, connection: Connection) -> dict[str, list[str]]:
        """Return the paths of the files that the globs match, each with the names under which it is kept."""
        globs, found = Globs(self._globs), _Found(self._settings.max_files)
        links = Links()
        try:
            for entry in vms.list_files(connection, timeout=self._left()):
                path = _text(entry.path)
                if entry.kind == "l":
                    links.add(path, _text(entry.target))
                elif globs.match(path):
                    found.matched |= globs.matched(globs.after(globs.start(), path))
                    if entry.kind == "f":
                        found.add(path, path)
                    else:
                        found.special.append(path)
            self._follow_links(connection, links.reached(globs), globs, found)
        except vms.InvalidDownload as error:
            self.collected.lacks.append(str(error))
        except TooManyLinks:
            self.collected.lacks.append("the workspace has too many links to follow")
        self._remark(found)
        return self._named(found)

    def _follow_links(self, connection: Connection, reached: Reached, globs: Globs, found: _Found) -> None:
        """Add the files behind links, under the names by which they are reached. Raises as `list_files` does."""
        found.outside, found.circles = reached.outside, reached.circles
        targets = sorted({each.path for each in reached.paths})
        if not targets:
            return
        listing = vms.list_below(connection, map(_raw, targets), deep=False, timeout=self._left())
        kinds = {_text(each.path): each.kind for each in listing}
        folders: dict[str, list[ReachedPath]] = {}
        for each in reached.paths:
            kind, matched = kinds.get(each.path), globs.matched(each.places)
            if kind == "f" and matched:
                found.matched |= matched
                found.add(each.path, each.name)
            elif kind == "d" and not each.covered:
                folders.setdefault(each.path, []).append(each)
            elif kind == "d" and matched:
                found.elsewhere.append(f"{_listed([each.name])} leads to {_listed([each.path])}")
            elif kind is None and globs.names(each.name):
                found.dangling.append(each.name)
            elif kind not in {"d", "f", None} and matched:
                found.special.append(each.name)
        self._search_folders(connection, folders, globs, found)

    def _search_folders(
        self, connection: Connection, folders: dict[str, list[ReachedPath]], globs: Globs, found: _Found
    ) -> None:
        """Add the files in folders behind links."""
        if not folders:
            return
        highest = [each for each in sorted(folders) if not folders.keys() & set(_folders_above(each))]
        for entry in vms.list_below(connection, map(_raw, highest), deep=True, timeout=self._left()):
            path = _text(entry.path)
            for folder in _folders_above(path):
                for each in folders.get(folder, ()):
                    rest = path[len(folder) + 1 :]
                    if matched := globs.matched(globs.after(each.places, rest)):
                        found.matched |= matched
                        found.add(path, f"{each.name}/{rest}")

    def _remark(self, found: _Found) -> None:
        """Say what is not kept, and why."""
        collected = self.collected
        if found.count > found.kept:
            collected.lacks.append(
                f"{found.count:,} files match, and a job may keep {found.most:,} (artifacts.max_files)"
            )
        missing = [glob for number, glob in enumerate(self._globs) if number not in found.matched]
        if missing and not collected.lacks:
            collected.remarks.append(f"no file in the workspace matches {_listed(missing)}")
        for why, names in (
            ("links that lead out of the workspace", found.outside),
            ("links that lead nowhere", found.dangling),
            ("links that lead in a circle", found.circles),
            ("neither files, folders nor links", found.special),
        ):
            if names:
                collected.remarks.append(f"not kept, because they are {why}: {_listed(names)}")
        if found.elsewhere:
            more = f", and {len(found.elsewhere) - _MAX_NAMES:,} more" if len(found.elsewhere) > _MAX_NAMES else ""
            kept = "which is kept under its own name"
            collected.remarks.append(f"{', '.join(found.elsewhere[:_MAX_NAMES])}, {kept}{more}")

    def _named(self, found: _Found) -> dict[str, list[str]]:
        r"""Return the names under which files are kept, with bytes that are not UTF-8 written as ``\xff``.

        Names that then equal the name of another file are left out.
        """
        every = {name for names in found.names.values() for name in names}
        written = {name: _raw(name).decode(errors="backslashreplace") for name in every}
        renamed = sorted(name for name in every if written[name] != name)
        if renamed:
            names = _listed([written[name] for name in renamed])
            self.collected.remarks.append(f"bytes of names that are not UTF-8 are written as \\xff: {names}")
        twice = {name for name in renamed if written[name] in every}
        if twice:
            self.collected.lacks.append(f"{_listed(sorted(written[name] for name in twice))} is the name of two files")
        named = {path: [written[name] for name in names if name not in twice] for path, names in found.names.items()}
        return {path: names for path, names in named.items() if names}

    def _considerate(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the parts of a file, resting after each."""
        began = self._clock.monotonic()
        for chunk in chunks:
            yield chunk
            ended = self._clock.monotonic()
            if self._deadline - ended > self._settings.timeout / 2:
                # The VM waits meanwhile: what it sends fills the connection, and no more is read.
                time.sleep(self._rest_of(ended - began))
            began = self._clock.monotonic()

    def _take(self, connection: Connection, wanted: dict[str, list[str]]) -> None:
        """Write the wanted files of a tar, up to the first that is too large; the rest stays wanted.

        Raises OSError if the host has no room for a file, which stays wanted.
        """
        packed = vms.download_files(
            connection, sorted(wanted), max_bytes=self._settings.max_bytes, timeout=self._left()
        )
        with closing(packed):
            for file in packed:
                original = self._kept.get(file.same_as or "")
                if file.path not in wanted or (file.same_as is not None and original is None):
                    continue
                names = wanted[file.path]
                if not self._has_room((original or file).file_size):
                    self._too_large += names
                    del wanted[file.path]
                    return
                if original is None and file.file_size > self._store.free():
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if original is None:
                    files, build = self._store.files, self._store.build_uuid
                    written = files.write(build, names[0], self._considerate(file.chunks))
                    original = self._keep(file.path, replace(written, executable=file.executable))
                    names = names[1:]
                for name in names:
                    if self._has_room(original.file_size):
                        self._keep(file.path, self._shared(original, name))
                    else:
                        self._too_large.append(name)
                del wanted[file.path]
        if wanted:
            changed = sorted(name for names in wanted.values() for name in names)
            self.collected.lacks.append(f"{_listed(changed)} changed or were removed meanwhile")
            wanted.clear()

    def _has_room(self, size: int) -> bool:
        return self.collected.bytes + size <= self._settings.max_bytes

    def _shared(self, original: NewArtifact, name: str) -> NewArtifact:
        """Return a kept file under another name; they share their bytes."""
        files, build = self._store.files, self._store.build_uuid
        return replace(original, uuid=files.link(files.path(build, original.uuid), build), path=name)

    def _keep(self, path: str, kept: NewArtifact) -> NewArtifact:
        self._host_error = None
        self._kept[path] = kept
        self.collected.keep(kept)
        return kept


@dataclass(slots=True)
class _Found:
    """The files that globs match, under at most ``most`` names, and what else was found."""

    most: int
    names: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0
    kept: int = 0
    matched: set[int] = field(default_factory=set)
    outside: list[str] = field(default_factory=list)
    circles: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    special: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def add(self, path: str, name: str) -> None:
        """Count a name of a file, and keep it among the first."""
        self.count += 1
        if self.kept < self.most:
            self.kept += 1
            self.names.setdefault(path, []).append(name)


def _folders_above(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")


def _raw(path: str) -> bytes:
    return path.encode(errors="surrogateescape")


def _listed(names: Sequence[str]) -> str:
    """Format the first few names for a message."""
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return (
        ", ".join(json.dumps(_raw(name).decode(errors="replace"), ensure_ascii=False) for name in names[:_MAX_NAMES])
        + more
    )
