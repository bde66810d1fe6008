"""The lines that the source of a build has and that of another has not, in a confined process."""

from __future__ import annotations

import gzip
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from actors.builds.attempt.workspace import source_manifest
from actors.vms import SourceError
from storage import ManifestUnreadable
from storage.files import Bounds, EntryKind, WorkFailed, differences, entries_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from storage import Build, Storage

_BOUNDS = Bounds(cpu_seconds=20, memory_bytes=256 << 20, seconds=60)
_MOST_FILES = 500
_LARGEST_FILE = 2**20
_MOST_BYTES = 32 * 2**20
_LARGEST_SOURCE = 4 * 2**30

_Part = tuple[str, int, int]
"""A file's path, and where its bytes are in a decompressed archive: their start and size."""


def changed_lines(storage: Storage, build: Build, before: Build, paths: Collection[str]) -> Mapping[str, int] | None:
    """Return the mask of the new and changed lines in each of these files that has some.

    None if a source is gone or cannot be read, or if this takes too long.
    """
    if not build.has_source or not before.has_source:
        return None
    try:
        new, old = (source_manifest(storage, each, _LARGEST_SOURCE) for each in (build, before))
        differing = [
            each.path
            for each in differences(new, old)
            if each.after is EntryKind.FILE and each.path.decode(errors="replace") in paths
        ][:_MOST_FILES]
        if not differing:
            return {}
        parts = [
            [
                (each.path.decode(errors="replace"), each.start, each.size)
                for each in entries_at(manifest, differing)
                if each.kind is EntryKind.FILE and each.size <= _LARGEST_FILE
            ]
            for manifest in (new, old)
        ]
        archives = [str(storage.sources.path(each.uuid)) for each in (build, before)]
        found = storage.confinement.run(
            changed_in, archives, parts, bounds=_BOUNDS, owner=build.organization_slug, errors=(OSError, EOFError)
        )
    except (ManifestUnreadable, SourceError, WorkFailed, OSError, EOFError):
        return None
    return {path: int(mask, 16) for path, mask in found.items()}


def changed_in(archives: list[str], parts: list[list[_Part]]) -> dict[str, str]:
    """Return the masks, in hexadecimal digits, by path. Runs in another process."""
    new, old = (dict(_contents(archive, files)) for archive, files in zip(archives, parts, strict=True))
    masks = {path: _changed(old.get(path, b"").splitlines(), lines.splitlines()) for path, lines in new.items()}
    return {path: f"{mask:x}" for path, mask in masks.items() if mask}


def _contents(archive: str, files: list[_Part]) -> Iterator[tuple[str, bytes]]:
    left = _MOST_BYTES
    with gzip.open(archive) as unpacked:
        for path, start, size in sorted(files, key=lambda each: each[1]):
            left -= size
            if left < 0:
                return
            unpacked.seek(start)
            yield path, unpacked.read(size)


def _changed(old: list[bytes], new: list[bytes]) -> int:
    """Return the mask of the lines of ``new`` that are not in ``old``, from line 1."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    end = 0
    while end < min(len(old), len(new)) - same and old[-1 - end] == new[-1 - end]:
        end += 1
    matcher = SequenceMatcher(None, old[same : len(old) - end], new[same : len(new) - end])
    mask = 0
    for kind, _, _, first, last in matcher.get_opcodes():
        if kind in {"insert", "replace"}:
            mask |= ((1 << (last - first)) - 1) << (same + first + 1)
    return mask
