"""Builds that the service renders, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


@immutable
class Render:
    """The render of a build. ``source_url`` is the URL of its archive, None if the archive is on the host.

    ``lease_id`` is the lease of its latest VM; ``rejected`` is True if the build was refused.
    """

    build_id: int
    organization_id: int
    source_url: str | None
    lease_id: int | None
    finished_at: datetime | None
    rejected: bool


@immutable
class Rendered:
    """The result of rendering an archive: the discovery envelope as JSON, and the output of the files."""

    envelope: str
    log: bytes
