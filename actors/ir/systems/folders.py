"""Folders that other systems cache, as those that a job keeps. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.systems.jobs import label

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = "its folders are kept for each branch, whatever its key says, and laid in where nothing is there yet"
"""The note on a cache whose folders are all kept."""

NOT_KEPT = "it is not kept: name the folders in `keep` of the jobs"
"""The note on a cache whose folders are not known."""

MOST_FOLDERS = 8
"""The most folders of a job that are kept of another system's."""

_SPECIAL = frozenset("*?[]{}!$\\")


def kept_folder(path: str) -> str | None:
    """Return the path of a cached folder as `keep` has it; None if it cannot be kept."""
    folder = path.strip().removeprefix("./").rstrip("/")
    inside = folder.removeprefix("~/")
    known = bool(inside) and not inside.startswith("/") and not _SPECIAL & set(inside) and label(folder) == folder
    return folder if known and not {".", "..", "~", ""} & set(inside.split("/")) else None


def kept_folders(paths: Iterable[str]) -> list[str] | None:
    """Return the folders of a cache, or None if one of them cannot be kept."""
    found = [kept_folder(path) for path in paths if path.strip()]
    folders = list(dict.fromkeys(each for each in found if each is not None))
    return folders if None not in found and 0 < len(folders) <= MOST_FOLDERS else None
