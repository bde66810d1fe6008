"""The files of a state directory by kind; each kind is declared once, by what stores its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

__all__ = ["ARTIFACTS", "DATABASE", "KEY", "LOGS", "SOURCES", "FileKind"]

ARTIFACTS = "artifacts"
DATABASE = "ci-daemon.sqlite3"
KEY = "secret.key"
LOGS = "logs"
SOURCES = "sources"

_PART = r"[a-z0-9][a-z0-9-]{0,62}"
_PLACE = re.compile(r"\{[a-z]+\}")


@dataclass(frozen=True)
class FileKind:
    """One kind of file: how its files are named, and which of them the database knows.

    Writers take the names of their files from here, backups the names of what they save, and restores the names that
    they accept. So no file is written that a backup does not know.

    ``folder`` is one of the state directory's. ``template`` is the path below it, with parts that vary in braces.
    ``rows`` is a SELECT of these parts, in their order, for all files that belong to rows. It is None where no backup
    has them: they are only there while others are written, or of use only with what no backup has. ``always`` says that
    each file of ``rows`` exists.
    """

    folder: str
    template: str
    rows: str | None = None
    always: bool = False

    def name(self, *parts: str | int) -> str:
        """Return the path of a file below the folder. Raises ValueError where a part cannot be one."""
        values = iter(parts)
        name = _PLACE.sub(lambda _: str(next(values)), self.template)
        if not self._pattern.fullmatch(name):
            raise ValueError(f"{name!r} is not {self.template}")
        return name

    def has(self, path: str) -> bool:
        """Tell whether a path below the state directory is of this kind."""
        folder, _, name = path.partition("/")
        return folder == self.folder and self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_PART.join(map(re.escape, _PLACE.split(self.template))), re.ASCII)
