"""Artifacts as a tree of folders, one for each job; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage import Artifact

_DEEPEST = 16


@immutable
class KeptFile:
    """An artifact with its name in its folder."""

    name: str
    artifact: Artifact


@immutable
class Folder:
    """A folder, or a job at the root. A folder that has nothing but a folder is one with it: ``a/b``."""

    name: str
    folders: tuple[Folder, ...]
    files: tuple[KeptFile, ...]

    @property
    def count(self) -> int:
        """The number of files below it."""
        return len(self.files) + sum(folder.count for folder in self.folders)

    @property
    def size(self) -> int:
        """The bytes of the files below it."""
        own = sum(file.artifact.file_size for file in self.files)
        return own + sum(folder.size for folder in self.folders)


def trees(artifacts: Iterable[Artifact], job_names: Mapping[str, str]) -> list[Folder]:
    """Return a folder for each job, in the order of its first artifact.

    What is deeper than 16 folders keeps the rest of its path as its name.
    """
    by_job: dict[str, list[tuple[tuple[str, ...], Artifact]]] = {}
    for artifact in artifacts:
        by_job.setdefault(artifact.job_uuid, []).append((_parts(artifact.path), artifact))
    return [_folder(job_names.get(uuid, ""), kept) for uuid, kept in by_job.items()]


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/", _DEEPEST))


def _folder(name: str, kept: Iterable[tuple[tuple[str, ...], Artifact]]) -> Folder:
    files: list[KeptFile] = []
    below: dict[str, list[tuple[tuple[str, ...], Artifact]]] = {}
    for (first, *rest), artifact in kept:
        if rest:
            below.setdefault(first, []).append((tuple(rest), artifact))
        else:
            files.append(KeptFile(first, artifact))
    folders = (_joined(_folder(each, found)) for each, found in sorted(below.items()))
    return Folder(name, tuple(folders), tuple(sorted(files, key=lambda file: file.name)))


def _joined(folder: Folder) -> Folder:
    if folder.files or len(folder.folders) != 1:
        return folder
    (only,) = folder.folders
    return Folder(f"{folder.name}/{only.name}", only.folders, only.files)
