"""Files that jobs keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


@immutable
class NewArtifact:
    """A written file without a row yet. ``path`` is relative to the workspace, ``sha256`` in hex."""

    uuid: str
    path: str
    file_size: int
    sha256: str


@immutable
class Artifact:
    """A file that a job keeps."""

    id: int
    uuid: str
    build_uuid: str
    job_uuid: str
    path: str
    mime_type: str
    file_size: int
    sha256: str
    created_at: datetime

    @property
    def filename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@immutable
class PastArtifact:
    """An artifact, with the number and commit of its build, and the step that kept it."""

    number: int
    commit: str | None
    step_key: str
    artifact: Artifact
