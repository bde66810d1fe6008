"""Names in a state directory: its database, its key, and each kind of the other files."""

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


RENDER_LOG = "render"
"""Takes the place of a job's UUID in the name of a render's log."""

_LOGS_OF_ROWS = f"""
SELECT builds.uuid, jobs.uuid, attempts.number
FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN builds ON builds.id = jobs.build_id
WHERE builds.logs_expired_at IS NULL
UNION ALL
SELECT builds.uuid, jobs.uuid, 0 FROM jobs JOIN builds ON builds.id = jobs.build_id
WHERE builds.logs_expired_at IS NULL AND jobs.cache_hit = 1 AND jobs.attempt = 0
UNION ALL
SELECT builds.uuid, '{RENDER_LOG}', 1 FROM renders JOIN builds ON builds.id = renders.build_id
WHERE builds.logs_expired_at IS NULL AND renders.finished_at IS NOT NULL
"""  # noqa: S608 - a constant

INDEX = FileKind(LOGS, "{build}/{job}/{attempt}.idx", _LOGS_OF_ROWS)
LOG = FileKind(LOGS, "{build}/{job}/{attempt}.log", _LOGS_OF_ROWS)
"""Copied after its index: readers ignore bytes that the index does not name yet."""

ARCHIVE = FileKind(
    SOURCES,
    "{build}.tar.gz",
    "SELECT uuid FROM builds WHERE finished_at IS NULL AND has_source = 1",
    always=True,
)
"""Backups leave out the archives of finished builds, which only a rebuild needs."""

PARTIAL = FileKind(SOURCES, "{build}.partial")
MANIFEST = FileKind(SOURCES, "{build}.manifest")
"""Without rows: it is useful only with disks, which backups leave out."""

PARTIAL_MANIFEST = FileKind(SOURCES, "{build}.manifest.{token}.partial")

ARTIFACT = FileKind(
    ARTIFACTS,
    "{build}/{artifact}",
    """
    SELECT builds.uuid, artifacts.uuid FROM artifacts JOIN builds ON builds.id = artifacts.build_id
    WHERE builds.artifacts_expired_at IS NULL
    """,
    always=True,
)

FILE_KINDS = (ARCHIVE, PARTIAL, MANIFEST, PARTIAL_MANIFEST, INDEX, LOG, ARTIFACT)
"""In the order in which a backup may copy them."""
