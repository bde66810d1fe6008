"""The folders of a state directory, and the type of the kinds of files that its writers declare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

ARTIFACTS = "artifacts"
DATABASE = "ci-daemon.sqlite3"
KEY = "secret.key"
LOGS = "logs"
SOURCES = "sources"

_PART = r"[a-z0-9][a-z0-9-]{0,62}"
_PLACE = re.compile(r"\{[a-z]+\}")


@dataclass(frozen=True)
class FileKind:
    """One kind of file: the names of its files, and the rows that they belong to.

    Writers, backups and restores all take the names of files from here, so that no file is written that a backup does
    not know.

    ``folder`` is a folder of the state directory. ``template`` is the path in it, with variable parts in braces.
    ``rows`` is a SELECT of these parts, in their order, for all files that belong to rows. It is None if backups leave
    the files out: they exist only while another file is written, or are useless without something that backups leave
    out too. ``always`` means that each file of ``rows`` exists.
    """

    folder: str
    template: str
    rows: str | None = None
    always: bool = False

    def name(self, *parts: str | int) -> str:
        """Return the path of a file, relative to the folder. Raises ValueError if a part is invalid."""
        values = iter(parts)
        name = _PLACE.sub(lambda _: str(next(values)), self.template)
        if not self._pattern.fullmatch(name):
            raise ValueError(f"{name!r} does not match {self.template}")
        return name

    def has(self, path: str) -> bool:
        """Tell whether a path, relative to the state directory, is of this kind."""
        folder, _, name = path.partition("/")
        return folder == self.folder and self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_PART.join(map(re.escape, _PLACE.split(self.template))), re.ASCII)
