"""Records of the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


@immutable
class AuditEntry:
    """One change.

    ``actor`` is the name of a user of the host, or the e-mail address of a user of the service. ``action`` is a
    command, or an operation id of the API. ``subject`` names the changed row, ``organization`` the slug of its
    organization. ``origin`` is an address or a terminal. The last two are None in entries of older releases.
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


@immutable
class NewEntry:
    """An entry to write, with the fields of `AuditEntry`."""

    actor: str
    action: str
    subject: str
    note: str
    origin: str | None = None
    organization: str | None = None


@immutable
class AuditFilter:
    """A query for entries; all fields that are set must match.

    ``since`` is inclusive, ``until`` exclusive. ``action`` may contain wildcards as in GLOB: ``org *``.
    """

    since: datetime | None = None
    until: datetime | None = None
    actor: str | None = None
    action: str | None = None
    organization: str | None = None
