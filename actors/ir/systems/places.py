"""Places of files of Woodpecker and builds.sr.ht in a repository. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WOODPECKER = tuple(map(re.compile, (r"\.woodpecker/[^/]+\.ya?ml", r"\.woodpecker\.yaml", r"\.woodpecker\.yml")))
"""The places of Woodpecker's files, of which it reads the first that has any."""

SOURCEHUT = re.compile(r"\.build\.ya?ml|\.builds/[^/]+\.ya?ml")
"""The places of manifests of builds.sr.ht."""


FOLDERS = (".woodpecker", ".builds")
"""The folders of such files, and `TOP` those at the top of a repository."""

TOP = (".woodpecker.yml", ".woodpecker.yaml", ".build.yml", ".build.yaml")


def files_of_others(paths: Iterable[str]) -> list[str]:
    """Return the files of a repository that are rendered as they are, by their paths."""
    given = sorted(paths)
    places = ([each for each in given if place.fullmatch(each)] for place in _WOODPECKER)
    return [*next(filter(None, places), []), *(each for each in given if SOURCEHUT.fullmatch(each))]


def name_of(path: str) -> str:
    """Return the name of a file as others of its folder name it; of one at the top of a repository `ci`."""
    name = path.rpartition("/")[2].rpartition(".")[0].lstrip(".")
    return "ci" if name in {"woodpecker", "build", "drone"} else name
