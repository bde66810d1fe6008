"""The audit of an organization (wire-decisions.md, "Who may do what")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Self

import storage
from api.operations.operation import GET, Call, Span, operation
from api.operations.things import ORGANIZATION, ThisMembership
from storage import AuditFilter, Page, Role, immutable


@immutable
class AuditEntry:
    """A change; ``action`` is an operation of the API, or a command of the host's owner.

    ``origin`` is the address that the change came from; null for those of the host's owner.
    """

    uuid: str
    at: datetime
    actor: str
    action: str
    subject: str
    note: str
    origin: str | None

    @classmethod
    def of(cls, entry: storage.AuditEntry) -> Self:
        """Return the record of a stored entry, without the terminal of the host's owner."""
        origin = entry.origin if "@" in entry.actor else None
        return cls(entry.uuid, entry.at, entry.actor, entry.action, entry.subject, entry.note, origin)


@operation("listAuditEntries", GET, f"{ORGANIZATION}/audit", "A page of changes.", role=Role.ADMIN)
def list_audit_entries(call: Call, membership: ThisMembership, span: Span) -> Page[AuditEntry]:
    """List who changed what in the organization, newest first; needs the role admin."""
    wanted = AuditFilter(organization=membership.organization.slug)
    page = call.storage.audit.page(span.limit, span.after, wanted)
    return Page(tuple(map(AuditEntry.of, page.rows)), page.next_key)
