"""Work of renders in a confined process: check an archive, find its pipelines, read those in YAML.

What reads YAML is imported only where there is some, or by `warm`.
"""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actors.vms import write_source_manifest
from storage.files import entries_at, entries_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Entry

FOLDER = ".hm"
_SUFFIXES = (".yml", ".yaml")
_MOST_ENTRIES = 2_000
_MEMORY = "/dev/shm"  # noqa: S108 - so that a sample is on no disk, where the host has it
_SAMPLE = b"jobs: {build: {run: make, env: {A: b}}}\n"

Place: TypeAlias = "tuple[str, str, int, int]"
"""The name, kind, start and size of a file of an archive."""


class _Found(NamedTuple):
    """The files of pipelines: in `.hm`, in folders of it, of others if it is empty, and in Python."""

    own: list[Place]
    of_jobs: list[Place]
    of_others: list[Place]
    scripts: list[Place]

    @property
    def words(self) -> str:
        """The files that are read, as messages call them; empty if none are."""
        if self.of_others:
            return f"{self.of_others[0][0]} and files beside it"
        return f"the YAML files in {FOLDER}" if self.own else ""


def is_yaml_name(name: str) -> bool:
    """Tell whether the name of a file says that it is YAML."""
    return name.endswith(_SUFFIXES)


def check_and_read(archive: str, manifest: str, max_bytes: int, sha256: str, now: float) -> Iterator[Any]:
    """Check an archive, write its manifest, and yield in words what is read of it; then what was read.

    The latter is as `read_again` returns it, and does not come after empty words. Raises SourceError,
    DatabaseUnavailable and OSError.
    """
    write_source_manifest(Path(archive), Path(manifest), max_bytes, sha256)
    found = _found(Path(manifest))
    yield found.words
    if found.words:
        yield _read(archive, manifest, found, now, {})


def read_again(archive: str, manifest: str, now: float, others: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the pipelines of an archive with files of other repositories, or all mistakes.

    They are ``alone`` if no file has to be rendered.
    """
    return _read(archive, manifest, _found(Path(manifest)), now, others)


def read_documents(
    archive: str, manifest: str, documents: str, now: float, others: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """Return the pipelines of the documents that Python files have made, or all mistakes in them."""
    from actors.render.yaml_reading import read  # noqa: PLC0415 - pydantic

    found = _found(Path(manifest))
    return read(archive, manifest, [], documents, found.of_jobs, others, now, found.scripts)


def warm() -> None:
    """Check and read an archive of our own, as far as the host has room for it."""
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with suppress(OSError), TemporaryDirectory(dir=folder) as made:
        archive = Path(made, "archive")
        with tarfile.open(archive, "w:gz") as tar:
            member = tarfile.TarInfo(f"{FOLDER}/ci.yml")
            member.size = len(_SAMPLE)
            tar.addfile(member, io.BytesIO(_SAMPLE))
        list(check_and_read(str(archive), str(Path(made, "manifest")), 1 << 20, "", 0.0))


def _found(manifest: Path) -> _Found:
    below = entries_below(manifest, FOLDER.encode(), _MOST_ENTRIES)
    places = [(each.path.count(b"/") == 1, _place(each)) for each in below]
    own = [place for is_own, place in places if is_own]
    of_jobs = [place for is_own, place in places if not is_own and is_yaml_name(place[0])]
    return _Found(
        own=[place for place in own if is_yaml_name(place[0])],
        of_jobs=of_jobs,
        of_others=[] if own else _of_others(manifest),
        scripts=[place for _, place in places if place[0].endswith(".py")],
    )


def _of_others(manifest: Path) -> list[Place]:
    """Return the files of other systems, which are rendered where a repository has none of its own."""
    from actors.ir.systems import FOLDERS, TOP, files_of_others  # noqa: PLC0415 - for repositories without .hm alone

    found = entries_at(manifest, [name.encode() for name in TOP])
    found += [each for folder in FOLDERS for each in entries_below(manifest, folder.encode(), _MOST_ENTRIES)]
    places = {place[0]: place for place in map(_place, found)}
    return [places[name] for name in files_of_others(places)]


def _place(entry: Entry) -> Place:
    return entry.path.decode(errors="replace"), entry.kind, entry.start, entry.size


def _read(archive: str, manifest: str, found: _Found, now: float, others: dict[str, dict[str, str]]) -> dict[str, Any]:
    from actors.render.yaml_reading import read, translate  # noqa: PLC0415 - pydantic

    if found.of_others:
        return {**translate(archive, found.of_others, now), "wanted": [], "alone": True}
    answer = read(archive, manifest, found.own, "[]", found.of_jobs, others, now)
    return {**answer, "notes": [], "alone": not any(name.count("/") == 1 for name, *_ in found.scripts)}
