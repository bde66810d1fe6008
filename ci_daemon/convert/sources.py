"""The files of a project that are converted: where they are, and what is in them.

A repository may be a stranger's: no link leads out of it, and only regular files of a bounded size are read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from actors.ir.systems import EMPTY, MAX_BYTES, Located, NotReadable, read, read_all
from ci_daemon.convert.kinds import (
    GITLAB_NAMES,
    OTHER_PLACES,
    WOODPECKER_PLACES,
    WORKFLOW_FOLDERS,
    Kind,
    has_documents,
    kind_by_name,
    other_files,
    refuse_other_form,
    refuse_other_name,
    refuse_other_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_MATCHES = 150
_MAX_SEEN = 20_000
_MAX_STARS = 6


_MAX_DOCUMENTS = 50


def read_documents(path: Path) -> tuple[Located, ...]:
    """Return the documents of a file: several if it is one of Drone, else one. Raises NotReadable."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow a link
    refuse_other_name(place)
    kind, text = kind_by_name(place), _text(path)
    if kind is Kind.DRONE or (kind is None and has_documents(text)):
        return read_all(text, most=_MAX_DOCUMENTS)
    return (read_all(text, most=1) or (EMPTY,)) if kind is not None else (read_file(path),)


def read_file(path: Path, name: str | None = None) -> Located:
    """Return the document of a file.

    ``name`` is put into its values, if it is another file than the one that was given.
    Raises NotReadable, also for another system's file.
    """
    refuse_other_name(Path(os.path.abspath(path)))  # noqa: PTH100 - `resolve` would follow a link
    text = _text(path)
    try:
        document = read(text, name)
    except NotReadable:
        refuse_other_text(text)
        raise
    if not document.mapping():
        refuse_other_text(text)
    refuse_other_form(document)
    return document


def _text(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                message = "it is no regular file"
                raise NotReadable(message)
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        message = error.strerror or str(error)
        raise NotReadable(message) from error
    if len(content) > MAX_BYTES:
        message = f"it has more than {MAX_BYTES >> 10} KiB"
        raise NotReadable(message)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"it is not UTF-8 text: byte {error.start + 1} is none"
        raise NotReadable(message) from error


class Project:
    """The root of a repository, into which a pipeline is written, and the files of it that are converted."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.root = root
        self.files = tuple(files)

    @classmethod
    def at(cls, path: Path) -> Project:
        """Return the project of a folder, or of one file. Raises NotReadable if there is nothing to convert."""
        if not path.is_dir():
            return cls(_root_of(path), [path])
        found = [path / name for name in GITLAB_NAMES if os.path.lexists(path / name)]
        for folder in WORKFLOW_FOLDERS:
            found += sorted(each for each in (path / folder).glob("*") if each.suffix in {".yml", ".yaml"})
        found += next(filter(None, (_at(path, place) for place in WOODPECKER_PLACES)), [])
        found += [each for place in OTHER_PLACES for each in _at(path, place)]
        for each in found:
            if not _is_inside(path, each):
                message = f"{each} leads out of {path}, or nowhere"
                raise NotReadable(message)
        if not found:
            other = other_files(lambda name: (path / name).exists())
            places = (
                f"{WOODPECKER_PLACES[-1]}, {', '.join(OTHER_PLACES)}, nor workflows in {', '.join(WORKFLOW_FOLDERS)}"
            )
            why = f"{path} has neither {GITLAB_NAMES[0]}, {places}: give a file"
            raise NotReadable(other or why)
        return cls(path, found)

    def included(self, pattern: str) -> list[tuple[str, Located]]:
        """Return the files of a path or pattern below the root, with their names. Raises NotReadable."""
        name = pattern.lstrip("/")
        if not name or ".." in name.split("/") or "\0" in name or len(name) > 1_000:  # noqa: PLR2004 - no path is longer
            message = f"include of {' '.join(pattern.split())[:100]}: it leads out of the repository"
            raise NotReadable(message)
        paths = self._matches(name) if "*" in name else [self.root / name]
        found = []
        for path in paths:
            shown = path.relative_to(self.root).as_posix()
            if not path.exists():
                message = f"include of {shown}: there is no such file"
                raise NotReadable(message)
            if not _is_inside(self.root, path):
                message = f"include of {shown}: it leads out of the repository"
                raise NotReadable(message)
            try:
                found.append((shown, read_file(path, shown)))
            except NotReadable as error:
                message = f"{shown}: {error}"
                raise NotReadable(message) from error
        return found

    def _matches(self, pattern: str) -> list[Path]:
        """Return the files that a pattern with ``*`` and ``**`` matches, by name."""
        found: list[Path] = []
        if pattern.count("**") > 1 or pattern.count("*") > _MAX_STARS:
            message = f"include of {pattern}: it has too many stars"
            raise NotReadable(message)
        for seen, path in enumerate(self.root.glob(pattern)):
            if seen > _MAX_SEEN or len(found) > _MAX_MATCHES:
                message = f"include of {pattern}: it matches too many files"
                raise NotReadable(message)
            if path.suffix in {".yml", ".yaml"} and path.is_file():
                found.append(path)
        if not found:
            message = f"include of {pattern}: no file matches"
            raise NotReadable(message)
        return sorted(found)


def _at(tree: Path, place: str) -> list[Path]:
    """Return the YAML files of a place, by name, also those that are links."""
    folder, _, star = place.rpartition("/")
    if not star.startswith("*"):
        return [tree / place] if os.path.lexists(tree / place) else []
    return sorted(each for each in (tree / folder).glob("*") if each.suffix in {".yml", ".yaml"})


def _root_of(file: Path) -> Path:
    """Return the root of the repository of a file: above a folder of workflows, or where its `.git` is."""
    folder = Path(os.path.abspath(file)).parent  # noqa: PTH100 - `resolve` would follow the file, which may be a link
    if "/".join(folder.parts[-2:]) in WORKFLOW_FOLDERS:
        return folder.parent.parent
    if folder.name in {".woodpecker", ".builds"}:
        return folder.parent
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _is_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
    except (OSError, RuntimeError):
        return False
