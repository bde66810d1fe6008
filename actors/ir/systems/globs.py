"""Globs of files of other systems as those of the language. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.systems.jobs import label

if TYPE_CHECKING:
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_SPECIAL = frozenset("?+[]!\\{}$")


def file_glob(pattern: str) -> str | None:
    """Return a glob of files as one of the language, where ``**`` is a whole segment; None if it has none."""
    if not pattern or _SPECIAL & set(pattern) or label(pattern) != pattern or pattern.startswith(("/", "-")):
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
    """Note that a glob whose last segment may name a folder also matches all below it here."""
    last = glob.rpartition("/")[2]
    if last not in {"**", ""} and ("." not in last or last == "*"):
        why = f"{label(glob)} is kept, and matches what is below a folder of this name, too"
        omissions.add(at, key, why)
