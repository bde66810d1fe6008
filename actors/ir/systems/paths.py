"""Globs and cached folders of other systems as the language has them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.systems.jobs import label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions


_NOT_IN_GLOBS = frozenset("?+[]!\\{}$")


def file_glob(pattern: str) -> str | None:
    """Return a glob in the language, where ``**`` is a whole segment; None if it cannot be written there."""
    if not pattern or _NOT_IN_GLOBS & set(pattern) or label(pattern) != pattern or pattern.startswith(("/", "-")):
        return None
    segments: list[str] = []
    for each in pattern.split("/"):
        if "**" not in each or each == "**":
            segments.append(each)
        elif each.startswith("**") and "**" not in each[2:]:
            segments += ["**", f"*{each[2:]}"]
        else:
            return None
    return None if ".." in segments else "/".join(segments)


def is_file(path: str) -> bool:
    """Tell whether a path is that of one file, as far as its name tells."""
    return not path.endswith("/") and not set("*?[]") & set(path) and "." in path.rpartition("/")[2].strip(".")


def tell_of_folders(at: Located, key: str, glob: str, omissions: Omissions) -> None:
    """Note that here a glob takes all files of a folder, if its last segment may name one."""
    last = glob.rpartition("/")[2]
    if last not in {"**", ""} and ("." not in last or last == "*"):
        why = f"{label(glob)} is kept, and matches what is below a folder of this name, too"
        omissions.add(at, key, why)


KEPT = "its folders are kept for each branch, whatever its key says, and laid in where nothing is there yet"
"""The note on a cache whose folders are all kept."""

NOT_KEPT = "it is not kept: name the folders in `keep` of the jobs"
"""The note on a cache whose folders are not known."""

MOST_FOLDERS = 8
"""The most cached folders of another system's job that are kept."""

_NOT_IN_FOLDERS = frozenset("*?[]{}!$\\")


def kept_folder(path: str) -> str | None:
    """Return the path of a cached folder as `keep` has it; None if it cannot be kept."""
    folder = path.strip().removeprefix("./").rstrip("/")
    inside = folder.removeprefix("~/")
    plain = label(folder) == folder and not inside.startswith("/") and not _NOT_IN_FOLDERS & set(inside)
    return folder if plain and not {".", "..", "~", ""} & set(inside.split("/")) else None


def kept_folders(paths: Iterable[str]) -> list[str] | None:
    """Return the folders of a cache, or None if one of them cannot be kept."""
    found = [kept_folder(path) for path in paths if path.strip()]
    folders = list(dict.fromkeys(each for each in found if each is not None))
    return folders if None not in found and 0 < len(folders) <= MOST_FOLDERS else None
