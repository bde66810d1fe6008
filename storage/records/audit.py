"""Who changed what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["AuditEntry", "AuditFilter"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act.

    ``actor`` is a user of the host, by name, or of the service, by e-mail address. ``action`` is a command, or the id
    of an operation of the API. ``subject`` is what it changed, ``organization`` the slug of whose that is. ``origin``
    is an address or a terminal. Entries of releases that did not note the last two have None there.
    """

    id: int
    uuid: str
    at: datetime
    actor: str
    action: str
    subject: str
    note: str
    origin: str | None
    organization: str | None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are asked for: all that fit every field that is given.

    ``since`` is inclusive, ``until`` is not. ``action`` may have the wildcards of GLOB, as in ``org *``.
    """

    since: datetime | None = None
    until: datetime | None = None
    actor: str | None = None
    action: str | None = None
    organization: str | None = None
